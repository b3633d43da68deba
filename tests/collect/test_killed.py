"""kill -9 at any time: a resume makes the same set, and runs only what is missing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ALL = [f"task-{task}/{attempt}" for attempt in (1, 2) for task in range(3)]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_collection_that_was_killed_anywhere_is_resumed_to_the_same_set(tmp_path, workers):
    script = Path(__file__).with_name("killed.py")
    ended = subprocess.run([sys.executable, script, tmp_path, str(workers)], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert len(found) >= 20
    assert {tuple(each["ids"]) for each in found} == {tuple(ALL)}
    assert {tuple(each["marks"]) for each in found} == {tuple(ALL)}
    assert {tuple(each["on_disk"]) for each in found} == {tuple(sorted(ALL))}
    assert [each["ran"] + each["left"] for each in found] == [6] * len(found)
    assert {each["lines"] for each in found} == {6}
    assert {each["mean"] for each in found} == {0.5}
    assert {each["left"] for each in found} == set(range(7)) - {6} or {each["left"] for each in found} == set(range(7))
