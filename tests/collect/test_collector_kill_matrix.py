"""Every requirement of a collector can go red: collectors with one known fault each break exactly the requirements that they must."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pytest_harness.requirements import load_catalogue

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import faulty_collectors as faults  # noqa: E402
import live_kills  # noqa: E402

BUNDLED = "pytest_harness.collect.bundled:BundledCollector"
HEALTHY = "Healthy"


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """By collector, requirement and outcome: what was said."""
    names = [BUNDLED, HEALTHY, *(cls.__name__ for cls in faults.BREAKS)]
    return live_kills.said_of_collectors(lambda: tmp_path_factory.mktemp("judged"), names)


def red(results):
    return {name for name, outcomes in results.items() if "failed" in outcomes or "error" in outcomes}


@pytest.mark.parametrize("fault", faults.BREAKS, ids=lambda cls: cls.__name__)
def test_exactly_the_right_requirements_of_a_collector_go_red(judged, fault):
    assert red(judged[fault.__name__]) == faults.BREAKS[fault]


@pytest.mark.parametrize("spec", [BUNDLED, HEALTHY])
def test_a_collector_without_a_fault_breaks_nothing(judged, spec):
    assert red(judged[spec]) == set()


def test_no_check_fails_by_itself(judged):
    assert [said for results in judged.values() for outcomes in results.values() for said in outcomes.get("error", ())] == []


def test_every_requirement_of_a_collector_is_judged(judged):
    required = {entry.id for entry in load_catalogue(subject="runtime") if entry.family == "COL"}
    passed = {name for name, outcomes in judged[HEALTHY].items() if set(outcomes) == {"passed"}}
    assert passed == required


def test_every_requirement_of_a_collector_names_the_faults_that_break_it():
    named = {entry.id: set(entry.saboteurs) for entry in load_catalogue(subject="runtime") if entry.family == "COL"}
    assert named == {name: {cls.__name__ for cls, ids in faults.BREAKS.items() if name in ids} for name in named}


def test_every_requirement_of_a_collector_has_a_fault_of_its_own():
    alone = {next(iter(ids)) for ids in faults.BREAKS.values() if len(ids) == 1}
    assert {entry.id for entry in load_catalogue(subject="runtime") if entry.family == "COL"} - alone == set()
