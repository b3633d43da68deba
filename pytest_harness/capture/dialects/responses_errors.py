"""Errors in the shape of the Responses API, of our own and of the engine's."""

from __future__ import annotations

from pytest_harness.capture.dialects.neutral import Json, dump, error_of, overflow_of

CONTEXT_LENGTH = "context_length_exceeded"
"""The code by which a harness knows that it must compact."""


def error_fields(status: int, message: str, *, kind: str | None = None, code: str | None = None, param: str | None = None) -> Json:
    """An error. Type and code follow from the status, or from what the message says, where they are not given."""
    if code == CONTEXT_LENGTH or overflow_of(message) is not None:
        return {"type": "invalid_request_error", "code": CONTEXT_LENGTH, "message": message, "param": "input"}
    default_kind, default_code = _by_status(status)
    return {"type": kind or default_kind, "code": code or default_code, "message": message, "param": param}


def error_body(status: int, message: str, *, kind: str | None = None, code: str | None = None, param: str | None = None) -> bytes:
    """The body of an error."""
    return dump({"error": error_fields(status, message, kind=kind, code=code, param=param)})


def engine_error_body(status: int, body: bytes) -> bytes:
    """The body of an engine's error: its message, type and code survive, but that an overflow gets the vendor's code."""
    message, kind, code = error_of(body)
    return error_body(status, message or f"The engine answered with status {status}.", kind=kind, code=code)


def _by_status(status: int) -> tuple[str, str | None]:
    if status == 429:
        return "rate_limit_error", "rate_limit_exceeded"
    if status >= 500:
        return "server_error", "server_error"
    return "invalid_request_error", "invalid_api_key" if status == 401 else None
