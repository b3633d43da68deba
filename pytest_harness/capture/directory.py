"""A server's sessions in a folder, so that what was said outlives the process, and several processes can serve the same sessions.

::

    <folder>/<session id>/session.json         what was asked for, and by which server; written before the key works
                         /calls-<worker>.ndjson one journal for each process
                         /account, /busy        counts and locks, where several processes serve the session
                         /closed.json           the session is over
    <folder>/.keys/<digest of the key>          the session's id; the key itself is nowhere

A session id is used once for ever: its folder is made exclusively.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
from pydantic import BaseModel, ConfigDict, Field

from pytest_harness.capture.budget import Budget, LocalAccount, Spent
from pytest_harness.capture.identity import Expiry, SessionError, checked_session_id, key_digest, new_session_id
from pytest_harness.capture.journal import JournalError
from pytest_harness.capture.policy import SamplingPolicy
from pytest_harness.capture.sessions import Purpose, Session, Sessions
from pytest_harness.capture.shared import CLOSED, SharedAccount, SharedPresence, read_calls
from pytest_harness.capture.upstream import Upstream
from pytest_harness.evidence import Call

_KEYS = ".keys"
_SPEC = "session.json"
_STOP_SECONDS = 30.0


class SessionUsedError(SessionError):
    """A session id that was one before."""


class PolicySpec(BaseModel):
    """See ``policy.SamplingPolicy``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    temperature: float | None = Field(default=None, ge=0, le=2)
    constrained: Literal["mark", "refuse"] = "mark"


class BudgetSpec(BaseModel):
    """See ``budget.Budget``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    calls: int | None = Field(default=None, ge=0, lt=1 << 62)
    tokens: int | None = Field(default=None, ge=0, lt=1 << 62)


class ExpirySpec(BaseModel):
    """In seconds. See ``sessions.Expiry``."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    absolute: float | None = Field(default=None, gt=0)
    idle: float | None = Field(default=None, gt=0)


class SessionSpec(BaseModel):
    """What a session is asked to be. Everything may be left out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str | None = Field(default=None, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")
    purpose: Purpose = "eval"
    policy: PolicySpec | None = None
    budget: BudgetSpec = BudgetSpec()
    expires: ExpirySpec = ExpirySpec()


class SessionInfo(BaseModel):
    """What is told of a session: never its key. ``interrupted`` is one whose server ended before it was closed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    state: Literal["open", "closed", "interrupted"]
    purpose: Purpose
    policy: PolicySpec | None
    budget: BudgetSpec
    expires: ExpirySpec
    opened: float
    """Unix seconds, as are all moments here."""
    expires_at: float | None
    closed: float | None
    calls: int | None
    """How many calls have arrived; None where nobody counted to the end."""
    charged: int | None
    tokens: int | None
    """Sampled tokens charged, with what running calls may still sample; counted under a budget of tokens only."""
    stopped: int | None
    """How many stop replies were given."""


