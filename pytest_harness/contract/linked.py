"""The graph of an evidence, built once for all checks that ask."""

from __future__ import annotations

from pytest_harness.contract.memo import once_per_evidence
from pytest_harness.evidence.model import Evidence
from pytest_harness.graph import Graph, build


@once_per_evidence
def graph_of(evidence: Evidence) -> Graph:
    """The turns of the attempt with their links, roles and fates."""
    return build(evidence.calls)
