"""``findings.json`` beside the evidence: what was said of this one attempt. It can be made again from the rest at any time."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from pytest_harness.textfile import write_text
from pytest_harness.verdict import Rollout

FINDINGS = "findings.json"


def write_findings(folder: Path, rollout: Rollout, requirement_set: str) -> Path:
    """Write the judgements of one attempt into the folder of its evidence and return the file's path."""
    grade = rollout.grade
    document = {
        "requirement_set": requirement_set,
        "valid": rollout.validity.valid,
        "blame": rollout.validity.blame,
        "reason": rollout.validity.reason,
        "reward": {"state": grade.state, "value": grade.value, "key": grade.key, "text": grade.text, "reason": grade.reason},
        "judgements": [
            {
                "requirement": judgement.requirement.id,
                "level": judgement.requirement.level,
                "draft": judgement.requirement.draft,
                "result": judgement.result,
                "reason": judgement.reason,
                "findings": [asdict(finding) for finding in judgement.findings],
            }
            for judgement in rollout.judgements
        ],
    }
    path = folder / FINDINGS
    write_text(path, json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    return path
