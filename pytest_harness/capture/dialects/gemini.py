"""Gemini's generateContent, streamGenerateContent and countTokens, and its model lists.

Paths are served below ``/v1beta``, ``/v1alpha``, ``/v1``, several of these, or none; a model's name may contain slashes and colons, plain
or percent-encoded. ``GET …/models`` is also OpenAI's path: it is Gemini's below ``/v1beta`` and ``/v1alpha``, or with a key as Google
writes it.

``streamGenerateContent`` answers with server-sent events when ``alt=sse`` is in the query, else with one JSON array that grows, as Google's
own server does. The pieces are in ``gemini_request`` and ``gemini_contents`` (in), ``gemini_reply`` (out), ``gemini_signature`` (what an
echo must bring back).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import parse_qs, unquote

from pytest_harness.capture.dialects.base import QUERY, Prepared, RefusalError, Reply, Route, RouteKind
from pytest_harness.capture.dialects.gemini_errors import engine_error_document, error_document
from pytest_harness.capture.dialects.gemini_reply import GeminiReply
from pytest_harness.capture.dialects.gemini_request import read_request
from pytest_harness.capture.dialects.neutral import Json, dump
from pytest_harness.evidence import Dialect as DialectName

_PATH = re.compile(r"(?P<versions>(?:/v1(?:beta|alpha)?)*)/models(?:/(?P<rest>.+?))?/?")
_KEY_HEADER = "x-goog-api-key"
_ACTIONS: Mapping[str, RouteKind] = {"generateContent": "call", "countTokens": "count"}


class GeminiDialect:
    """The dialect; it has no state."""

    name: DialectName = "gemini"

    def route(self, method: str, path: str, headers: Mapping[str, str]) -> Route | None:
        """What a path asks for; see the module."""
        found = _PATH.fullmatch(unquote(path))
        if found is None:
            return None
        rest: str | None = found["rest"]
        query = parse_qs(headers.get(QUERY, ""))
        if method == "POST":
            model, _, action = (rest or "").rpartition(":")
            return _action(action, model, query) if model else None
        google = any(mark in found["versions"] for mark in ("alpha", "beta")) or _KEY_HEADER in headers or "key" in query
        if method not in ("GET", "HEAD") or not google:
            return None
        return Route("models") if rest is None else Route("model", model=rest)

    def prepare(self, body: bytes, route: Route, *, created: float) -> tuple[Prepared, Reply]:  # noqa: ARG002  Gemini tells no time
        """The request for the engine, and what turns its reply back. Raises RefusalError."""
        asked = read_request(body)
        reply = GeminiReply(framing=route.framing, thoughts=asked.thoughts, logprobs=asked.logprobs)
        return Prepared(asked.chat, streamed=route.streamed is True, notes=asked.notes), reply

    def error(self, status: int, message: str, *, code: str | None = None, param: str | None = None) -> bytes:
        """An error of our own."""
        return dump(error_document(status, message, code=code, param=param))

    def upstream_error(self, status: int, body: bytes) -> bytes:
        """An error of the engine's."""
        return dump(engine_error_document(status, body))

    def answer(self, route: Route, *, model: str, created: float, tokens: int | None) -> bytes:  # noqa: ARG002  Gemini tells no time
        """Model list, single model and token count. Raises RefusalError: 404 for another model, or if nothing was counted."""
        if route.kind == "count":
            if tokens is None:
                raise RefusalError("countTokens is not available: this engine does not count tokens", status=404)
            return dump({"totalTokens": tokens})
        if route.kind == "models":
            return dump({"models": [_model(model)]})
        if route.model != model:
            raise RefusalError(
                f"models/{route.model} is not found for API version v1beta, or is not supported for generateContent. "
                "Call ListModels to see the list of available models and their supported methods.",
                status=404,
            )
        return dump(_model(model))


def _action(action: str, model: str, query: Mapping[str, list[str]]) -> Route | None:
    if action == "streamGenerateContent":
        return Route("call", model=model, streamed=True, framing="sse" if query.get("alt", [""])[-1] == "sse" else "json")
    kind = _ACTIONS.get(action)
    return None if kind is None else Route(kind, model=model, streamed=False)


def _model(name: str) -> Json:
    return {
        "name": f"models/{name}",
        "version": "001",
        "displayName": name,
        "supportedGenerationMethods": ["generateContent", "streamGenerateContent", "countTokens"],
    }
