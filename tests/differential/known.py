"""The differences between the scripted engine and vLLM that are known and stay: read from ``known.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

_FIELDS = {"cases", "aspect", "version", "reason"}


@dataclass(frozen=True)
class Known:
    """A difference in one aspect of the cases whose names match ``cases``, with the vLLM that behaves otherwise, and why it stays."""

    cases: str
    aspect: str
    version: str
    reason: str

    def covers(self, case: str, aspect: str) -> bool:
        """Whether it speaks of this aspect of this case."""
        return aspect == self.aspect and fnmatchcase(case, self.cases)


def read_known(path: Path) -> list[Known]:
    """The list. Raises ValueError for an entry with other fields, or one that says nothing."""
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("difference", [])
    for number, entry in enumerate(entries, start=1):
        if set(entry) != _FIELDS or not all(isinstance(value, str) and value.strip() for value in entry.values()):
            raise ValueError(f"{path}: entry {number} must have texts for {', '.join(sorted(_FIELDS))}, and nothing else")
    return [Known(**entry) for entry in entries]


def unknown(case: str, found: Iterable[str], known: Iterable[Known]) -> list[str]:
    """The aspects in which the engines differ in this case without that being known."""
    entries = list(known)
    return [aspect for aspect in found if not any(entry.covers(case, aspect) for entry in entries)]


def stale(known: Iterable[Known], found: Mapping[str, Iterable[str]], version: str) -> list[str]:
    """A sentence for each entry that is no longer so: it names another version, no case, or a case without that difference."""
    told = []
    for entry in known:
        cases = [case for case in found if fnmatchcase(case, entry.cases)]
        without = [case for case in cases if entry.aspect not in found[case]]
        where = f"the known difference in {entry.aspect!r} of {entry.cases!r}"
        if entry.version != version:
            told.append(f"{where} was seen with vLLM {entry.version}, and this is {version}: look at it again")
        elif not cases:
            told.append(f"{where} matches no case: remove it or correct its name")
        elif without:
            told.append(f"{where} does not occur in: {', '.join(without)}; remove or narrow it")
    return told
