"""Takes this machine out of what is to be published, and refuses what must not be published at all.

A report quotes evidence, and evidence quotes whatever a harness printed. Folders of this machine are replaced by what they stand for; a
secret, or the machine's own name, that is left after that is no matter of taste: the report is refused.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import platformdirs

from pytest_harness.reports.secrets import secret_in

_SECRET_NAME = re.compile(r"(?i)key|token|secret|password|passwd|credential")
_INDEX_NAME = re.compile(r"(?i)(?:index_url|registry|proxy)$")
_SHORTEST = 8
"""A variable with a shorter value is no secret that could be told from ordinary text."""


def secret_values() -> dict[str, str]:
    """What this process was told and nobody else is to know, by the names of its variables: value -> what it is."""
    told = os.environ.items()
    return {value: f"the value of {name}" for name, value in told if _SECRET_NAME.search(name) and len(value) >= _SHORTEST}


class Unpublishable(Exception):  # noqa: N818 (it is a state of the text, not an error of ours)
    """A text that must not be published; the message says what is in it and where."""


@dataclass(frozen=True)
class Machine:
    """What of this machine must not be in a published text."""

    folders: Mapping[str, str]
    """Folder -> what stands for it."""
    words: Mapping[str, str] = field(repr=False)
    """Text that is refused -> what it is."""

    @classmethod
    def this(cls, evidence: Path) -> Self:
        """The machine that this runs on. ``evidence`` is the folder that is published."""
        folders = {
            str(evidence.resolve()): "<evidence>",
            str(platformdirs.user_cache_path("harness-conformance")): "<cache>",
            str(Path.cwd()): "<here>",
            str(Path.home()): "<home>",
        }
        # Every sandbox has /root as its home, so that of this machine cannot be told from it.
        kept = {folder: name for folder, name in folders.items() if folder not in ("/", "/root")}
        words = {name: "the name of this machine" for name in (socket.gethostname(), socket.getfqdn()) if len(name) >= _SHORTEST}
        words |= secret_values()
        for name, value in os.environ.items():
            if _INDEX_NAME.search(name) and (host := urlsplit(value).hostname):
                words[host] = f"the host of {name}"
        return cls(kept, words)

    def cleaned(self, document: Mapping[str, Any], where: str) -> dict[str, Any]:
        """The same document with the folders replaced in each of its texts. Raises Unpublishable."""
        longest_first = sorted(self.folders.items(), key=lambda each: -len(each[0]))

        def clean(text: str) -> str:
            for folder, name in longest_first:
                text = text.replace(folder, name)
            return text

        cleaned: dict[str, Any] = _over_texts(dict(document), clean)
        for text in _texts(cleaned):
            if (found := self.refused(text)) is not None:
                raise Unpublishable(f"{where}: {found} is in it, so it is not published; run it again without")
        return cleaned

    def refused(self, text: str) -> str | None:
        """What in the text must not be published; None if nothing."""
        return secret_in(text) or next((what for word, what in self.words.items() if word in text), None)


def _over_texts(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): _over_texts(each, change) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_over_texts(each, change) for each in value]
    return value


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
