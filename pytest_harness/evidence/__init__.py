"""Evidence: the model of what was seen, and its store. The ground floor: it imports nothing else of ours."""

from pytest_harness.evidence.model import (
    EVIDENCE_VERSION,
    Call,
    Deviation,
    Dialect,
    Ending,
    Evidence,
    Manifest,
    Message,
    Outcome,
    Sample,
    ScenarioFacts,
    SeamFacts,
    Times,
)
from pytest_harness.evidence.store import EvidenceError, attempt_dir, find_evidence, read_evidence, write_evidence

__all__ = [
    "EVIDENCE_VERSION",
    "Call",
    "Deviation",
    "Dialect",
    "Ending",
    "Evidence",
    "EvidenceError",
    "Manifest",
    "Message",
    "Outcome",
    "Sample",
    "ScenarioFacts",
    "SeamFacts",
    "Times",
    "attempt_dir",
    "find_evidence",
    "read_evidence",
    "write_evidence",
]
