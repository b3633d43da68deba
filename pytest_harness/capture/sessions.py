"""Sessions: one a rollout's attempt, each with its own unguessable key, engine, journal, sampling policy, budget and expiry.

Sessions are opened and closed from any thread but the server's; calls run on the server's loop.

An exchange runs a call like this::

    with session.call() as running:              # SessionClosedError: the session is closed or expired
        match session.admit(chat, running):      # before anything is forwarded; at most once a call
            case Forward(edits, constraints): ...  # set ``edits`` in the request, record ``constraints`` on the call
            case Stop() as stop: ...               # answer with stop.completion() or stop.chunks(); outcome ``budget_stop``
            case Refuse(message, param, status): ...  # answer with an error; outcome ``refused``
        running.sampled = 42                     # how many tokens the engine sampled, all choices together
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from pytest_harness.capture.admission import REFUSED_AFTER, Admission, Forward, Refuse, Steer, Stop
from pytest_harness.capture.budget import TOKENS_PER_CALL, UNLIMITED, Account, Budget, LocalAccount
from pytest_harness.capture.identity import Expiry, SessionError, checked_session_id, key_digest, new_key, new_session_id
from pytest_harness.capture.journal import Journal, JournalError, read_journal
from pytest_harness.capture.policy import SamplingPolicy, constraints
from pytest_harness.capture.redaction import Redactor
from pytest_harness.capture.shared import SharedPresence
from pytest_harness.capture.upstream import Upstream
from pytest_harness.evidence import Call

Purpose = Literal["train", "eval"]

_CLOSING_SECONDS = 30.0
_SWEEP_SECONDS = 1.0
_REST_SECONDS = 1.0
_LIMITS = ("max_completion_tokens", "max_tokens")
_NEUTRAL = SamplingPolicy()


class SessionClosedError(Exception):
    """A call came for a session that is closed."""


class RunningCall:
    """A call in progress, as a context: its order of arrival, and the event that ends it when its session closes."""

    def __init__(self, index: int, over: Callable[[RunningCall, BaseException | None], None]) -> None:
        self.index = index
        self.id = f"call-{os.urandom(8).hex()}"
        self.reserved = 0
        """How many tokens were charged for it."""
        self.sampled = 0
        """How many tokens the engine is known to have sampled for it; the exchange says it before the call ends."""
        self._over = over
        self._loop = asyncio.get_running_loop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over(self, error)

    @cached_property
    def stop(self) -> asyncio.Event:
        """Set when the call is to end; made when somebody waits for it, on the loop of the call."""
        return asyncio.Event()

    def stop_soon(self) -> None:
        """Ask the call to end; for use from another thread."""
        try:
            self._loop.call_soon_threadsafe(self._stop)
        except RuntimeError:  # the loop is closed, and the call ended with it
            return

    def _stop(self) -> None:
        self.stop.set()


class Session:
    """What one attempt says to the engine. ``key`` is what its harness must present; it is in no repr.

    ``purpose`` ``train`` without a ``policy`` samples neutrally; ``eval`` without one leaves sampling to the harness. A ``durable`` one
    has each call on the disk before its reply is whole. ``steer`` makes the engine follow a script.
    """

    def __init__(
        self,
        upstream: Upstream,
        journal: Path,
        forget: Callable[[Session], None] = lambda _: None,
        *,
        session_id: str | None = None,
        key: str | None = None,
        purpose: Purpose = "eval",
        policy: SamplingPolicy | None = None,
        budget: Budget = UNLIMITED,
        expires: Expiry | None = None,
        opened: float | None = None,
        account: Account | None = None,
        elsewhere: SharedPresence | None = None,
        durable: bool = False,
        steer: Steer | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.id = new_session_id() if session_id is None else session_id
        self.key = new_key() if key is None else key
        self.upstream = upstream
        self.purpose: Purpose = purpose
        self.policy = _NEUTRAL if policy is None and purpose == "train" else policy
        self.budget = budget
        self.expires = expires
        self.journal = Journal(journal, durable=durable)
        self.account: Account = LocalAccount() if account is None else account
        self.opened = clock() if opened is None else opened
        self._last_active = self.opened
        self.steer = steer
        self._elsewhere = elsewhere
        self._clock = clock
        self._forget = forget
        self._closed = False
        self._failure: JournalError | None = None
        self._running: set[RunningCall] = set()
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)

    def __repr__(self) -> str:
        return f"<Session {self.id} of {self.upstream.model} at {self.journal.path}>"

    @cached_property
    def record_redactor(self) -> Redactor:
        """Takes the session's and the engine's key out of what is written down."""
        return Redactor((self.key, self.upstream.api_key))

    @cached_property
    def reply_redactor(self) -> Redactor:
        """Takes the engine's key out of what the harness gets."""
        return Redactor((self.upstream.api_key,))

    @property
    def call_count(self) -> int:
        """How many calls have arrived so far."""
        return self.account.spent().arrived

    @property
    def running_count(self) -> int:
        """How many calls are running now."""
        return len(self._running)

    @property
    def closed(self) -> bool:
        """Whether no call is let in any more, here or in any process that serves the session."""
        return self._closed or (self._elsewhere is not None and self._elsewhere.closed())

    @property
    def expires_at(self) -> float | None:
        """When the session ends if no further call comes, in Unix seconds; None if never."""
        expires = self.expires
        if expires is None:
            return None
        ends = [self.opened + expires.absolute] if expires.absolute is not None else []
        last = None if expires.idle is None or self._running else self._last_active
        if last is not None and self._elsewhere is not None:
            last = self._elsewhere.last_active()
        if expires.idle is not None and last is not None:
            ends.append(max(last, self.opened) + expires.idle)
        return min(ends, default=None)

    @property
    def expired(self) -> bool:
        """Whether its time is over; a session is not idle while a call runs."""
        end = self.expires_at
        return end is not None and self._clock() >= end

    def admit(self, chat: Mapping[str, Any], running: RunningCall) -> Admission:
        """Whether a request, as chat completions say it, goes to the engine, and with which edits. Charges the budget."""
        policy, budget = self.policy, self.budget
        edits = {} if policy is None else policy.edits(chat)
        sent = {**chat, **edits} if edits else chat
        found = constraints(sent)
        if self.purpose == "train" and sent.get("temperature") == 0:
            found = (*found, "temperature")
        if found and policy is not None and policy.constrained == "refuse":
            message = f"{found[0]} would constrain what the model samples, and this session is for training; leave it out"
            return Refuse(message, found[0])
        if budget.unlimited:
            return Forward(edits, found)
        choices = _count(chat.get("n")) or 1
        limits = [limit for name in _LIMITS if (limit := _count(chat.get(name)))]
        granted = self.account.charge(budget, choices * min(limits, default=TOKENS_PER_CALL), least=choices)
        if granted is None:
            exhausted = self.account.spent().stopped > REFUSED_AFTER
            return Refuse("The budget of this session is used up.", status=403) if exhausted else Stop()
        if budget.tokens is not None:
            running.reserved = granted
            edits |= _limited(chat, granted // choices)
        return Forward(edits, found)

    def steered(self, admission: Forward, chat: Mapping[str, Any]) -> Forward | Refuse:
        """The admission of a whole request, messages and tools included, with what steers the engine; recorded as constraints."""
        added = {} if self.steer is None else self.steer(chat)
        if isinstance(added, Refuse):
            return added
        names = tuple(name for name in added if name not in admission.constraints)
        return Forward({**admission.edits, **added}, (*admission.constraints, *names))

    def call(self) -> RunningCall:
        """A call that runs until its context is left. Raises SessionClosedError if the session is closed or expired."""
        with self._lock:
            if self._closed:
                raise SessionClosedError
            if not self._running and self._elsewhere is not None and not self._elsewhere.enter():
                raise SessionClosedError
            running = RunningCall(self.account.arrive(), self._over)
            self._running.add(running)
        return running

    def _over(self, running: RunningCall, error: BaseException | None) -> None:
        if isinstance(error, JournalError):
            self._failure = self._failure or error
        if running.reserved > running.sampled:
            self.account.give_back(running.reserved - running.sampled)
        with self._lock:
            self._last_active = self._clock()
            self._running.discard(running)
            if not self._running:
                if self._elsewhere is not None:
                    self._elsewhere.leave()
                if self._closed:
                    self._let_go()
                self._changed.notify_all()

    def stop(self) -> None:
        """Let no call in any more and ask those still running to end, without waiting. Its key stays where it is kept."""
        with self._lock:
            self._closed = True
            for running in self._running:
                running.stop_soon()
            if not self._running:
                self._let_go()

    def rest(self) -> None:
        """Hold nothing open that only makes the next call faster, if there was none for a while."""
        with self._lock:
            if not self._running and self._clock() - self._last_active > _REST_SECONDS:
                self._rest()

    def _rest(self) -> None:
        self.account.rest()
        if self._elsewhere is not None:
            self._elsewhere.rest()

    def _let_go(self) -> None:
        self.journal.close()
        self._rest()

    def expire(self) -> None:
        """End the session without waiting: its key is unknown from now on. Safe on the server's loop."""
        self._forget(self)
        self.stop()

    def wait(self) -> None:
        """Wait until no call of a stopped session runs here; not on the server's loop. Raises JournalError if one does not stop."""
        with self._changed:
            if not self._changed.wait_for(lambda: not self._running, timeout=_CLOSING_SECONDS):
                raise JournalError(f"{self.journal.path}: {len(self._running)} calls did not stop within {_CLOSING_SECONDS:.0f} s")

    def end(self) -> None:
        """End the session: its key is unknown from now on, calls still running are stopped and recorded as cancelled.

        Waits for them, so not for use on the server's loop. Ending twice is harmless. Raises JournalError if a call could not be
        recorded or a running call does not stop.
        """
        self.expire()
        self.wait()
        if self._elsewhere is not None and not self._elsewhere.wait(_CLOSING_SECONDS):
            raise JournalError(f"{self.journal.path}: calls in another process did not stop within {_CLOSING_SECONDS:.0f} s")
        if self._failure is not None:
            raise self._failure

    def close(self) -> tuple[Call, ...]:
        """End the session and return all its calls in order of arrival. Closing twice gives the same again. Raises JournalError."""
        self.end()
        return self.calls()

    def calls(self) -> tuple[Call, ...]:
        """The calls recorded so far, in order of arrival, also while more are running. Raises JournalError."""
        return read_journal(self.journal.path) if self._elsewhere is None else self._elsewhere.calls()


class Sessions:
    """The open sessions by the digest of their key, so that a look-up takes no longer the closer a guess is."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._by_digest: dict[bytes, Session] = {}
        self._by_id: dict[str, Session | None] = {}
        self._clock = clock
        self._swept = clock()

    def open(
        self,
        upstream: Upstream,
        journal: Path,
        *,
        session_id: str | None = None,
        purpose: Purpose = "eval",
        policy: SamplingPolicy | None = None,
        budget: Budget = UNLIMITED,
        expires: Expiry | None = None,
        durable: bool = False,
        steer: Steer | None = None,
    ) -> Session:
        """A new session with a new key.

        Raises JournalError if its journal cannot be created, SessionError for an id that cannot be one or was one before.
        """
        self.sweep()
        name = new_session_id() if session_id is None else checked_session_id(session_id)
        if name in self._by_id:
            raise SessionError(f"the session id {name} was used before; choose another")
        session = Session(
            upstream,
            journal,
            forget=self._forget,
            session_id=name,
            purpose=purpose,
            policy=policy,
            budget=budget,
            expires=expires,
            durable=durable,
            steer=steer,
            clock=self._clock,
        )
        self._keep(session)
        return session

    def find(self, key: bytes) -> Session | None:
        """The open session with this key, whatever bytes it is."""
        session = self._by_digest.get(key_digest(key))
        if session is not None and session.expires is not None and session.expired:
            session.expire()
            return None
        return session

    def get(self, session_id: str) -> Session | None:
        """The open session with this id."""
        return self._by_id.get(session_id)

    def __iter__(self) -> Iterator[Session]:
        """The open sessions in order of opening."""
        return iter([session for session in list(self._by_id.values()) if session is not None])

    def sweep(self) -> None:
        """End the sessions whose time is over. Looks at most once a second."""
        now = self._clock()
        if now - self._swept >= _SWEEP_SECONDS:
            self._swept = now
            for session in self:
                if session.expired:
                    session.expire()

    def _keep(self, session: Session) -> None:
        self._by_id[session.id] = session
        self._by_digest[key_digest(session.key.encode())] = session

    def _forget(self, session: Session) -> None:
        self._by_digest.pop(key_digest(session.key.encode()), None)
        self._by_id[session.id] = None


def _count(value: object) -> int:
    """A count in a request; 0 for what is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _limited(chat: Mapping[str, Any], limit: int) -> dict[str, int]:
    """The limit in the name or names that the request has for it, where it is larger or missing."""
    names = [name for name in _LIMITS if chat.get(name) is not None] or ["max_tokens"]
    return {name: limit for name in names if not 0 < _count(chat.get(name)) <= limit}
