"""What a test says of one requirement and one attempt, in a form that travels from an xdist worker to the controller."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pytest_harness.contract import Finding, Judgement
from pytest_harness.requirements import Catalogue

PROPERTY = "harness-conformance"


@dataclass(frozen=True)
class Judged:
    """A judgement, and the folder of the evidence that was judged."""

    folder: Path
    judgement: Judgement

    def to_property(self) -> tuple[str, dict[str, Any]]:
        """As an entry of a test's ``user_properties``."""
        judgement = self.judgement
        return PROPERTY, {
            "folder": str(self.folder),
            "requirement": judgement.requirement.id,
            "evidence": judgement.evidence,
            "result": judgement.result,
            "findings": [asdict(finding) for finding in judgement.findings],
            "reason": judgement.reason,
        }

    @classmethod
    def of_properties(cls, properties: list[tuple[str, Any]], catalogue: Catalogue) -> Judged | None:
        """The judgement among a test's ``user_properties``, or None if the test judged nothing."""
        for name, value in properties:
            if name == PROPERTY:
                judgement = Judgement(
                    requirement=catalogue[value["requirement"]],
                    evidence=value["evidence"],
                    result=value["result"],
                    findings=tuple(Finding(**finding) for finding in value["findings"]),
                    reason=value["reason"],
                )
                return cls(Path(value["folder"]), judgement)
        return None
