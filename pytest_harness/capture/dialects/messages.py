"""Anthropic Messages: its routes, its errors, and the answers to what is no call.

What becomes of a request is in ``messages_request``, of a reply in ``messages_reply``.

Routes, each with and without ``/v1``: ``POST /messages`` (a call), ``POST /messages/count_tokens``, ``GET /models`` and ``/models/{id}``
(where the ``anthropic-version`` header says whose shape is meant), and Claude Code's probe, ``/api/hello``.

A context overflow is told in the vendor's words, ``prompt is too long: N tokens > M maximum``, by which Claude Code knows that it has to
compact; the engine's own sentence follows.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from pytest_harness.capture.dialects import neutral
from pytest_harness.capture.dialects.base import Prepared, RefusalError, Reply, Route
from pytest_harness.capture.dialects.messages_reply import MessagesReply, error_document
from pytest_harness.capture.dialects.messages_request import notes_of, to_chat
from pytest_harness.evidence import Dialect as DialectName

_PROBE = "/api/hello"


class MessagesDialect:
    """Anthropic's Messages API."""

    name: DialectName = "messages"

    def route(self, method: str, path: str, headers: Mapping[str, str]) -> Route | None:
        """What a path asks for, None if it is none of Anthropic's."""
        if path == _PROBE and method in ("HEAD", "GET"):
            return Route("probe")
        path = path.removeprefix("/v1")
        if method == "POST":
            return {"/messages": Route("call"), "/messages/count_tokens": Route("count")}.get(path)
        if method not in ("GET", "HEAD") or "anthropic-version" not in headers:
            return None
        if path == "/models":
            return Route("models")
        model = path.removeprefix("/models/")
        return Route("model", model=unquote(model)) if model and model != path else None

    def prepare(self, body: bytes, route: Route, *, created: float) -> tuple[Prepared, Reply]:  # noqa: ARG002  the vendor's reply has no time
        """The chat request, and what turns the reply back. Raises RefusalError."""
        request = neutral.read_object(body)
        chat = to_chat(request, count=route.kind == "count")
        model = neutral.expect(request.get("model"), str, "model")
        streamed = neutral.expect(request.get("stream") or False, bool, "stream")
        return Prepared(chat, streamed, notes_of(request)), MessagesReply(model, chat.get("stop", ()))

    def error(self, status: int, message: str, *, code: str | None = None, param: str | None = None) -> bytes:
        """An error in Anthropic's shape. ``code`` and ``param``, which that has not, are further fields of it."""
        return neutral.dump(error_document(status, message, code=code, param=param))

    def upstream_error(self, status: int, body: bytes) -> bytes:
        """An error of the engine's in Anthropic's shape; the engine's type and code are further fields of it."""
        message, kind, code = neutral.error_of(body)
        if (overflow := neutral.overflow_of(message)) is not None:
            message = f"prompt is too long: {overflow.prompt} tokens > {overflow.limit} maximum. The engine says: {message}"
        return neutral.dump(error_document(status, message, engine_type=kind, code=code))

    def answer(self, route: Route, *, model: str, created: float, tokens: int | None) -> bytes:
        """The body for a route that is no call. Raises RefusalError: 404 for another model."""
        match route.kind:
            case "count":
                return neutral.dump({"input_tokens": tokens})
            case "models":
                return neutral.dump({"data": [_model(model, created)], "has_more": False, "first_id": model, "last_id": model})
            case "model":
                if route.model != model:
                    raise RefusalError(f"model: {route.model}", "model", status=404)
                return neutral.dump(_model(model, created))
            case _:
                return neutral.dump({"message": "hello"})


def _model(model: str, created: float) -> dict[str, Any]:
    moment = datetime.fromtimestamp(int(created), UTC).isoformat().replace("+00:00", "Z")
    return {"type": "model", "id": model, "display_name": model, "created_at": moment}


MESSAGES = MessagesDialect()
