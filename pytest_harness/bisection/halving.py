"""The search itself: which release next, and what is known when there is none left to try. It knows nothing of harnesses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, log2
from typing import Literal

Said = Literal["good", "bad", "skip"]


@dataclass(frozen=True)
class Found:
    """What came of it: the newest release that is known good, and the first bad one, of which there may be several candidates."""

    last_good: str
    candidates: tuple[str, ...]
    """Oldest first, and the last of them is bad. More than one only where all but it were skipped: one of them is the first bad one."""

    @property
    def first_bad(self) -> str | None:
        """The release that broke it; None where skipped ones may have."""
        return self.candidates[0] if len(self.candidates) == 1 else None


def halve(releases: Sequence[str], judge: Callable[[str], Said]) -> Found:
    """Search between the first release, which is good, and the last, which is bad. Each release is judged at most once.

    What cannot be judged is skipped, and the nearest one beside it is tried instead.
    """
    good, bad = 0, len(releases) - 1
    skipped: set[int] = set()
    while open_ones := [number for number in range(good + 1, bad) if number not in skipped]:
        middle = (good + bad) / 2
        number = min(open_ones, key=lambda each: (abs(each - middle), each))
        said = judge(releases[number])
        if said == "good":
            good = number
        elif said == "bad":
            bad = number
        else:
            skipped.add(number)
    return Found(releases[good], tuple(releases[good + 1 : bad + 1]))


def expected(count: int) -> int:
    """How many of so many releases are about to be judged, both ends included, if none is skipped."""
    return 2 + (ceil(log2(count - 1)) if count > 2 else 0)
