"""What one release says of one requirement: it is installed, rolled out, and judged like any other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_harness.bisection.halving import Said
from pytest_harness.contract import judge_one, validity
from pytest_harness.evidence import Evidence
from pytest_harness.provision import ProvisionError
from pytest_harness.requirements import Requirement
from pytest_harness.rollouts.spec import RolloutSpec
from pytest_harness.scenarios import Scenario
from pytest_harness.seams import Seam

RollOut = Callable[[str, RolloutSpec], tuple[Path, Evidence]]
"""Given a version and what is to be rolled out with it: the folder of the evidence, and the evidence. Raises ProvisionError."""


@dataclass(frozen=True)
class Tried:
    """One release in one scenario."""

    version: str
    scenario: str
    said: Said
    why: str
    """In words: what was seen, or why nothing was."""
    folder: Path | None
    """Its evidence; None where it was not rolled out."""
    really: str | None = None
    """The version that ran, as the evidence records it."""


@dataclass(frozen=True)
class Judge:
    """Judges releases by one requirement."""

    requirement: Requirement
    sandbox: str
    engine: str
    seam_of: Callable[[str], Seam]
    """The row of a version."""
    roll_out: RollOut

    def __call__(self, version: str, scenario: Scenario) -> Tried:
        """Roll it out and judge it."""

        def tried(said: Said, why: str, folder: Path | None = None, really: str | None = None) -> Tried:
            return Tried(version, scenario.name, said, why, folder, really)

        seam = self.seam_of(version)
        try:
            folder, evidence = self.roll_out(version, RolloutSpec(seam, self.sandbox, self.engine, scenario))
        except ProvisionError as error:
            return tried("skip", f"it cannot be installed: {error}")
        really = evidence.manifest.versions.get("harness")
        counts = validity(evidence)
        if not counts.valid:
            return tried("skip", f"its rollout counts for nothing; to blame: {counts.blame}: {counts.reason}", folder, really)
        judgement = judge_one(evidence, self.requirement)
        # A known deviation is a fault too, only an excused one: whoever looks for its beginning wants to find it.
        if judgement.result in ("failed", "deviation"):
            shown = judgement.findings[0] if judgement.findings else judgement.reason
            return tried("bad", f"broken: {shown}", folder, really)
        if judgement.result == "passed":
            return tried("good", "met", folder, really)
        return tried("skip", f"{judgement.result.replace('_', ' ')}: {judgement.reason}", folder, really)

    def first(self, version: str, scenarios: Sequence[Scenario], said: Said, told: Callable[[Tried], None]) -> Tried | None:
        """The first of these scenarios in which the release says this; None if it does in none."""
        for scenario in scenarios:
            tried = self(version, scenario)
            told(tried)
            if tried.said == said:
                return tried
        return None
