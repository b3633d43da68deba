"""Evaluation tables: who solved what. A cell that nobody ran is missing and never failed, and what was graded stands.

An attempt that was made again, because nothing could be said of it, counts by the first of its tries that was graded: a graded zero is not
replaced by a later try that went better. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from pytest_harness.contract import grade, mean
from pytest_harness.evidence.model import Evidence


@dataclass(frozen=True)
class Cell:
    """One harness in one scenario."""

    attempts: int
    """Different attempts; several tries of one are one."""
    rewards: tuple[float, ...]
    """Of the attempts that were graded."""

    @property
    def state(self) -> Literal["missing", "ungraded", "graded"]:
        """Nobody ran it; it ran and nothing was graded; there is a reward."""
        return "graded" if self.rewards else "ungraded" if self.attempts else "missing"

    @property
    def mean(self) -> float | None:
        """Over the rewards that count; None where there are none."""
        return mean(self.rewards)

    def __str__(self) -> str:
        if self.state != "graded":
            return self.state
        few = "" if len(self.rewards) == self.attempts else f" of {self.attempts}"
        return f"{self.mean:.3g} ({len(self.rewards)}{few})"


MISSING = Cell(0, ())


@dataclass(frozen=True)
class Table:
    """Rows are subjects (harness, version, sandbox, engine), columns scenarios: those that were run, and those that a row declares."""

    scenarios: tuple[str, ...]
    rows: Mapping[str, Mapping[str, Cell]]

    def cell(self, subject: str, scenario: str) -> Cell:
        """The cell, also where nothing is known."""
        return self.rows.get(subject, {}).get(scenario, MISSING)

    @property
    def never_run(self) -> tuple[str, ...]:
        """The scenarios that are declared, and of which nobody has an attempt."""
        return tuple(each for each in self.scenarios if all(self.cell(subject, each).state == "missing" for subject in self.rows))

    def mean(self, subject: str) -> float | None:
        """Each scenario that was graded counts the same; None where none was. ``coverage`` says of how many it is."""
        return mean(self.cell(subject, scenario).mean for scenario in self.scenarios)

    def coverage(self, subject: str) -> tuple[int, int]:
        """Graded cells, and all of the row."""
        return sum(self.cell(subject, scenario).state == "graded" for scenario in self.scenarios), len(self.scenarios)


def evaluation_table(evidences: Iterable[Evidence]) -> Table:
    """The table of these episodes, in whatever order they come."""
    tries: defaultdict[tuple[str, str], defaultdict[int, dict[str, tuple[str, float | None]]]] = defaultdict(lambda: defaultdict(dict))
    scenarios: set[str] = set()
    for evidence in evidences:
        manifest = evidence.manifest
        scenarios |= {manifest.scenario.name, *manifest.seam.scenarios}
        version = manifest.versions.get("harness") or "of unknown version"
        subject = f"{manifest.harness} {version} in {manifest.sandbox} on {manifest.engine}"
        slot = tries[subject, manifest.scenario.name][manifest.attempt]
        slot[manifest.attempt_id] = (manifest.ended_at, grade(evidence).counted)
    rows: defaultdict[str, dict[str, Cell]] = defaultdict(dict)
    for (subject, scenario), attempts in sorted(tries.items()):
        first = (_first_graded(slot) for _, slot in sorted(attempts.items()))
        rows[subject][scenario] = Cell(len(attempts), tuple(reward for reward in first if reward is not None))
    return Table(tuple(sorted(scenarios)), dict(rows))


def _first_graded(slot: Mapping[str, tuple[str, float | None]]) -> float | None:
    return next((reward for _, reward in sorted(slot.values(), key=lambda each: each[0]) if reward is not None), None)
