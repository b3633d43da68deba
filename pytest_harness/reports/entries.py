"""The report as a flat list of tests, for formats that know nothing else: the verdict of each seam, and each of its requirements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from pytest_harness.reports.counts import is_binding, is_excused, verdict_of
from pytest_harness.reports.model import Report, ReportedFinding, ReportedRequirement, ReportedSeam
from pytest_harness.verdict import Standing, Status

Outcome = Literal["passed", "failed", "error", "skipped", "noted"]
"""``error``: a fault of ours; ``noted``: broken, and speaks against no verdict (a SHOULD, a draft, a known deviation), or was
expected to be."""

VERDICT = "verdict"
"""The id of the entry that stands for the seam as a whole."""


@dataclass(frozen=True)
class Entry:
    """One line of such a list."""

    seam: ReportedSeam
    id: str
    title: str
    outcome: Outcome
    said: Standing | Status
    """What the report itself says of it."""
    message: str
    """Why it is not passed; empty if it is."""
    requirement: ReportedRequirement | None
    """None for the verdict."""

    @property
    def name(self) -> str:
        """What to call it: unique within its seam."""
        return f"{self.id} {self.title}"

    @property
    def labels(self) -> dict[str, str]:
        """What else is known of it, by name."""
        seam = {"harness": self.seam.harness, "sandbox": self.seam.sandbox, "harness_version": self.seam.version, "row": self.seam.row}
        if self.requirement is None:
            return {**seam, "said": self.said}
        draft = {"draft": "true"} if self.requirement.draft else {}
        return {**seam, "requirement": self.id, "family": self.id[:3], "level": self.requirement.level, **draft, "said": self.said}


def entries(report: Report) -> Iterator[Entry]:
    """The verdict of each seam, so that one which is blocked does not look green, and behind it the seam's requirements."""
    for seam in report.seams:
        yield Entry(seam, VERDICT, f"of {seam.name}", _of_verdict(seam), seam.status, _message_of_verdict(seam), None)
        for requirement in seam.requirements:
            outcome = outcome_of(requirement)
            message = "" if outcome == "passed" else _message(requirement)
            yield Entry(seam, requirement.id, requirement.title, outcome, requirement.standing, message, requirement)


def outcome_of(requirement: ReportedRequirement) -> Outcome:
    """Failed only where that speaks against the seam."""
    match requirement.standing:
        case "passed":
            return "passed"
        case "not_exercised" | "unverifiable":
            return "skipped"
        case "error":
            return "noted" if requirement.draft else "error"
        case "failed" | "unstable":
            return "failed" if is_binding(requirement) and not requirement.expected else "noted"
        case "deviation":
            return "noted"


def finding_text(finding: ReportedFinding) -> str:
    """A finding as lines of text, with the command that judges it again."""
    lines = [f"{finding.attempt}: {finding.where}", f"  expected {finding.expected}", f"  seen     {finding.seen}"]
    return "\n".join([*lines, f"  again    {finding.replay}"])


def _of_verdict(seam: ReportedSeam) -> Outcome:
    match seam.status:
        case "validated":
            return "passed"
        case "untested":
            return "skipped"
        case "unstable" | "unsupported" | "blocked":
            return "noted" if is_excused(seam) else "failed"


def _message_of_verdict(seam: ReportedSeam) -> str:
    return "" if seam.status == "validated" else verdict_of(seam)


def _message(requirement: ReportedRequirement) -> str:
    """The first finding, or the reasons, in one line."""
    if requirement.findings and requirement.standing != "deviation":
        first, more = requirement.findings[0], len(requirement.findings) - 1
        rest = f" (and {more} more)" if more else ""
        return f"{requirement.standing}: {first.where}: expected {first.expected}, seen {first.seen}{rest}"
    reasons = "; ".join(requirement.reasons)
    standing = requirement.standing.replace("_", " ")
    return f"{standing}: {reasons}" if reasons else standing
