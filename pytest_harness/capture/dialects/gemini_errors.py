"""Errors in Google's shape: a number, a message, and the name of a canonical status, with details where there are any."""

from __future__ import annotations

import re

from pytest_harness.capture.dialects.neutral import Json, error_of

_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_OVERFLOW = re.compile(r"maximum context length|context_length_exceeded|maximum model length", re.IGNORECASE)


def error_document(status: int, message: str, *, reason: str | None = None, param: str | None = None, code: str | None = None) -> Json:
    """An error. ``reason`` and ``code`` become an ErrorInfo, ``param`` the field of a BadRequest."""
    error: Json = {"code": status, "message": message, "status": _STATUSES.get(status, "INTERNAL" if status >= 500 else "INVALID_ARGUMENT")}
    details: list[Json] = []
    if reason is not None or code is not None:
        info: Json = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason or code, "domain": "harness-conformance"}
        if reason is not None and code is not None:
            info["metadata"] = {"code": code}
        details.append(info)
    if param is not None:
        violation = {"field": param, "description": message}
        details.append({"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [violation]})
    if details:
        error["details"] = details
    return {"error": error}


def engine_error_document(status: int, body: bytes) -> Json:
    """An engine's error: its status, and its message, type and code. An overflow of the context also says so in Google's words.

    Harnesses know by these words that they have to make the conversation shorter.
    """
    message, kind, code = error_of(body)
    if status == 400 and _OVERFLOW.search(f"{message} {kind} {code}"):
        message = f"The input token count exceeds the maximum number of tokens allowed. {message}"
    return error_document(status, message, reason=kind, code=code)
