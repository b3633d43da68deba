"""Every requirement of an engine can go red: engines with one known fault each break exactly the requirements that they must."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_harness.requirements import load_catalogue
from pytest_harness.serving import BackgroundServer

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import saboteurs_of_engines as faults  # noqa: E402


def judge(folder: Path, urls: list[str]) -> subprocess.Popen[bytes]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, str(HERE.parent / "judge_subjects.py"), "--llm-url", str(folder), "test_engine_", *urls]
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


@pytest.fixture(scope="module")
def red(tmp_path_factory):
    """By the name of the fault: the requirements that went red. Two processes share the work."""
    names = [cls.__name__ for cls in (faults.Sound, *faults.BREAKS)]
    folders = [tmp_path_factory.mktemp("judged") for _ in range(2)]
    with BackgroundServer(faults.Bench()) as server:
        root = server.listen().url
        urls = [f"{root}/{name}/v1" for name in names]
        for process in [judge(folder, urls[start::2]) for start, folder in enumerate(folders)]:
            _, stderr = process.communicate()
            assert process.returncode == 0, stderr.decode()
    found = {}
    for path in (path for folder in folders for path in folder.rglob("engine.json")):
        report = json.loads(path.read_text())
        name = report["engine"].split("/")[-2]
        found[name] = {entry["id"] for entry in report["requirements"] if entry["standing"] in ("failed", "error")}
        if name == "Sound":
            found["not exercised"] = {entry["id"] for entry in report["requirements"] if entry["standing"] == "not_exercised"}
    return found


@pytest.mark.parametrize("fault", faults.BREAKS, ids=lambda cls: cls.__name__)
def test_exactly_the_right_requirements_go_red(red, fault):
    assert red[fault.__name__] == faults.BREAKS[fault]


def test_an_engine_without_a_fault_breaks_nothing_and_exercises_everything(red):
    assert red["Sound"] == set()
    assert red["not exercised"] == set()


def test_every_requirement_names_the_faults_that_break_it():
    named = {entry.id: set(entry.saboteurs) for entry in load_catalogue(subject="engine")}
    assert named == {id_: {cls.__name__ for cls, ids in faults.BREAKS.items() if id_ in ids} for id_ in named}


def test_every_fault_breaks_something():
    assert [cls.__name__ for cls, ids in faults.BREAKS.items() if not ids] == []
