"""Every requirement of a proxy can go red: proxies with one known fault each break exactly the requirements that they must.

What the bundled proxy itself breaks is left out of account; ``pytest --proxy=bundled`` says that.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pytest_harness.requirements import load_catalogue

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import live_kills  # noqa: E402
import saboteurs_of_proxies as faults  # noqa: E402


@pytest.fixture(scope="module")
def red(tmp_path_factory):
    """By the name of the fault: the requirements that went red."""
    return live_kills.red(live_kills.of_proxies(lambda: tmp_path_factory.mktemp("judged")))


@pytest.mark.parametrize("fault", faults.BREAKS, ids=lambda cls: cls.__name__)
def test_exactly_the_right_requirements_go_red(red, fault):
    own = red["Sabotaged"]
    assert red[fault.__name__] - own == faults.BREAKS[fault] - own


def test_every_requirement_names_the_faults_that_break_it():
    named = {entry.id: set(entry.saboteurs) for entry in load_catalogue(subject="proxy")}
    broken = {id_: {cls.__name__ for cls, ids in faults.BREAKS.items() if id_ in ids} for id_ in named}
    assert named == broken


def test_every_fault_breaks_something():
    assert [cls.__name__ for cls, ids in faults.BREAKS.items() if not ids] == []
