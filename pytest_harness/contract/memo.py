"""Remembers what was worked out of the evidence that was asked for last: many checks in a row ask for the same."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps

from pytest_harness.evidence.model import Evidence


def once_per_evidence[Result](function: Callable[[Evidence], Result]) -> Callable[[Evidence], Result]:
    """Call ``function`` once for the same evidence. What it returns is shared: nobody may change it."""

    @lru_cache(maxsize=1)
    def remembered(key: _Identity) -> Result:
        return function(key.evidence)

    @wraps(function)
    def ask(evidence: Evidence) -> Result:
        return remembered(_Identity(evidence))

    return ask


class _Identity:
    """Evidence as a key: by which it is, not by what it holds, which would have to be read for every look."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence

    def __hash__(self) -> int:
        return id(self.evidence)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.evidence is self.evidence
