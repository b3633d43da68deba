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


def _running(sought: str, *, where: str = "cmdline") -> list[str]:
    """The command lines of the processes of this machine in whose command line or environment this stands; never this one."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended, or is somebody else's
            line = (place / "cmdline").read_bytes()
            if (
                int(place.name) != os.getpid()
                and line
                and sought.encode() in (line if where == "cmdline" else (place / where).read_bytes())
            ):
                found.append(line.replace(b"\0", b" ").decode(errors="replace"))
    return found


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
    """Once the test is over there is no process, mount, server or temporary folder of it, and no working folder of a rollout."""
    yield
    assert eventually(lambda: _running(f"{VARIABLE}={owner()}", where="environ"), lambda found: not found, PATIENCE_SEC) == []
    assert eventually(lambda: _running(str(tmp_path)), lambda found: not found, PATIENCE_SEC) == []
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text(encoding="utf-8")
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("serving")] == []
    assert list(temporary.iterdir()) == []
    assert list(tmp_path.rglob(".running/*")) == []
