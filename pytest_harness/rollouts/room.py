"""Lets rollouts run side by side as far as the memory goes: one that does not fit waits until another has ended.

Each running rollout holds a ticket, a file that names the megabytes set aside for it, under a lock that ends with its process however that
ends. So no process has to be told of another, and nothing has to be cleaned up after one that was killed.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock

from pytest_harness.seams.limits import MB


def tickets(evidence_dir: Path) -> Path:
    """The folder of the tickets of those whose evidence goes there."""
    return evidence_dir / ".locks" / "memory"


def free_mb() -> int:
    """The megabytes of memory that programs could still have on this machine."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 // MB for line in lines if line.startswith("MemAvailable:"))


@contextmanager
def room(folder: Path, name: str, weight_mb: int, free: Callable[[], int] = free_mb) -> Iterator[None]:
    """Hold ``weight_mb`` of the memory, once there is so much beyond what the holders of the other tickets in ``folder`` may take.

    Whoever is alone is never kept waiting: that would be for ever.
    """
    folder.mkdir(parents=True, exist_ok=True)
    while (ticket := _ticket(folder, name, weight_mb, free)) is None:
        _wait_for_one(folder)
    try:
        yield
    finally:
        (folder / name).unlink(missing_ok=True)
        os.close(ticket)


def _ticket(folder: Path, name: str, weight_mb: int, free: Callable[[], int]) -> int | None:
    """The descriptor that holds the new ticket; None if there is no room."""
    with FileLock(folder / ".lock"):
        held = _held(folder)
        # What the others already use is counted twice, by them and as not free: rather too few than too many.
        if held and free() - sum(held.values()) < weight_mb:
            return None
        descriptor = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.write(descriptor, str(weight_mb).encode())
        return descriptor


def _held(folder: Path) -> dict[Path, int]:
    """The tickets of those that live, with the megabytes each names; those of the dead go.

    One may be given back while it is looked at, so everything is read through the one descriptor.
    """
    held = {}
    for path in sorted(folder.iterdir()):
        if path.name != ".lock" and (descriptor := _opened(path)) is not None:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink(missing_ok=True)
            except BlockingIOError:
                held[path] = _weight(descriptor)
            finally:
                os.close(descriptor)
    return held


def _wait_for_one(folder: Path) -> None:
    """Return when one of the tickets has come back."""
    with FileLock(folder / ".lock"):
        held = _held(folder)
        descriptor = _opened(next(iter(held))) if held else None
    if descriptor is not None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        finally:  # also of a Ctrl-C
            os.close(descriptor)


def _opened(path: Path) -> int | None:
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None


def _weight(descriptor: int) -> int:
    text = os.pread(descriptor, 32, 0).decode("ascii")
    return int(text) if text.isdigit() else 0
