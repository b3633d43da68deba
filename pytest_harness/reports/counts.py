"""What every form of the report counts, in one place, so that all of them say the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pytest_harness.reports.model import Report, ReportedAttempt, ReportedRequirement, ReportedSeam
from pytest_harness.requirements import FAMILIES
from pytest_harness.verdict import Standing

FAILING: tuple[Standing, ...] = ("failed", "unstable", "error")


@dataclass(frozen=True)
class Count:
    """How many requirements of one family are met, broken, and broken by a known deviation."""

    passed: int
    broken: int
    deviations: int

    @classmethod
    def of(cls, standings: Mapping[Standing, int]) -> Count:
        """The count of one family of one seam."""
        return cls(
            passed=standings.get("passed", 0),
            broken=sum(standings.get(standing, 0) for standing in FAILING),
            deviations=standings.get("deviation", 0),
        )

    @property
    def exercised(self) -> int:
        """How many were put to the test at all."""
        return self.passed + self.broken + self.deviations

    def __str__(self) -> str:
        """``7/8 1d``; ``-`` where nothing was exercised, which is not ``0``."""
        if not self.exercised:
            return "-"
        return f"{self.passed}/{self.exercised}" + (f" {self.deviations}d" if self.deviations else "")


def families_of(report: Report) -> tuple[str, ...]:
    """The families of which some seam has a requirement, in the order of the catalogue."""
    return tuple(family for family in FAMILIES if any(family in seam.families for seam in report.seams))


def is_binding(requirement: ReportedRequirement) -> bool:
    """Whether a seam that breaks it is refused: a MUST that is no draft."""
    return requirement.level == "MUST" and not requirement.draft


def is_broken(requirement: ReportedRequirement) -> bool:
    """Whether it speaks against the seam, or would if it were a MUST of the set."""
    return requirement.standing in FAILING


def is_excused(seam: ReportedSeam) -> bool:
    """Whether all that speaks against the seam are failures that were expected."""
    broken = [each for each in seam.requirements if is_broken(each) and is_binding(each)]
    return seam.status in ("unstable", "unsupported") and not seam.stale_deviations and all(each.expected for each in broken)


def did_not_come_up(requirement: ReportedRequirement) -> bool:
    """Whether it was looked for and is required only where it comes up."""
    return requirement.occasional and requirement.standing == "not_exercised" and bool(requirement.results)


def level_of(requirement: ReportedRequirement) -> str:
    """``MUST`` or ``SHOULD``, and that it is not scored where it is a draft."""
    return f"{requirement.level}, a draft that is not scored" if requirement.draft else requirement.level


def verdict_of(seam: ReportedSeam) -> str:
    """``validated``, or ``untested: what is missing``."""
    return f"{seam.status}: {seam.why}" if seam.why else seam.status


def ran_of_required(report: Report) -> str:
    """The sentence that every run ends with."""
    return f"{report.ran} of {report.required} required checks ran"


def reward_of(attempt: ReportedAttempt) -> str:
    """The reward as people read it: what was not graded has none, which is not 0."""
    if attempt.reward is None:
        return "none"
    number = f"{attempt.reward:g}"
    return number if attempt.reward_state == "valid" else f"{number}, which does not count"


def rollouts_of(seam: ReportedSeam) -> str:
    """``3 rollouts, 2 graded, 1 ungraded``: how many there are, and what became of their rewards."""
    valid = sum(attempt.valid for attempt in seam.attempts)
    count = len(seam.attempts)
    rollouts = "1 rollout" if count == 1 else f"{count} rollouts"
    ungraded = seam.rewards.get("ungraded", 0) + seam.rewards.get("ungraded_exception", 0)
    told = [f"{valid} of {rollouts} valid" if valid < count else rollouts, f"{seam.graded} graded"]
    told += [f"{void} graded that do not count"] if (void := seam.rewards.get("invalid", 0)) else []
    told += [f"{ungraded} ungraded"] if ungraded else []
    return ", ".join(told)


def engines_of(seams: Iterable[ReportedSeam]) -> tuple[str, ...]:
    """The engines of these seams' attempts, in the order of their first."""
    return tuple(dict.fromkeys(attempt.engine for seam in seams for attempt in seam.attempts))
