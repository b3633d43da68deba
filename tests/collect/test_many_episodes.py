"""A collection of many episodes: what the command holds goes by those that run, not by those that wait or have ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path

import pytest

from pytest_harness.collect import Plan, Result, Task, collect

SEAMS = Path(__file__).resolve().parents[2] / "examples" / "own-harness" / "seams"
BYTES_OF_AN_EPISODE = 8192
"""Its line and what finds it, twice as much as was seen."""


def files(process="self"):
    return sum(1 for _ in Path(f"/proc/{process}/fd").iterdir())


def test_files_and_threads_do_not_grow_with_the_episodes_and_memory_by_their_lines_alone(tmp_path):
    def held(attempts):
        most = [0, 0]

        def run(episode):
            most[:] = max(most[0], files()), max(most[1], threading.active_count())
            return Result(1.0, mark=episode.id)

        tracemalloc.start()
        collection = collect(Plan((Task("task"),), attempts, workers=2), run, tmp_path / str(attempts))
        grown = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len(collection.lines) == attempts
        return *most, grown

    held(10)  # what is imported and remembered at the first use
    (few_files, few_threads, few_bytes), (many_files, many_threads, many_bytes) = held(20), held(500)
    assert many_files <= few_files + 4
    assert many_threads == few_threads
    assert many_bytes - few_bytes < 480 * BYTES_OF_AN_EPISODE


@pytest.fixture
def held_by_command(tmp_path):
    """``held_by_command(queued)``: the open files and threads of ``rollout`` while so many real episodes are queued, two at a time."""

    def run(queued):
        command = [
            sys.executable,
            "-m",
            "pytest_harness.cli",
            "rollout",
            f"--seams={SEAMS}",
            "--harness=tiny-agent",
            "--scenario=edit_file",
        ]
        command += ["-n", str(queued), "--parallel", "2", "--out", str(tmp_path / str(queued))]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"NO_COLOR": "1"}) as process:
            said = next((line for line in process.stdout if line.startswith(f"4/{queued} ")), None)
            held = files(process.pid), sum(1 for _ in Path(f"/proc/{process.pid}/task").iterdir())
            process.send_signal(signal.SIGINT)
            process.stdout.read()
        assert said is not None
        assert process.returncode == 130
        return held

    return run


def test_what_the_command_holds_does_not_grow_with_the_episodes_that_are_queued(held_by_command):
    (few_files, few_threads), (many_files, many_threads) = held_by_command(8), held_by_command(100)
    assert many_files <= few_files + 4
    assert many_threads <= few_threads + 1
