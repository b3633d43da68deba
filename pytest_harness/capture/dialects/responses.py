"""The OpenAI Responses dialect, served from chat completions. Nothing is stored: a call says all it depends on, or is refused.

Routes, with or without ``/v1``: ``POST /responses`` is a call, ``POST /responses/input_tokens`` a count; whatever else is asked of a
response (to fetch, cancel, delete or compact it) is answered as the vendor answers for one that it does not have.
"""

from __future__ import annotations

from collections.abc import Mapping

from pytest_harness.capture.dialects.base import Prepared, RefusalError, Reply, Route
from pytest_harness.capture.dialects.neutral import dump
from pytest_harness.capture.dialects.responses_errors import engine_error_body, error_body
from pytest_harness.capture.dialects.responses_reply import ResponsesReply
from pytest_harness.capture.dialects.responses_request import read_request
from pytest_harness.evidence import Dialect as DialectName

_CALL = "/responses"
_COUNT = "/responses/input_tokens"


class ResponsesDialect:
    """Implements ``base.Dialect``."""

    name: DialectName = "responses"

    def route(self, method: str, path: str, headers: Mapping[str, str]) -> Route | None:  # noqa: ARG002
        """See ``base.Dialect``."""
        path = path.rstrip("/")
        while path.startswith("/v1/"):
            path = path.removeprefix("/v1")
        if path in (_CALL, _COUNT):
            return Route("call" if path == _CALL else "count") if method == "POST" else None
        return Route("probe") if path.startswith(f"{_CALL}/") else None

    def prepare(self, body: bytes, route: Route, *, created: float) -> tuple[Prepared, Reply]:
        """See ``base.Dialect``."""
        prepared, request = read_request(body, counted=route.kind == "count")
        return prepared, ResponsesReply(request, created=created)

    def error(self, status: int, message: str, *, code: str | None = None, param: str | None = None) -> bytes:
        """See ``base.Dialect``."""
        return error_body(status, message, code=code, param=param)

    def upstream_error(self, status: int, body: bytes) -> bytes:
        """See ``base.Dialect``."""
        return engine_error_body(status, body)

    def answer(self, route: Route, *, model: str, created: float, tokens: int | None) -> bytes:  # noqa: ARG002
        """See ``base.Dialect``."""
        if route.kind != "count":
            raise RefusalError("There is no such response here: responses are not stored, so none can be fetched or changed.", status=404)
        if tokens is None:
            raise RefusalError("The engine behind this proxy does not count tokens.", status=501)
        return dump({"object": "response.input_tokens", "input_tokens": tokens})
