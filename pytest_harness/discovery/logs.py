"""Where a harness keeps its own session log, by the files that a run has left in its home and what stands in them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from pytest_harness.sandboxes.layout import HOME

_MADE_UP = re.compile(r"\d{4,}|[0-9a-f]{8,}|^[-_]+|(ses|session|run|wd)[-_]\w*\d")
"""Parts of a path that are another in each run: dates, ids, folders named after the work's."""
_NO_LOGS = frozenset({".cache", "cache", "node_modules"})

_NO_PLACES = frozenset({"/", "/tmp", "/var", "/var/tmp", "/logs", "/logs/agent", HOME, f"{HOME}/.config", f"{HOME}/.local/share"})  # noqa: S108
"""Folders in which everybody's files lie."""


def log_place(files: Sequence[str], workdir: str) -> str | None:
    """The file, or the folder above what has another name in each run; None where there is none.

    ``files`` are absolute paths of files that hold the task's words; in the folder that it works in only hidden ones count. Of several
    places the one with the most of them is taken.
    """
    places = [place for file in files if (place := _place(PurePosixPath(file), PurePosixPath(workdir))) is not None]
    if not places:
        return None
    found = max(places, key=lambda place: (places.count(place), _speaks(place), -len(place)))
    return f"~{found.removeprefix(HOME)}" if found.startswith(f"{HOME}/") else found


def _place(path: PurePosixPath, work: PurePosixPath) -> str | None:
    if _NO_LOGS & set(path.parts):
        return None
    kept = PurePosixPath("/")
    if path.is_relative_to(work):
        kept, inside = work, path.relative_to(work)
        if not inside.parts[0].startswith("."):
            return None  # what it worked on
    else:
        inside = path.relative_to("/")
    for part in inside.parts:
        if _MADE_UP.search(part) or work.name in re.split(r"[-_]", part):
            break
        kept /= part
    return None if str(kept) in _NO_PLACES else str(kept)


def _speaks(place: str) -> bool:
    return any(word in place.lower() for word in ("session", "history", "log", "chat", "conversation", "trajector"))