class _Stored(BaseModel):
    """The content of ``session.json``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    instance: str
    key_digest: str
    opened: float
    spec: SessionSpec


class SessionDirectory(Sessions):
    """The sessions of one server.

    ``instance`` names the server: its processes (``shared``) serve each other's sessions, and nobody serves those of an earlier one.
    """

    def __init__(
        self,
        folder: Path,
        upstream: Upstream,
        *,
        instance: str,
        shared: bool = False,
        durable: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``folder`` is made if it is missing. Raises SessionError if it cannot be."""
        super().__init__(clock=clock)
        self.folder = folder
        self._upstream = upstream
        self._instance = instance
        self._shared = shared
        self._durable = durable
        self._worker = f"{os.getpid()}-{secrets.token_hex(4)}"
        try:
            (folder / _KEYS).mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise SessionError(f"{folder} cannot be used for journals ({error.strerror}); name a folder that is writable") from None

    def create(self, spec: SessionSpec) -> Session:
        """A new session, known to all processes when this returns. Raises SessionError for an id that was used, JournalError."""
        self.sweep()
        name = new_session_id() if spec.id is None else checked_session_id(spec.id)
        folder = self.folder / name
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            raise SessionUsedError(f"the session id {name} was used before; choose another") from None
        except OSError as error:
            raise SessionError(f"the folder of session {name} cannot be made ({error.strerror}); see that the disk has room") from None
        session = self._make(folder, spec, opened=self._clock(), key=None)
        digest = key_digest(session.key.encode())
        stored = _Stored(instance=self._instance, key_digest=digest.hex(), opened=session.opened, spec=spec)
        _write(folder / _SPEC, stored.model_dump_json())
        _write(self.folder / _KEYS / digest.hex(), name)
        self._keep(session)
        return session

    def find(self, key: bytes) -> Session | None:
        """The open session with this key, whatever bytes it is, and whichever process opened it."""
        session = super().find(key)
        if not self._shared:
            return session
        if session is None:
            session = self._adopted(key)
        elif session.closed:
            session.expire()
            return None
        if session is not None and session.expires is not None and session.expired:
            session.expire()
            return None
        return session

    def info(self, name: str) -> SessionInfo | None:
        """What is known of a session of this folder, of whichever server."""
        folder = self._folder(name)
        stored = None if folder is None else self._stored(folder)
        if folder is None or stored is None:
            return None
        closed = _read(folder / CLOSED)
        session = self.get(name)
        if session is not None:
            spent: Spent | None = session.account.spent()
        elif (self._shared and stored.instance == self._instance) or (folder / "account").exists():
            spent = SharedAccount(folder).spent()
        else:
            spent = Spent(**closed["spent"]) if closed is not None and closed.get("spent") else None
        ours = session is not None or (self._shared and stored.instance == self._instance)
        spec = stored.spec
        return SessionInfo(
            id=name,
            state="closed" if closed is not None else "open" if ours else "interrupted",
            purpose=spec.purpose,
            policy=spec.policy,
            budget=spec.budget,
            expires=spec.expires,
            opened=stored.opened,
            expires_at=None if session is None else session.expires_at,
            closed=None if closed is None else closed["at"],
            calls=None if spent is None else spent.arrived,
            charged=None if spent is None else spent.charged,
            tokens=None if spent is None else spent.tokens,
            stopped=None if spent is None else spent.stopped,
        )

    def infos(self) -> Iterator[SessionInfo]:
        """All sessions of this folder that are open, in order of their ids."""
        self.sweep()
        for folder in sorted(self.folder.iterdir()):
            if (folder / _SPEC).exists() and not (folder / CLOSED).exists():
                info = self.info(folder.name)
                if info is not None and info.state == "open":
                    yield info

    def end(self, name: str) -> bool:
        """Close a session in every process and wait for its calls; False if there is none. Not for the server's loop.

        Raises JournalError if a call could not be recorded or does not stop.
        """
        folder = self._folder(name)
        if folder is None:
            return False
        session = self.get(name)
        if session is not None:
            session.end()
            self._close_marker(session, again=True)
        elif self._shared and not (folder / CLOSED).exists():
            self._forget_key(folder)
            _mark_closed(folder, {"at": self._clock()})
            if not SharedPresence(folder).wait(_STOP_SECONDS):
                raise JournalError(f"{folder}: calls in another process did not stop within {_STOP_SECONDS:.0f} s")
        elif not (folder / CLOSED).exists():
            _mark_closed(folder, {"at": self._clock()})
        return True

    def calls(self, name: str) -> tuple[Call, ...] | None:
        """What a session of this folder has recorded so far, in order of arrival; None if there is none. Raises JournalError."""
        folder = self._folder(name)
        return None if folder is None else read_calls(folder)

    def notice(self) -> None:
        """End sessions whose time is over or that another process closed, and let those at rest hold nothing. To be called now and then."""
        self.sweep()
        if self._shared:
            for session in self:
                if session.running_count and session.closed:
                    session.expire()
                session.rest()

    def shut(self) -> None:
        """Stop the calls here and close the journals. The sessions are not closed, but this process serves them no more."""
        kept = list(self)
        for session in kept:
            session.stop()
        for session in kept:
            with contextlib.suppress(JournalError):
                session.wait()

    def _folder(self, name: str) -> Path | None:
        """The folder of a session with this id; any text may be asked for."""
        try:
            folder = self.folder / checked_session_id(name)
        except SessionError:
            return None
        return folder if (folder / _SPEC).is_file() else None

    def _make(self, folder: Path, spec: SessionSpec, *, opened: float, key: str | None) -> Session:
        policy = spec.policy
        return Session(
            self._upstream,
            folder / f"calls-{self._worker}.ndjson",
            forget=self._forget,
            session_id=folder.name,
            key=key,
            purpose=spec.purpose,
            policy=None if policy is None else SamplingPolicy(temperature=policy.temperature, constrained=policy.constrained),
            budget=Budget(calls=spec.budget.calls, tokens=spec.budget.tokens),
            expires=None if spec.expires == ExpirySpec() else Expiry(absolute=spec.expires.absolute, idle=spec.expires.idle),
            opened=opened,
            account=SharedAccount(folder) if self._shared else LocalAccount(),
            elsewhere=SharedPresence(folder, self._clock) if self._shared else None,
            durable=self._durable,
            clock=self._clock,
        )

    def _adopted(self, key: bytes) -> Session | None:
        """A session that another process of this server opened."""
        name = _text(self.folder / _KEYS / key_digest(key).hex())
        folder = None if name is None else self._folder(name)
        stored = None if folder is None else self._stored(folder)
        if folder is None or stored is None or stored.instance != self._instance or (folder / CLOSED).exists():
            return None
        session = self._make(folder, stored.spec, opened=stored.opened, key=key.decode("ascii"))
        self._keep(session)
        return session

    def _stored(self, folder: Path) -> _Stored | None:
        text = _text(folder / _SPEC)
        return None if text is None else _Stored.model_validate_json(text)

    def _forget(self, session: Session) -> None:
        super()._forget(session)
        self._by_id.pop(session.id, None)  # its folder remembers it
        self._forget_key(self.folder / session.id)
        self._close_marker(session)

    def _forget_key(self, folder: Path) -> None:
        stored = self._stored(folder)
        if stored is not None:
            (self.folder / _KEYS / stored.key_digest).unlink(missing_ok=True)

    def _close_marker(self, session: Session, *, again: bool = False) -> None:
        folder = self.folder / session.id
        before = _read(folder / CLOSED)
        if before is None or again:
            at = self._clock() if before is None else before["at"]
            _mark_closed(folder, {"at": at, "spent": msgspec.structs.asdict(session.account.spent())})


def _mark_closed(folder: Path, content: dict[str, Any]) -> None:
    _write(folder / CLOSED, json.dumps(content))


def _write(path: Path, text: str) -> None:
    """Whole or not at all, also for a reader at the same moment."""
    staging = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    file = os.open(staging, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(file, "w", encoding="utf-8") as stream:
        stream.write(text)
    staging.rename(path)


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def _read(path: Path) -> dict[str, Any] | None:
    text = _text(path)
    document: Any = None if text is None else json.loads(text)
    return document if isinstance(document, dict) else None
