"""Every requirement of a verifier can go red: verifiers with one known fault each break exactly the requirements that they must."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_harness.requirements import load_catalogue

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import saboteurs_of_verifiers as faults  # noqa: E402

CASES = (
    "zero or huge or no_file or dies_while or word or raised or rate_limited or agent_wrote or its_own"
    " or (agent_runs and tests) or files_and_processes or this_machine or engine or rollout_does or lost_while_grading"
)
"""One or two of each requirement; all of them take minutes."""


@pytest.fixture(scope="module")
def red(tmp_path_factory):
    """By the name of the fault: the requirements that went red."""
    folder = tmp_path_factory.mktemp("judged")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["PYTHONPATH"] = str(HERE)
    specs = [f"saboteurs_of_verifiers:{cls.__name__}" for cls in (faults.Sound, *faults.BREAKS)]
    command = [sys.executable, str(HERE.parent / "judge_subjects.py"), "--verifier", str(folder), CASES, *specs]
    finished = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    found = {}
    for path in folder.glob("*/verifier.json"):
        entries = json.loads(path.read_text())["requirements"]
        found[path.parent.name.partition(":")[2]] = {entry["id"] for entry in entries if entry["standing"] in ("failed", "error")}
        assert {entry["id"] for entry in entries if entry["standing"] == "not_exercised"} == set()
    return found


@pytest.mark.parametrize("fault", faults.BREAKS, ids=lambda cls: cls.__name__)
def test_exactly_the_right_requirements_go_red(red, fault):
    assert red[fault.__name__] == faults.BREAKS[fault]


def test_a_verifier_without_a_fault_breaks_nothing(red):
    assert red["Sound"] == set()


def test_every_requirement_names_the_faults_that_break_it():
    named = {entry.id: set(entry.saboteurs) for entry in load_catalogue(subject="sandbox")}
    assert named == {id_: {cls.__name__ for cls, ids in faults.BREAKS.items() if id_ in ids} for id_ in named}
