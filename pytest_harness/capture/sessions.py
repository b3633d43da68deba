"""Sessions: one a rollout's attempt, each with its own unguessable key, engine and journal.

Sessions are opened and closed from any thread but the server's; calls run on the server's loop.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pytest_harness.capture.journal import Journal, JournalError, read_journal
from pytest_harness.capture.redaction import Redactor
from pytest_harness.capture.upstream import Upstream
from pytest_harness.evidence import Call

KEY_PREFIX = "sk-hc-"
_CLOSING_SECONDS = 30.0


class SessionClosedError(Exception):
    """A call came for a session that is closed."""


class RunningCall:
    """A call in progress: its order of arrival, and the event that ends it when its session closes."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.id = f"call-{secrets.token_hex(8)}"
        self.stop = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def stop_soon(self) -> None:
        """Ask the call to end; for use from another thread."""
        try:
            self._loop.call_soon_threadsafe(self.stop.set)
        except RuntimeError:  # the loop is closed, and the call ended with it
            return


class Session:
    """What one attempt says to the engine. ``key`` is what its harness must present; it is in no repr."""

    def __init__(self, upstream: Upstream, journal: Path, forget: Callable[[], None] = lambda: None) -> None:
        self.key = KEY_PREFIX + secrets.token_urlsafe(32)
        self.upstream = upstream
        self.opened = time.time()
        self.journal = Journal(journal)
        self.record_redactor = Redactor((self.key, upstream.api_key))
        self.reply_redactor = Redactor((upstream.api_key,))
        self._forget = forget
        self._arrived = 0
        self._closed = False
        self._failure: JournalError | None = None
        self._running: set[RunningCall] = set()
        self._changed = threading.Condition()

    def __repr__(self) -> str:
        return f"<Session of {self.upstream.model} at {self.journal.path}>"

    @property
    def call_count(self) -> int:
        """How many calls have arrived so far."""
        return self._arrived

    @contextmanager
    def call(self) -> Iterator[RunningCall]:
        """Run one call. Raises SessionClosedError if the session is closed."""
        with self._changed:
            if self._closed:
                raise SessionClosedError
            running = RunningCall(self._arrived)
            self._arrived += 1
            self._running.add(running)
        try:
            yield running
        except JournalError as failure:
            self._failure = self._failure or failure
            raise
        finally:
            with self._changed:
                self._running.discard(running)
                self._changed.notify_all()

    def close(self) -> tuple[Call, ...]:
        """End the session: its key is unknown from now on, calls still running are stopped and recorded as cancelled.

        Returns all its calls in order of arrival. Closing twice gives the same again. Raises JournalError if a call could not
        be recorded or a running call does not stop.
        """
        self._forget()
        with self._changed:
            self._closed = True
            for running in self._running:
                running.stop_soon()
            if not self._changed.wait_for(lambda: not self._running, timeout=_CLOSING_SECONDS):
                raise JournalError(f"{self.journal.path}: {len(self._running)} calls did not stop within {_CLOSING_SECONDS:.0f} s")
        self.journal.close()
        if self._failure is not None:
            raise self._failure
        return read_journal(self.journal.path)


class Sessions:
    """The open sessions by the digest of their key, so that a look-up takes no longer the closer a guess is."""

    def __init__(self) -> None:
        self._by_digest: dict[bytes, Session] = {}

    def open(self, upstream: Upstream, journal: Path) -> Session:
        """A new session with a new key. Raises JournalError if its journal cannot be created."""
        session = Session(upstream, journal, forget=lambda: self._forget(session))
        self._by_digest[_digest(session.key.encode())] = session
        return session

    def find(self, key: bytes) -> Session | None:
        """The open session with this key, whatever bytes it is."""
        return self._by_digest.get(_digest(key))

    def _forget(self, session: Session) -> None:
        self._by_digest.pop(_digest(session.key.encode()), None)


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
