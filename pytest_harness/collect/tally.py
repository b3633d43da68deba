"""Counts what was collected, one episode at a time: the same numbers whatever the order, and never a zero where there is nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

State = Literal["graded", "ungraded", "invalid", "dropped"]
"""``graded``: a reward that counts; ``ungraded``: no reward; ``invalid``: a reward that does not count; ``dropped``: no episode."""


@dataclass
class Tally:
    """How many episodes of each state, and the mean of the rewards that count."""

    counts: dict[State, int] = field(default_factory=lambda: {"graded": 0, "ungraded": 0, "invalid": 0, "dropped": 0})
    _sum: Fraction = Fraction(0)
    """Exact, so that the mean does not depend on the order in which episodes end."""

    def add(self, state: State, reward: float | None) -> None:
        """Count one more. Raises ValueError for a graded one without a finite reward: it would spoil every later mean."""
        if state == "graded":
            if reward is None or isinstance(reward, bool) or not math.isfinite(reward):
                raise ValueError(f"a graded episode needs a finite number as its reward, not {reward!r}")
            self._sum += Fraction(reward)
        self.counts[state] += 1

    @property
    def mean(self) -> float | None:
        """The mean over the graded episodes alone; None while there are none."""
        graded = self.counts["graded"]
        return float(self._sum / graded) if graded else None

    def __str__(self) -> str:
        """``mean reward 0.75 of 4 graded; 1 ungraded, 0 invalid, 0 dropped``."""
        mean = "no mean reward" if self.mean is None else f"mean reward {self.mean:.4g}"
        others = ", ".join(f"{count} {state}" for state, count in self.counts.items() if state != "graded")
        return f"{mean} of {self.counts['graded']} graded; {others}"
