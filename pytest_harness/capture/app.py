"""The capture proxy: a bare ASGI application that lets harnesses talk to an engine and writes down what was said.

Every route needs the key of an open session; without one nothing is answered but 401, and nothing recorded. Serve it on
loopback with :class:`pytest_harness.serving.BackgroundServer`, on as many sockets as needed.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from pytest_harness.capture.dialects import chat
from pytest_harness.capture.exchange import Exchange, Incoming
from pytest_harness.capture.journal import JournalError
from pytest_harness.capture.sessions import Session, SessionClosedError, Sessions
from pytest_harness.capture.upstream import Upstream, UpstreamClient
from pytest_harness.serving import Receive, Scope, Send

BODY_LIMIT = 64 << 20
"""The largest request body, in bytes, unless the proxy is told otherwise."""

_KEY_HEADERS = frozenset({b"x-api-key", b"api-key", b"x-goog-api-key"})
_COMPLETIONS = "/chat/completions"
_MODELS = "/models"


class CaptureProxy:
    """The application and its sessions: of its own, or shared with an admin API."""

    def __init__(self, *, sessions: Sessions | None = None, body_limit: int = BODY_LIMIT) -> None:
        self._sessions = Sessions() if sessions is None else sessions
        self._client = UpstreamClient()
        self._body_limit = body_limit
        self.rejected = 0
        """How many requests came with a wrong key or none. Nothing else of them is kept."""

    def open_session(self, upstream: Upstream, journal: Path) -> Session:
        """A session with a key of its own, from any thread. ``journal`` must not exist yet, its folder must.

        Raises JournalError.
        """
        return self._sessions.open(upstream, journal)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        session = self._authorised(scope["headers"])
        if session is None:
            self.rejected += 1
            await _unauthorised(send)
            return
        method, path = scope["method"], scope["path"].removeprefix("/v1")
        if path == _COMPLETIONS:
            if method != "POST":
                await _wrong_method(send, method, "POST")
            else:
                await self._complete(session, scope, receive, send)
        elif path == _MODELS or path.startswith(f"{_MODELS}/"):
            if method not in ("GET", "HEAD"):
                await _wrong_method(send, method, "GET, HEAD")
            else:
                body = (chat.models_body if path == _MODELS else chat.model_body)(session.upstream.model, session.opened)
                await _respond(send, 200, body)
        else:
            message = (
                f"There is no route {method} {scope['path']} here; this proxy serves {_COMPLETIONS} and {_MODELS}, with or without /v1."
            )
            await _error(send, 404, message, "not_found")

    def _authorised(self, headers: list[tuple[bytes, bytes]]) -> Session | None:
        """The session of the first key that is one: a foreign key in one header does not hide a valid one in another."""
        for name, value in headers:
            if name == b"authorization":
                scheme, _, key = value.strip().partition(b" ")
                session = self._sessions.find(key.strip()) if scheme.lower() == b"bearer" else None
            elif name in _KEY_HEADERS:
                session = self._sessions.find(value.strip())
            else:
                continue
            if session is not None:
                return session
        return None

    async def _complete(self, session: Session, scope: Scope, receive: Receive, send: Send) -> None:
        received = time.time()
        refusal: tuple[int, str] | None = None
        try:
            body = await self._read(scope, receive)
        except _GoneError:
            return  # the harness went away before it had asked anything
        except _TooLargeError:
            body, refusal = b"", (413, f"The request's body is larger than {self._body_limit} bytes; send less.")
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
        query = scope["query_string"].decode("latin-1")
        path = scope["path"] + (f"?{query}" if query else "")
        encoding = dict(headers).get("content-encoding", "identity").strip().lower()
        if refusal is None and encoding != "identity":
            refusal = (415, f"The request's body has content-encoding {encoding}; send it uncompressed.")
        incoming = Incoming(scope["method"], path, headers, body, received)
        try:
            with contextlib.suppress(JournalError), session.call() as running:  # the session raises it when it is closed
                exchange = Exchange(session, running, incoming, client=self._client, receive=receive, send=send)
                if refusal is not None:
                    await exchange.refuse(*refusal)
                else:
                    await exchange.run()
        except SessionClosedError:
            await _unauthorised(send)

    async def _read(self, scope: Scope, receive: Receive) -> bytes:
        """The request's body. Raises _TooLargeError or _GoneError."""
        declared = dict(scope["headers"]).get(b"content-length", b"")
        if declared.isdigit() and int(declared) > self._body_limit:
            raise _TooLargeError
        body = bytearray()
        while True:
            event = await receive()
            if event["type"] == "http.disconnect":
                raise _GoneError
            body += event.get("body", b"")
            if len(body) > self._body_limit:
                raise _TooLargeError
            if not event.get("more_body", False):
                return bytes(body)


class _TooLargeError(Exception):
    """The request's body exceeds the limit."""


class _GoneError(Exception):
    """The harness went away inside its request."""


async def _respond(send: Send, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"application/json"), length, *headers]})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def _error(send: Send, status: int, message: str, code: str, *headers: tuple[bytes, bytes]) -> None:
    await _respond(send, status, chat.error_body(message, "invalid_request_error", code), *headers)


async def _unauthorised(send: Send) -> None:
    message = "The key of this request is missing or unknown; send the key of an open session as Authorization: Bearer."
    await _error(send, 401, message, "invalid_api_key", (b"www-authenticate", b"Bearer"))


async def _wrong_method(send: Send, method: str, allowed: str) -> None:
    await _error(send, 405, f"The method {method} is not allowed here; use {allowed}.", "method_not_allowed", (b"allow", allowed.encode()))
