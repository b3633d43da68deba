"""The admin API: opens, shows and closes sessions, and hands out what they recorded. JSON in and out, behind a key of its own.

======================= ==========================================================================================
``POST /sessions``      a ``SessionSpec``; 201 with the session's key and base URLs, which are told only here
``GET /sessions``       the open sessions
``GET /sessions/ID``    one session, open or not
``DELETE /sessions/ID`` close it: running calls are stopped and recorded; its journal stays
``GET …/ID/calls``      its calls so far, one ``evidence.Call`` a line (NDJSON), also while more are written
``GET /health``         that this server lives, and which one it is; what stands behind it only with the admin key
======================= ==========================================================================================

Errors are ``{"error": {"message": one sentence, "code": a word}}``.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Literal

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from pytest_harness.capture.directory import SessionDirectory, SessionInfo, SessionSpec, SessionUsedError
from pytest_harness.capture.identity import SessionError
from pytest_harness.capture.journal import JournalError
from pytest_harness.evidence import Call
from pytest_harness.serving import ASGIApp

Level = Literal["tokens", "logprobs", "text"]

BODY_LIMIT = 1 << 16
_LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "::1", "[::1]"})
_CODES = {401: "unauthorized", 403: "forbidden", 404: "not_found", 405: "method_not_allowed", 413: "too_large", 415: "not_json"}


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What the admin API tells about its server."""

    instance: str
    capture_url: str | None
    """Where harnesses reach the proxy, without a path of a dialect; None if it is ``/capture`` of wherever this API was reached."""
    level: Level
    engine: Mapping[str, Any] = field(default_factory=dict)
    """What the probe found; told only with the admin key."""


def control_app(sessions: SessionDirectory, facts: Facts, *, admin_key: str | None) -> ASGIApp:
    """The application. Without an ``admin_key`` everyone is let in who reached it under a loopback name; never do that elsewhere."""
    control = _Control(sessions, facts, admin_key)
    return Starlette(
        routes=[
            Route("/health", control.health, methods=["GET"]),
            Route("/sessions", control.create, methods=["POST"]),
            Route("/sessions", control.list, methods=["GET"]),
            Route("/sessions/{id}", control.show, methods=["GET"]),
            Route("/sessions/{id}", control.close, methods=["DELETE"]),
            Route("/sessions/{id}/calls", control.calls, methods=["GET"]),
        ],
        exception_handlers={HTTPException: _http_error, 404: _http_error, 405: _http_error},
    )


type _Handler = Callable[[_Control, Request], Awaitable[Response]]


def _guarded(handler: _Handler) -> _Handler:
    """Lets only the administrator in, and turns what is refused into an error."""

    @wraps(handler)
    async def guarded(self: _Control, request: Request) -> Response:
        if not self.admits(request):
            return _error(
                401, "The admin key is missing or wrong; send it as Authorization: Bearer.", headers={"www-authenticate": "Bearer"}
            )
        try:
            return await handler(self, request)
        except SessionUsedError as error:
            return _error(409, _sentence(error), "id_used")
        except (SessionError, JournalError) as error:
            return _error(500, _sentence(error), "storage")

    return guarded


