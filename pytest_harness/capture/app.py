"""The capture proxy: a bare ASGI application that lets harnesses talk to an engine and writes down what was said.

Every route needs the key of an open session; without one nothing is answered but 401, and nothing recorded. Serve it on
loopback with :class:`pytest_harness.serving.BackgroundServer`, on as many sockets as needed.
"""

from __future__ import annotations

import time
from functools import lru_cache
from pathlib import Path

from pytest_harness.capture.admission import Steer
from pytest_harness.capture.budget import UNLIMITED, Budget
from pytest_harness.capture.counting import count_tokens
from pytest_harness.capture.dialects.base import Dialect, RefusalError, Route
from pytest_harness.capture.dialects.chat import Chat
from pytest_harness.capture.encodings import EncodingError, TooLargeError, UnknownEncodingError, decoded
from pytest_harness.capture.exchange import KEEP_ALIVE_SECONDS, Exchange, Incoming
from pytest_harness.capture.journal import JournalError
from pytest_harness.capture.routing import Found, RawHeaders, find_route, keys_of, plain_path
from pytest_harness.capture.sessions import Purpose, Session, SessionClosedError, Sessions
from pytest_harness.capture.upstream import Upstream, UpstreamClient
from pytest_harness.serving import Receive, Scope, Send

BODY_LIMIT = 64 << 20
"""The largest request body, in bytes as sent and as decompressed, unless the proxy is told otherwise."""

_NO_ROUTE = Route("call")
_PROBES = frozenset({"/", "/api/hello"})


