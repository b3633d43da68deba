"""What a process remembers of the attempts that its tests ask for: the evidence of the last few, and of every one why there is none.

The tests of an attempt come together. Whoever asks for an earlier one again has it read from the disk, so a long run takes no more memory
than a short one; but what could not be had is said again, and never tried again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from pytest_harness.evidence import Evidence

Loaded = tuple[Path, Evidence]

MOST = 2
"""The evidence of one attempt is some megabytes; where pytest changes from one to the next, both may be asked for."""


class Memory:
    """By the id of the attempt: its evidence, or why there is none."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._loaded: OrderedDict[str, Loaded] = OrderedDict()
        self._reasons: dict[str, str] = {}

    def get(self, attempt: str, load: Callable[[], Loaded | str]) -> Loaded | str:
        """What is remembered of it, or what ``load`` gives, which is remembered."""
        if attempt in self._reasons:
            return self._reasons[attempt]
        if attempt not in self._loaded:
            loaded = load()
            if isinstance(loaded, str):
                self._reasons[attempt] = loaded
                return loaded
            self._loaded[attempt] = loaded
            if len(self._loaded) > self._most:
                self._loaded.popitem(last=False)
        self._loaded.move_to_end(attempt)
        return self._loaded[attempt]