class _Control:
    """The routes."""

    def __init__(self, sessions: SessionDirectory, facts: Facts, admin_key: str | None) -> None:
        self._sessions = sessions
        self._facts = facts
        self._admin_key = None if admin_key is None else admin_key.encode()

    def admits(self, request: Request) -> bool:
        """Whether the request comes from the administrator; takes as long for a close guess as for any."""
        if self._admin_key is None:  # a page in a browser can reach loopback too, but only under its own name
            return (request.url.hostname or "") in _LOOPBACK_NAMES and "origin" not in request.headers
        scheme, _, key = request.headers.get("authorization", "").strip().partition(" ")
        return hmac.compare_digest(key.strip().encode("utf-8", "surrogateescape"), self._admin_key) and scheme.lower() == "bearer"

    async def health(self, request: Request) -> Response:
        """That this server lives."""
        told: dict[str, Any] = {"status": "ok", "instance": self._facts.instance}
        if self.admits(request):
            open_sessions = await asyncio.to_thread(lambda: sum(1 for _ in self._sessions.infos()))
            told |= {"level": self._facts.level, "engine": dict(self._facts.engine), "sessions": open_sessions}
        return JSONResponse(told)

    @_guarded
    async def create(self, request: Request) -> Response:
        """A new session."""
        if request.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
            return _error(415, "The body must be JSON; send content-type: application/json.")
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > BODY_LIMIT:
                return _error(413, f"The body is larger than {BODY_LIMIT} bytes; a session needs less.")
        try:
            spec = SessionSpec.model_validate_json(bytes(body))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            message = f"{where}: {first['msg']}." if where else f"The body is no session: {first['msg']}."
            return _error(400, message, "invalid_session")
        if spec.purpose == "train" and self._facts.level != "tokens":
            message = f"This server runs at level {self._facts.level}, and only tokens may train; start it with --level tokens."
            return _error(409, message, "level")
        if spec.budget.tokens is not None and self._facts.level != "tokens":
            message = f"This server runs at level {self._facts.level}, where sampled tokens cannot be counted; leave budget.tokens out."
            return _error(409, message, "level")
        session = await asyncio.to_thread(self._sessions.create, spec)
        base = self._facts.capture_url or f"{str(request.base_url).rstrip('/')}/capture"
        urls = {"openai": f"{base}/v1", "anthropic": base, "gemini": base}
        info = await asyncio.to_thread(self._sessions.info, session.id)
        shown = {} if info is None else info.model_dump(mode="json")
        return JSONResponse({**shown, "key": session.key, "base_urls": urls}, status_code=201, headers={"cache-control": "no-store"})

    @_guarded
    async def list(self, request: Request) -> Response:  # noqa: ARG002
        """The open sessions."""
        infos = await asyncio.to_thread(lambda: [info.model_dump(mode="json") for info in self._sessions.infos()])
        return JSONResponse({"sessions": infos})

    @_guarded
    async def show(self, request: Request) -> Response:
        """One session."""
        return await self._shown(request.path_params["id"])

    @_guarded
    async def close(self, request: Request) -> Response:
        """Close a session; closing it twice is harmless."""
        name = request.path_params["id"]
        await asyncio.to_thread(self._sessions.end, name)
        return await self._shown(name)

    @_guarded
    async def calls(self, request: Request) -> Response:
        """What a session recorded so far."""
        calls = await asyncio.to_thread(self._sessions.calls, request.path_params["id"])
        if calls is None:
            return _unknown()
        return StreamingResponse(_lines(calls), media_type="application/x-ndjson", headers={"cache-control": "no-store"})

    async def _shown(self, name: str) -> Response:
        info: SessionInfo | None = await asyncio.to_thread(self._sessions.info, name)
        return _unknown() if info is None else JSONResponse(info.model_dump(mode="json"))


async def _lines(calls: tuple[Call, ...]) -> AsyncIterator[bytes]:
    for call in calls:
        yield call.model_dump_json().encode("utf-8") + b"\n"


def _unknown() -> Response:
    return _error(404, "There is no session with this id; GET /sessions lists those that are open.")


async def _http_error(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    if status == 405:
        message = f"The method {request.method} is not allowed here."
    elif status == 404:
        message = "There is no such route; this server has /health, /sessions, /sessions/ID and /sessions/ID/calls."
    else:
        message = "The request cannot be served."
    return _error(status, message, headers=error.headers if isinstance(error, HTTPException) else None)


def _error(status: int, message: str, code: str | None = None, *, headers: Mapping[str, str] | None = None) -> Response:
    document = {"error": {"message": message, "code": code or _CODES.get(status, "error")}}
    return JSONResponse(document, status_code=status, headers=dict(headers or {}))


def _sentence(error: Exception) -> str:
    text = str(error)
    return text[:1].upper() + text[1:] + "."
