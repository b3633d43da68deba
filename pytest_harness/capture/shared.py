"""What several processes know of one session through its folder: how much it has used, whether it is closed, where calls run.

Counts stand in a file that is changed under a lock; a process in which a call runs holds a shared lock on another file, so that whoever
closes the session can wait for all of them, also for one that was killed. Descriptors are kept between calls for speed alone, until
``rest``: nothing is held open for a session that nobody uses.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from pytest_harness.capture.budget import Budget, Spent, charged
from pytest_harness.capture.journal import read_journal
from pytest_harness.evidence import Call

ACCOUNT = "account"
BUSY = "busy"
CLOSED = "closed.json"

_COUNTS = struct.Struct("<4q")
_LOOK_SECONDS = 0.02


class SharedAccount:
    """An account in a file. See ``budget.Account``."""

    __slots__ = ("_file", "_lock", "_path")

    def __init__(self, folder: Path) -> None:
        self._path = folder / ACCOUNT
        self._file = -1
        self._lock = threading.Lock()

    def spent(self) -> Spent:
        """The counts so far."""
        try:
            return _unpacked(self._path.read_bytes())
        except FileNotFoundError:
            return Spent()

    def arrive(self) -> int:
        """The order of arrival of a new call, from 0."""
        with self._changing() as (spent, write):
            write(Spent(spent.arrived + 1, spent.charged, spent.tokens, spent.stopped))
            return spent.arrived

    def charge(self, budget: Budget, tokens: int, *, least: int = 1) -> int | None:
        """Charge one call."""
        with self._changing() as (spent, write):
            after, granted = charged(spent, budget, tokens, least)
            write(after)
            return granted

    def give_back(self, tokens: int) -> None:
        """Tokens that were reserved and not sampled."""
        with self._changing() as (spent, write):
            write(Spent(spent.arrived, spent.charged, spent.tokens - tokens, spent.stopped))

    def rest(self) -> None:
        """Hold nothing open until the next change."""
        with self._lock:
            self._file = _closed(self._file)

    @contextlib.contextmanager
    def _changing(self) -> Iterator[tuple[Spent, Callable[[Spent], None]]]:
        with self._lock:
            if self._file < 0:
                self._file = _opened(self._path)
            file = self._file
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                yield _unpacked(os.pread(file, _COUNTS.size, 0)), lambda spent: _written(file, spent)
            finally:
                fcntl.flock(file, fcntl.LOCK_UN)


class SharedPresence:
    """A session in all the processes that serve it. No call runs here outside of ``enter`` and ``leave``."""

    __slots__ = ("_clock", "_closed_path", "_file", "_folder")

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._closed_path = str(folder / CLOSED)
        self._clock = clock
        self._file = -1

    def closed(self) -> bool:
        """Whether one of the processes closed the session."""
        return os.access(self._closed_path, os.F_OK)

    def enter(self) -> bool:
        """The first of the calls here begins; False if the session was closed."""
        if self._file < 0:
            self._file = _opened(self._folder / BUSY)
        fcntl.flock(self._file, fcntl.LOCK_SH)
        if self.closed():
            fcntl.flock(self._file, fcntl.LOCK_UN)
            return False
        return True

    def leave(self) -> None:
        """The last of the calls here has ended."""
        now = self._clock()
        os.utime(self._file, (now, now))
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def rest(self) -> None:
        """Hold nothing open until the next call; not while one runs here."""
        self._file = _closed(self._file)

    def last_active(self) -> float | None:
        """When the last call ended in any of the processes, in Unix seconds; 0 before the first, None while one runs."""
        try:
            file = os.open(self._folder / BUSY, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return 0.0
        try:
            return os.fstat(file).st_mtime if _alone(file) else None
        finally:
            os.close(file)

    def wait(self, seconds: float) -> bool:
        """Wait until no call runs in any of the processes; False if one still does."""
        file = _opened(self._folder / BUSY)
        try:
            end = time.monotonic() + seconds
            while not _alone(file):
                if time.monotonic() > end:
                    return False
                time.sleep(_LOOK_SECONDS)
            return True
        finally:
            os.close(file)

    def calls(self) -> tuple[Call, ...]:
        """The calls of all the processes in order of arrival. Raises JournalError."""
        return read_calls(self._folder)


def read_calls(folder: Path) -> tuple[Call, ...]:
    """The calls in a session's folder, whichever process recorded them, in order of arrival. Raises JournalError."""
    journals = sorted(folder.glob("calls-*.ndjson"))
    return tuple(sorted((call for path in journals for call in read_journal(path)), key=lambda call: call.index))


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _closed(file: int) -> int:
    """Close the descriptor if it is one; what stands for none."""
    if file >= 0:
        os.close(file)
    return -1


def _alone(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _unpacked(data: bytes) -> Spent:
    return Spent(*_COUNTS.unpack(data)) if len(data) == _COUNTS.size else Spent()


def _written(file: int, spent: Spent) -> None:
    os.pwrite(file, _COUNTS.pack(spent.arrived, spent.charged, spent.tokens, spent.stopped), 0)
