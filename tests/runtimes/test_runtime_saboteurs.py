"""Every requirement of a white-box runtime can go red: runtimes with one known fault each break exactly the requirements that they must."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pytest_harness.requirements import load_catalogue

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import live_kills  # noqa: E402
import saboteurs_of_runtimes as faults  # noqa: E402


@pytest.fixture(scope="module")
def red(tmp_path_factory):
    """By the name of the fault: the requirements that went red."""
    return live_kills.red(live_kills.of_runtimes(lambda: tmp_path_factory.mktemp("judged")))


@pytest.mark.parametrize("fault", faults.BREAKS, ids=lambda cls: cls.__name__)
def test_exactly_the_right_requirements_go_red(red, fault):
    assert red[fault.__name__] == faults.BREAKS[fault]


def test_a_runtime_without_a_fault_breaks_nothing(red):
    assert red["Sabotaged"] == set()


def test_every_requirement_names_the_faults_that_break_it():
    named = {entry.id: set(entry.saboteurs) for entry in load_catalogue(subject="runtime") if entry.family == "RUN"}
    assert named == {id_: {cls.__name__ for cls, ids in faults.BREAKS.items() if id_ in ids} for id_ in named}
