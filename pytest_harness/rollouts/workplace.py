"""The folder in which an attempt works until it is frozen, and what broken-off attempts have left of theirs.

Whoever works in one holds a lock on a file in it, which ends with the process however that ends. What nobody holds was broken off: it is
kept, as its journal may be all that is known of the attempt, until the attempt is run again or somebody clears it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

RUNNING = ".running"
"""The folder of all of them, beside the evidence."""
_LOCK = "held"


class WorkplaceError(Exception):
    """A place at which no attempt can work; the message says which and why."""


def check_workplaces(evidence_dir: Path) -> None:
    """Raises WorkplaceError if no attempt could have a folder here."""
    place = evidence_dir / RUNNING
    if (place.exists() or place.is_symlink()) and not place.is_dir():
        raise WorkplaceError(f"{place} is no folder")
    if place.is_dir() and not os.access(place, os.W_OK | os.X_OK):
        raise WorkplaceError(f"{place} cannot be written")


@contextmanager
def workplace(evidence_dir: Path, name: str) -> Iterator[Path]:
    """An empty folder for this attempt. It is held until the block ends, and whatever is in it then stays."""
    work = (evidence_dir / RUNNING / name).absolute()
    if work.is_symlink() or not work.is_dir():
        work.unlink(missing_ok=True)
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    lock = os.open(work / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield work
    finally:
        os.close(lock)


def broken_off(roots: Iterable[Path]) -> list[Path]:
    """The folders below these that an attempt has left and no living process holds."""
    found = {folder for root in roots for pattern in (RUNNING, f"*/{RUNNING}") for folder in root.glob(f"{pattern}/*")}
    return sorted(folder for folder in found if folder.is_dir() and not _is_held(folder))


def _is_held(folder: Path) -> bool:
    """An older version left no lock; what has none and no journal has only just begun."""
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return not (folder / "journal.ndjson").exists()
    except OSError:
        return True  # somebody else's
    with contextlib.closing(os.fdopen(lock)):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
