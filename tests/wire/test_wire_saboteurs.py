"""Every requirement of a proxy can go red: proxies with one known fault each break exactly the requirements that they must.

What the bundled proxy itself breaks is left out of account; ``pytest --proxy=bundled`` says that.
"""

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

import saboteurs_of_proxies as faults  # noqa: E402

LONG = "any_conversation or without_end or how_the_engines"
"""The tests that take seconds each; they are run for the faults that only they show."""
SHOWN_BY_LONG_TESTS = (faults.Unbounded, faults.SplitSensitive, faults.Nonce)


def judge(folder: Path, selection: str, names: list[str]) -> subprocess.Popen[bytes]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["PYTHONPATH"] = str(HERE)
    specs = [f"saboteurs_of_proxies:{name}" for name in names]
    command = [sys.executable, str(HERE.parent / "judge_subjects.py"), "--proxy", str(folder), selection, *specs]
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


@pytest.fixture(scope="module")
def red(tmp_path_factory):
    """By the name of the fault: the requirements that went red. Two processes at a time share the work."""
    names = [cls.__name__ for cls in (faults.Sabotaged, *faults.BREAKS)]
    long_names = [cls.__name__ for cls in (faults.Sabotaged, *SHOWN_BY_LONG_TESTS)]
    folders = [tmp_path_factory.mktemp("judged") for _ in range(3)]
    work = [(f"not ({LONG})", names[::2]), (f"not ({LONG})", names[1::2]), (LONG, long_names)]
    for process in [judge(folder, *each) for folder, each in zip(folders, work, strict=True)]:
        _, stderr = process.communicate()
        assert process.returncode == 0, stderr.decode()
    found: dict[str, set[str]] = {name: set() for name in names}
    for folder in folders:
        for path in folder.glob("*/wire.json"):
            entries = json.loads(path.read_text())["requirements"]
            found[path.parent.name.partition(":")[2]] |= {entry["id"] for entry in entries if entry["standing"] in ("failed", "error")}
    return found


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
