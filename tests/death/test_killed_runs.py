"""``kill -9`` of pytest in the middle of a rollout, then ``doctor --clean``: no process and no folder is left."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_harness.wire.outcome import eventually

PATIENCE_SEC = 60.0

HANGS = """#!/bin/bash
trap '' TERM INT HUP
setsid "$0" daemon </dev/null >/dev/null 2>&1 &
while :; do sleep 1000; done
"""
ROW = """
name = "hangs"
title = "A harness that hangs"
homepage = "https://example.org"
dialect = "chat"
streams = false
scenarios = ["edit_file"]
[install]
kind = "preinstalled"
path = "{folder}"
version = "1"
commands = {{ hangs = "hangs" }}
[agent]
command = "hangs {{instruction}}"
timeout_sec = 600
[shell]
tool = "run"
argument = "line"
"""


def freeze_keeper(owner):
    """Stop the process that would otherwise end the sandbox when this one is killed."""
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if b"keeper.py" in (place / "cmdline").read_bytes() and f":{owner}:".encode() in (place / "environ").read_bytes():
                os.kill(int(place.name), signal.SIGSTOP)
                return
    raise AssertionError("there is no keeper")


@pytest.fixture
def killed(tmp_path, temporary, running):
    """Starts pytest on a harness that hangs, kills it when the harness runs, and gives the folder in which it was started."""

    def kill(*options, frozen=False):
        folder = tmp_path / "run"
        (folder / "bin").mkdir(parents=True)
        (folder / "bin" / "hangs").write_text(HANGS)
        (folder / "bin" / "hangs").chmod(0o755)
        (folder / "hangs.toml").write_text(ROW.format(folder=folder / "bin"))
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--harness=hangs", f"--seams={folder}", *options]
        command.append(f"--basetemp={tmp_path / 'basetemp'}")
        with (tmp_path / "log").open("wb") as log:
            run = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        try:
            assert eventually(lambda: running(f"{folder}/bin/hangs"), bool, PATIENCE_SEC), (tmp_path / "log").read_text()
            if frozen:
                freeze_keeper(run.pid)
        finally:
            run.send_signal(signal.SIGKILL)
            run.wait()
        return folder

    return kill


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["alone", "with workers"])
@pytest.mark.usefixtures("nothing_left")
def test_of_a_killed_run_nothing_is_left_once_the_doctor_has_cleaned(killed, running, options):
    folder = killed(*options)
    assert eventually(lambda: running(str(folder)), lambda found: not found, PATIENCE_SEC) == []
    (left,) = (folder / ".harness" / "evidence" / ".running").iterdir()
    assert (left / "journal.ndjson").exists()
    assert f"removed the working folder .harness/evidence/.running/{left.name}" in cleaned(folder)


@pytest.mark.usefixtures("nothing_left")
def test_a_sandbox_that_could_not_end_by_itself_is_ended_by_the_doctor(killed, running):
    folder = killed(frozen=True)
    assert running(f"{folder}/bin/hangs") != []
    assert "removed the process" in cleaned(folder)


def cleaned(folder):
    """What ``doctor --clean`` says."""
    command = [sys.executable, "-m", "pytest_harness.cli", "doctor", "--clean"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
