"""Evidence of real rollouts, recorded once: it is healthy. What known faults do to it is in the kill matrix."""

from __future__ import annotations

import pytest

from pytest_harness.contract import judge, validity
from pytest_harness.evidence import Evidence, find_evidence, read_evidence
from pytest_harness.requirements import Catalogue, catalogue_versions, load_catalogue
from pytest_harness.resources import resource

RECORDED = [read_evidence(folder) for folder in find_evidence(resource("fixtures", "evidence"))]


def broken(evidence: Evidence, catalogue: Catalogue) -> set[str]:
    return {judgement.requirement.id for judgement in judge(evidence, catalogue) if judgement.result in {"failed", "error"}}


def test_there_is_evidence_of_both_ways_to_be_answered():
    assert {evidence.manifest.seam.streams for evidence in RECORDED} == {True, False}


@pytest.mark.parametrize("version", catalogue_versions())
@pytest.mark.parametrize("evidence", RECORDED, ids=lambda evidence: evidence.name)
def test_recorded_evidence_is_valid_and_breaks_nothing_of_any_set(evidence, version):
    assert validity(evidence).valid
    assert broken(evidence, load_catalogue(version)) == set()
