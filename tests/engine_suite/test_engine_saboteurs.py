"""Every requirement of an engine can go red: engines with one known fault each break exactly the requirements that they must."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pytest_harness.requirements import load_catalogue

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import live_kills  # noqa: E402
import saboteurs_of_engines as faults  # noqa: E402


@pytest.fixture(scope="module")
def standings(tmp_path_factory):
    """By the name of the fault, and by requirement."""
    return live_kills.of_engines(lambda: tmp_path_factory.mktemp("judged"))


@pytest.fixture(scope="module")
def red(standings):
    """By the name of the fault: the requirements that went red."""
    return live_kills.red(standings)


@pytest.mark.parametrize("fault", faults.BREAKS, ids=lambda cls: cls.__name__)
def test_exactly_the_right_requirements_go_red(red, fault):
    assert red[fault.__name__] == faults.BREAKS[fault]


def test_an_engine_without_a_fault_breaks_nothing_and_exercises_everything(red, standings):
    assert red["Sound"] == set()
    assert {id_ for id_, standing in standings["Sound"].items() if standing == "not_exercised"} == set()


def test_every_requirement_names_the_faults_that_break_it():
    named = {entry.id: set(entry.saboteurs) for entry in load_catalogue(subject="engine")}
    assert named == {id_: {cls.__name__ for cls, ids in faults.BREAKS.items() if id_ in ids} for id_ in named}


def test_every_fault_breaks_something():
    assert [cls.__name__ for cls, ids in faults.BREAKS.items() if not ids] == []
