"""Whose a process, a folder or a container is: the mark by which what a killed run has left is told from everything else.

A mark names one process for ever: the boot of the machine, the process namespace, the number, and when it began. So a number that is
used again is no owner, and what belongs to another machine or to a container's inside is never taken for left.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

VARIABLE = "HARNESS_CONFORMANCE_OWNER"
"""In the environment of every process that is to end with its owner."""
FILE = ".owner"
"""In every temporary folder that is to go with its owner."""
PREFIX = "harness-"
_STARTED = 19
"""Where the start time stands behind the name, see proc_pid_stat(5)."""


def owner() -> str:
    """The mark of this process."""
    return _mark(os.getpid())


def is_orphan(mark: str) -> bool:
    """Whether the process of a mark is gone. One of another machine or namespace is never said to be."""
    place, _, rest = mark.partition(":")
    pid = rest.partition(":")[0]
    if place != _place() or not pid.isdigit():
        return False
    try:
        return _mark(int(pid)) != mark
    except OSError:
        return True


def marked(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process that is to end with this one."""
    return {**environment, VARIABLE: owner()}


@contextmanager
def temporary_folder(purpose: str) -> Iterator[Path]:
    """An empty folder for as long as the context lasts. One that a killed process leaves is found by its mark."""
    with tempfile.TemporaryDirectory(prefix=f"{PREFIX}{purpose}-") as name:
        folder = Path(name)
        (folder / FILE).write_text(owner(), encoding="ascii")
        yield folder


def _mark(pid: int) -> str:
    started = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[_STARTED]
    return f"{_place()}:{pid}:{started}"


def _place() -> str:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{boot}/{Path('/proc/self/ns/pid').stat().st_ino}"
