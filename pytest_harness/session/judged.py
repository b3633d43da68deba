"""What a test says of one requirement and one attempt, in a form that travels from an xdist worker to the controller."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pytest_harness.contract import Finding, Judgement
from pytest_harness.requirements import Catalogue

JUDGEMENT = "harness-conformance-judgement"
EVIDENCE = "harness-conformance-evidence"
ENDED = "harness-conformance-ended"


def folder_property(folder: Path) -> tuple[str, str]:
    """The folder of the evidence a test looked at, as an entry of its ``user_properties``."""
    return EVIDENCE, str(folder)


def ended_property(line: str) -> tuple[str, str]:
    """How the rollout ended, for people; empty if it was only read."""
    return ENDED, line


def ended_of(properties: list[tuple[str, Any]]) -> str:
    """That line among a test's ``user_properties``, empty if there is none."""
    return next((str(value) for name, value in properties if name == ENDED), "")


def folder_of(properties: list[tuple[str, Any]]) -> Path | None:
    """The folder among a test's ``user_properties``, or None if it looked at no evidence."""
    return next((Path(value) for name, value in properties if name == EVIDENCE), None)


@dataclass(frozen=True)
class Judged:
    """A judgement, and the folder of the evidence that was judged."""

    folder: Path
    judgement: Judgement
    sabotage: str | None = None
    """The fault that was put into it before."""

    def to_property(self) -> tuple[str, dict[str, Any]]:
        """As an entry of a test's ``user_properties``."""
        judgement = self.judgement
        return JUDGEMENT, {
            "folder": str(self.folder),
            "requirement": judgement.requirement.id,
            "evidence": judgement.evidence,
            "result": judgement.result,
            "findings": [asdict(finding) for finding in judgement.findings],
            "reason": judgement.reason,
        }

    @property
    def facts(self) -> list[tuple[str, str]]:
        """What other plugins and pytest's own ``--junitxml`` show of the test, one plain text each."""
        requirement = self.judgement.requirement
        facts = {
            "requirement": requirement.id,
            "family": requirement.family,
            "level": requirement.level,
            "result": self.judgement.result,
            "rollout": self.judgement.evidence,
        }
        return [*facts.items(), *([("draft", "true")] if requirement.draft else [])]

    @classmethod
    def of_properties(cls, properties: list[tuple[str, Any]], catalogue: Catalogue) -> Judged | None:
        """The judgement among a test's ``user_properties``, or None if the test judged nothing."""
        for name, value in properties:
            if name == JUDGEMENT:
                judgement = Judgement(
                    requirement=catalogue[value["requirement"]],
                    evidence=value["evidence"],
                    result=value["result"],
                    findings=tuple(Finding(**finding) for finding in value["findings"]),
                    reason=value["reason"],
                )
                return cls(Path(value["folder"]), judgement)
        return None
