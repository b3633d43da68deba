"""What a process holds at one moment, as the kernel and Python count it, and how that grows from one moment to the next."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import threading
from collections.abc import Sequence
from pathlib import Path

_MEBIBYTE = 1 << 20
_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of prctl(2)."""
_PARENT = 1
"""Where the parent stands behind the name, see proc_pid_stat(5); before it stands the state."""


def adopt_orphans() -> None:
    """What a child leaves running becomes a child of this process, so that it is counted and not lost to init."""
    if ctypes.CDLL(None, use_errno=True).prctl(_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def held(folders: Sequence[Path]) -> dict[str, float]:
    """What this process holds now, once all garbage is gone. ``folders`` are those in which it makes what is to go again."""
    gc.collect()
    descriptors = [_target(path) for path in Path("/proc/self/fd").iterdir()]
    objects = gc.get_objects()
    return {
        "resident memory, MB": _resident() / _MEBIBYTE,
        "open files": sum(target is not None for target in descriptors),
        "of these sockets": sum(target is not None and target.startswith("socket:") for target in descriptors),
        "threads": sum(1 for _ in Path("/proc/self/task").iterdir()),
        "threads of Python": len(threading.enumerate()),
        "child processes": len(_descendants(os.getpid())),
        "temporary files and folders": sum(1 for folder in folders for _ in folder.rglob("*")),
        "asyncio tasks": sum(isinstance(each, asyncio.Task) for each in objects),
        "event loops": sum(isinstance(each, asyncio.AbstractEventLoop) for each in objects),
        "objects of Python": len(objects),
    }


def slope(values: Sequence[float]) -> float:
    """How much more of it there is with each step: the line through the values that misses them least, by its squares."""
    middle, mean = (len(values) - 1) / 2, sum(values) / len(values)
    spread = sum((step - middle) ** 2 for step in range(len(values)))
    return sum((step - middle) * (value - mean) for step, value in enumerate(values)) / spread if spread else 0.0


def _target(descriptor: Path) -> str | None:
    try:
        return str(descriptor.readlink())
    except FileNotFoundError:  # the one by which the folder itself is read
        return None


def _resident() -> int:
    """Bytes, as the kernel counts them exactly; the quick count of /proc/self/statm lags behind with each thread."""
    lines = Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Rss:"))


def _descendants(root: int) -> set[int]:
    """All processes below one, also those that have ended and that nobody has asked about."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[_PARENT])
        except (FileNotFoundError, ProcessLookupError):
            continue
    found: set[int] = set()
    while more := {pid for pid, parent in parents.items() if parent in {root, *found}} - found:
        found |= more
    return found