class CaptureProxy:
    """The application and its sessions: of its own, or shared with an admin API."""

    def __init__(
        self, *, sessions: Sessions | None = None, body_limit: int = BODY_LIMIT, keep_alive_seconds: float = KEEP_ALIVE_SECONDS
    ) -> None:
        self.rejected = 0
        """How many requests came with a wrong key or none."""
        self._sessions = Sessions() if sessions is None else sessions
        self._client = UpstreamClient()
        self._body_limit = body_limit
        self._keep_alive_seconds = keep_alive_seconds

    def open_session(
        self,
        upstream: Upstream,
        journal: Path,
        *,
        steer: Steer | None = None,
        purpose: Purpose = "eval",
        budget: Budget = UNLIMITED,
    ) -> Session:
        """A session with a key of its own, from any thread. ``journal`` must not exist yet, its folder must.

        Raises JournalError.
        """
        return self._sessions.open(upstream, journal, steer=steer, purpose=purpose, budget=budget)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        method, full_path, query, headers = scope["method"], scope["path"], scope["query_string"], scope["headers"]
        session = self._authorised(full_path, query, headers)
        path = plain_path(full_path)
        found = find_route(method, path, query, headers)
        dialect, route = found.dialect, found.route
        if session is None:
            await self._unauthorised(send, dialect)
        elif b"upgrade" in [name for name, _ in headers]:
            message = "This proxy does not change protocols; use plain HTTP."
            await _error(send, dialect, 426, message, "upgrade_refused", (b"upgrade", b"HTTP/1.1"), (b"connection", b"close"))
        elif route is not None and route.kind == "call":
            await self._complete(session, found, scope, receive, send)
        elif route is not None and route.kind == "count":
            await self._count(session, found, scope, receive, send)
        elif (path in _PROBES and method in ("GET", "HEAD")) or (route is not None and route.kind == "probe" and method == "HEAD"):
            await _respond(send, 200, b"")
        elif route is not None:
            try:
                body = dialect.answer(route, model=session.upstream.model, created=session.opened, tokens=None)
            except RefusalError as refusal:
                await _error(send, dialect, refusal.status, str(refusal), "not_found")
            else:
                await _respond(send, 200, body)
        elif found.allowed:
            message = f"The method {method} is not allowed here; use {found.allowed}."
            await _error(send, dialect, 405, message, "method_not_allowed", (b"allow", found.allowed.encode()))
        else:
            message = f"There is no route {method} {path} here; this proxy serves model calls, model lists and token counts."
            await _error(send, dialect, 404, message, "not_found")

    def _authorised(self, path: str, query: bytes, headers: RawHeaders) -> Session | None:
        """The session of the first key that is one: a foreign key in one place does not hide a valid one in another."""
        for key in keys_of(path, query, headers):
            session = self._sessions.find(key)
            if session is not None:
                return session
        return None

    async def _unauthorised(self, send: Send, dialect: Dialect | Chat) -> None:
        self.rejected += 1
        message = "The key of this request is missing or unknown; send the key of an open session as Authorization: Bearer."
        await _error(send, dialect, 401, message, "invalid_api_key", (b"www-authenticate", b"Bearer"))

    async def _complete(self, session: Session, found: Found, scope: Scope, receive: Receive, send: Send) -> None:
        dialect, route, received = found.dialect, found.route or _NO_ROUTE, time.time()
        try:
            body, refusal = await self._body(scope, receive)
        except _GoneError:
            return  # the harness went away before it had asked anything
        headers = _decoded(tuple(map(tuple, scope["headers"])))
        query = scope["query_string"]
        path = f"{scope['path']}?{query.decode('latin-1')}" if query else scope["path"]
        incoming = Incoming(scope["method"], path, headers, body, received)
        try:
            with session.call() as running:
                exchange = Exchange(
                    session,
                    running,
                    incoming,
                    dialect=dialect,
                    route=route,
                    client=self._client,
                    receive=receive,
                    send=send,
                    keep_alive_seconds=self._keep_alive_seconds,
                )
                if refusal is not None:
                    await exchange.refuse(*refusal)
                else:
                    await exchange.run()
        except SessionClosedError:
            await self._unauthorised(send, dialect)
        except JournalError:
            pass  # the session raises it when it is closed

    async def _count(self, session: Session, found: Found, scope: Scope, receive: Receive, send: Send) -> None:
        """A token count: answered as the vendor does, never a call."""
        dialect, route = found.dialect, found.route or _NO_ROUTE
        try:
            body, refusal = await self._body(scope, receive)
        except _GoneError:
            return
        if refusal is not None or isinstance(dialect, Chat):
            await _error(send, dialect, *(refusal or (404, "Chat completions count no tokens.")), "refused")
            return
        try:
            prepared, _ = dialect.prepare(body, route, created=time.time())
            tokens, exact = await count_tokens(self._client, session.upstream, prepared.chat)
            answer = dialect.answer(route, model=session.upstream.model, created=session.opened, tokens=tokens)
        except RefusalError as told:
            body = dialect.error(told.status, str(told), param=told.param)
            await _respond(send, told.status, body)
        else:
            await _respond(send, 200, answer, (b"x-token-count", b"exact" if exact else b"estimate"))

    async def _body(self, scope: Scope, receive: Receive) -> tuple[bytes, tuple[int, str] | None]:
        """The request's body without its content encoding, and why it is refused if it is. Raises _GoneError."""
        fields = dict(scope["headers"])
        too_large = (413, f"The request's body is larger than {self._body_limit} bytes; send less.")
        encoding = fields.get(b"content-encoding")
        try:
            body = await self._read(fields.get(b"content-length", b""), receive)
            return (body if encoding is None else decoded(body, encoding.decode("latin-1"), self._body_limit)), None
        except TooLargeError:
            return b"", too_large
        except UnknownEncodingError as error:
            return body, (415, f"{error}.")
        except EncodingError as error:
            return body, (400, f"{error}.")

    async def _read(self, declared: bytes, receive: Receive) -> bytes:
        """The request's body as it was sent. Raises TooLargeError or _GoneError."""
        if declared.isdigit() and int(declared) > self._body_limit:
            raise TooLargeError
        pieces: list[bytes] = []
        size = 0
        while True:
            event = await receive()
            if event["type"] == "http.disconnect":
                raise _GoneError
            piece = event.get("body", b"")
            pieces.append(piece)
            size += len(piece)
            if size > self._body_limit:
                raise TooLargeError
            if not event.get("more_body", False):
                return bytes(pieces[0]) if len(pieces) == 1 else b"".join(pieces)


@lru_cache(maxsize=64)
def _decoded(headers: tuple[tuple[bytes, bytes], ...]) -> tuple[tuple[str, str], ...]:
    """Headers as text; most calls of a session have the same."""
    return tuple([(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers])


class _GoneError(Exception):
    """The harness went away inside its request."""


async def _respond(send: Send, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"application/json"), length, *headers]})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def _error(send: Send, dialect: Dialect | Chat, status: int, message: str, code: str, *headers: tuple[bytes, bytes]) -> None:
    await _respond(send, status, dialect.error(status, message, code=code), *headers)
