"""What the tests of death share: that nothing is left, whatever happened."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from pathlib import Path

import pytest

from pytest_harness.owners import VARIABLE, owner
from pytest_harness.wire.outcome import eventually

PATIENCE_SEC = 20.0


def _processes(sought: str, where: str) -> set[tuple[int, str]]:
    """The processes of this machine in whose ``cmdline`` or ``environ`` this stands: number and command line; never this one."""
    found = set()
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended, or is somebody else's
            line = (place / "cmdline").read_bytes()
            if int(place.name) != os.getpid() and line and sought.encode() in (place / where).read_bytes():
                found.add((int(place.name), line.replace(b"\0", b" ").decode(errors="replace")))
    return found


def _running(sought: str) -> list[str]:
    return sorted(line for _, line in _processes(sought, "cmdline"))


def _begun_here() -> set[tuple[int, str]]:
    """Those that this process has marked as its own."""
    return _processes(f"{VARIABLE}={owner()}", "environ")


def _serving() -> set[threading.Thread]:
    """The threads of servers in this process."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("serving")}


@pytest.fixture(scope="session")
def running():
    """``running(text)``: the command lines of the processes in whose command line it stands."""
    return _running


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The folder for temporary ones, of this process and of those that it starts."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    folder.chmod(0o755)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@pytest.fixture
def nothing_left(tmp_path, temporary):
    """Once the test is over there is no process, mount, server or temporary folder of it, and no working folder of a rollout.

    What was there before it is somebody else's: fixtures of a whole session keep servers in the process that runs this test.
    """
    begun, serving = _begun_here(), _serving()
    yield
    assert eventually(lambda: _begun_here() - begun, lambda found: not found, PATIENCE_SEC) == set()
    assert eventually(lambda: _processes(str(tmp_path), "cmdline"), lambda found: not found, PATIENCE_SEC) == set()
    assert eventually(lambda: _processes(str(temporary), "environ"), lambda found: not found, PATIENCE_SEC) == set()
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text(encoding="utf-8")
    assert _serving() - serving == set()
    assert list(temporary.iterdir()) == []
    assert list(tmp_path.rglob(".running/*")) == []
