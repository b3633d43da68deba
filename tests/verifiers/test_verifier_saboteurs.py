"""Every requirement of a verifier can go red: verifiers and sandboxes with one known fault each break exactly what they must."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from harbor.environments.base import BaseEnvironment
from harbor.verifier.verifier import Verifier

from pytest_harness.requirements import load_catalogue

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import saboteurs_of_verifiers as faults  # noqa: E402

SOUND = (faults.Sound, faults.SoundSandbox)

OF_VERIFIERS = (
    "zero or huge or no_file or dies_while or word or raised_ or rate_limited or agent_wrote or its_own or rollout_does",
    {"ISO-302", "ISO-303", "ISO-304", "ISO-305", "SBX-301"},
)
OF_SANDBOXES = (
    "huge or files_and_processes or this_machine or of_an_engine or (agent_runs and tests) or lost_while_grading",
    {"REW-302", "REW-303", "REW-304", "REW-305", "REW-306", "REW-307", "REW-308", "ISO-301"},
)
"""One or two cases of each requirement, for all of them take minutes; and what a fault of this kind does not come near."""


@pytest.fixture(scope="module")
def red(tmp_path_factory):
    """By the name of the fault: the requirements that went red."""
    found = {}
    for base, (cases, apart) in {Verifier: OF_VERIFIERS, BaseEnvironment: OF_SANDBOXES}.items():
        folder = tmp_path_factory.mktemp("judged")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        environment["PYTHONPATH"] = str(HERE)
        specs = [f"saboteurs_of_verifiers:{cls.__name__}" for cls in (*SOUND, *faults.BREAKS) if issubclass(cls, base)]
        command = [sys.executable, str(HERE.parent / "judge_subjects.py"), "--verifier", str(folder), cases, *specs]
        finished = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert finished.returncode == 0, finished.stderr
        for path in folder.glob("*/verifier.json"):
            entries = json.loads(path.read_text())["requirements"]
            found[path.parent.name.partition(":")[2]] = {entry["id"] for entry in entries if entry["standing"] in ("failed", "error")}
            assert {entry["id"] for entry in entries if entry["standing"] == "not_exercised"} == apart
    return found


@pytest.mark.parametrize("fault", faults.BREAKS, ids=lambda cls: cls.__name__)
def test_exactly_the_right_requirements_go_red(red, fault):
    assert red[fault.__name__] == faults.BREAKS[fault]


def test_a_verifier_and_a_sandbox_without_a_fault_break_nothing(red):
    assert [red[cls.__name__] for cls in SOUND] == [set(), set()]


def test_every_requirement_names_the_faults_that_break_it():
    named = {entry.id: set(entry.saboteurs) for entry in load_catalogue(subject="sandbox")}
    assert named == {id_: {cls.__name__ for cls, ids in faults.BREAKS.items() if id_ in ids} for id_ in named}
