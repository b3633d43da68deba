"""``kill -9`` of pytest in the middle of a rollout, then ``doctor --clean``: no process and no folder is left."""

from __future__ import annotations

import signal
import subprocess
import sys

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


@pytest.fixture
def killed(tmp_path, temporary, running):
    """Starts pytest on a harness that hangs, kills it when the harness runs, and gives the folder in which it was started."""

    def kill(*options):
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
    done = subprocess.run(
        [sys.executable, "-m", "pytest_harness.cli", "doctor", "--clean"], cwd=folder, capture_output=True, text=True, check=True
    )
    assert f"removed the working folder .harness/evidence/.running/{left.name}" in done.stdout
