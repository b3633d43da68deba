"""What is kept of the evidence of one attempt when its checks are done: what verdicts, reports and comparisons of attempts need.

It is small however long the attempt was, so that a run of thousands can be judged in the memory that one of them takes.
"""

from __future__ import annotations

from dataclasses import dataclass

from pytest_harness.contract.grading import Grade, grade
from pytest_harness.contract.validity import Validity, validity
from pytest_harness.evidence.model import Evidence, Manifest


@dataclass(frozen=True, slots=True)
class Outline:
    """One attempt without its calls and files."""

    name: str
    """As in a test id."""
    manifest: Manifest
    validity: Validity
    grade: Grade
    """What became of its reward."""
    calls: int
    prompt_tokens: int | None
    """Over all calls; None where none has ids."""
    sampled_tokens: int | None

    @classmethod
    def of(cls, evidence: Evidence) -> Outline:
        """What is to be kept of this evidence."""
        prompts = [len(call.prompt_ids) for call in evidence.calls if call.prompt_ids is not None]
        samples = [len(sample.token_ids) for call in evidence.calls for sample in call.samples if sample.token_ids is not None]
        return cls(
            evidence.name,
            evidence.manifest,
            validity(evidence),
            grade(evidence),
            len(evidence.calls),
            sum(prompts) if prompts else None,
            sum(samples) if samples else None,
        )
