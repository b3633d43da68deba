"""Every requirement of a white-box runtime can go red: runtimes with one known fault each break exactly the requirements that they must."""

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

import saboteurs_of_runtimes as faults  # noqa: E402


def judge(folder: Path, names: list[str]) -> subprocess.Popen[bytes]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["PYTHONPATH"] = str(HERE)
    specs = [f"saboteurs_of_runtimes:{name}" for name in names]
    command = [sys.executable, str(HERE.parent / "judge_subjects.py"), "--runtime", str(folder), "test_runtime_", *specs]
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


@pytest.fixture(scope="module")
def red(tmp_path_factory):
    """By the name of the fault: the requirements that went red. Two processes share the work."""
    names = [cls.__name__ for cls in (faults.Sabotaged, *faults.BREAKS)]
    folders = [tmp_path_factory.mktemp("judged") for _ in range(2)]
    for process in [judge(folder, names[start::2]) for start, folder in enumerate(folders)]:
        _, stderr = process.communicate()
        assert process.returncode == 0, stderr.decode()
    found = {}
    for path in (path for folder in folders for path in folder.glob("*/runtime.json")):
        entries = json.loads(path.read_text())["requirements"]
        found[path.parent.name.partition(":")[2]] = {entry["id"] for entry in entries if entry["standing"] in ("failed", "error")}
    return found


@pytest.mark.parametrize("fault", faults.BREAKS, ids=lambda cls: cls.__name__)
def test_exactly_the_right_requirements_go_red(red, fault):
    assert red[fault.__name__] == faults.BREAKS[fault]


def test_a_runtime_without_a_fault_breaks_nothing(red):
    assert red["Sabotaged"] == set()


def test_every_requirement_names_the_faults_that_break_it():
    named = {entry.id: set(entry.saboteurs) for entry in load_catalogue(subject="runtime") if entry.family == "RUN"}
    assert named == {id_: {cls.__name__ for cls, ids in faults.BREAKS.items() if id_ in ids} for id_ in named}
