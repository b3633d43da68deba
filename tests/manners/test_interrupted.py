"""Ctrl-C in the middle of a rollout: nothing runs on, and what was captured until then is kept and named."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "gate-a-harness"
SUBREAPER = 36
PATIENCE_SEC = 120


@pytest.fixture
def endless(tmp_path):
    """The example whose agent never comes back from its first command."""
    folder = shutil.copytree(EXAMPLE, tmp_path / "endless")
    program = folder / "bin" / "notes-agent"
    program.write_text(program.read_text().replace('use["input"]["command"]', '"sleep 1000"'))
    return folder


@pytest.fixture
def orphans():
    """The processes that were left by those that this test started: they become its own children."""
    libc = ctypes.CDLL(None)
    libc.prctl(SUBREAPER, 1, 0, 0, 0)
    before = children()
    yield lambda: children() - before
    libc.prctl(SUBREAPER, 0, 0, 0, 0)


@pytest.fixture
def interruptible():
    """What this test starts heeds SIGINT, even where this process was begun to ignore it, as by a script in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # what is ignored stays so in a child, a handler does not
    yield
    signal.signal(signal.SIGINT, before)


def children():
    """The process ids of this process's children, those that ended among them."""
    found = set()
    for task in Path("/proc/self/task").iterdir():
        found |= {int(number) for number in (task / "children").read_text().split()}
    return found


def wait_for(happened):
    """Wait until it has happened; polling, as another process does it."""
    end = time.monotonic() + PATIENCE_SEC
    while not happened():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "xdist"])
@pytest.mark.usefixtures("interruptible")
def test_nothing_is_left_and_what_was_captured_is_kept(endless, orphans, workers):
    options = ("--harness=notes-agent", "--seams=seams", "--scenarios=scenarios", "--scenario=edit_file", "-p", "no:asyncio")
    journal = endless / ".harness" / "evidence" / ".running" / "notes-agent-in-local-edit_file" / "journal.ndjson"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    with subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, *workers],
        cwd=endless,
        env=clean,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as run:
        try:
            wait_for(lambda: run.poll() is not None or (journal.exists() and b"tool_use" in journal.read_bytes()))
            assert run.poll() is None, run.stdout.read()
            os.killpg(run.pid, signal.SIGINT)  # as a terminal sends it: to the workers too
            said, _ = run.communicate(timeout=PATIENCE_SEC)
        finally:
            run.kill()
    assert run.returncode == 2, said
    assert b"tool_use" in journal.read_bytes()
    assert "broken off: .harness/evidence/.running/notes-agent-in-local-edit_file; what was captured stays there" in said
    assert "standard checks were not run: " in said
    assert orphans() == set()
