"""The engine's chat reply as a response, whole or as the events of a stream.

The reasoning is told as itself (``reasoning_text``): nobody here writes summaries of it. Token counts that the engine does not tell are 0,
for the dialect has no other word; what the engine said is in the record. The model is the one that the harness asked for.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, Literal

from pytest_harness.capture.dialects.base import MalformedReplyError
from pytest_harness.capture.dialects.neutral import Json, Usage, dump, event, spoken, usage_of
from pytest_harness.capture.dialects.responses_errors import error_fields
from pytest_harness.capture.dialects.responses_items import Output
from pytest_harness.capture.dialects.responses_request import ResponsesRequest

_COMPLETED = frozenset({"stop", "tool_calls", "function_call"})
_REASONS = {"length": "max_output_tokens"}
"""Why a response is incomplete, where the dialect has another word for it than the engine."""


class ResponsesReply:
    """Implements ``base.Reply``. ``created`` is Unix seconds."""

    def __init__(self, request: ResponsesRequest, *, created: float) -> None:
        self._request = request
        self._created = int(created)
        turn = secrets.token_hex(16)
        self._id = f"resp_{turn}"
        self._output = Output(request, turn, self._emit)
        self._echo = dump(request.echo)[1:-1]  # it may be long, for it has the tools, and it is told three times
        self._events: list[bytes] = []
        self._number = 0
        self._streamed = True
        self._finish: str | None = None
        self._usage: Usage | None = None

    def whole(self, completion: Mapping[str, Any]) -> bytes:
        """The response. Raises MalformedReplyError."""
        if spoken(completion) is None:
            raise MalformedReplyError("the engine's reply has no choices")
        self._streamed = False
        self._hear(completion)
        return self._ended()[1]

    def opening(self) -> bytes:
        """``response.created`` and ``response.in_progress``."""
        response = self._response("in_progress", [])
        for name in ("created", "in_progress"):
            self._emit_response(name, response)
        return self._told()

    def chunk(self, chunk: Mapping[str, Any]) -> bytes:
        """The growth of text and calls. Raises MalformedReplyError."""
        self._hear(chunk)
        return self._told()

    def closing(self) -> bytes:
        """The end of every open item, and of the response."""
        self._emit_response(*self._ended())
        return self._told()

    def error_event(self, status: int, message: str) -> bytes:
        """``error``, which the vendor's SDK raises, and ``response.failed``, by which a harness knows what kind of failure it is."""
        fields = error_fields(status, message)
        del fields["type"]
        self._emit("error", fields | {"error": error_fields(status, message)}, prefix="")
        failed = self._response("failed", [], error={"code": fields["code"] or "server_error", "message": message})
        self._emit_response("failed", failed)
        return self._told()

    def _hear(self, document: Mapping[str, Any]) -> None:
        said = spoken(document)
        self._usage = usage_of(document) or self._usage
        if said is None:
            return
        logprobs = _logprobs(document) if self._request.wants_logprobs else []
        self._output.hear(logprobs)
        self._output.write("reasoning_text", said.reasoning)
        alone = not said.reasoning and not said.tool_calls
        self._output.write("output_text", said.text, logprobs if alone else [])
        self._output.write("refusal", said.refusal)
        self._output.call(said.tool_calls)
        self._finish = said.finish_reason or self._finish

    def _ended(self) -> tuple[str, bytes]:
        """The status of the response, and the response."""
        status: Literal["completed", "incomplete"] = "completed" if self._finish in _COMPLETED else "incomplete"
        reason = _REASONS.get(self._finish, self._finish) if self._finish else None
        return status, self._response(status, self._output.end(status), reason=reason)

    def _response(self, status: str, output: list[Json], *, reason: str | None = None, error: Json | None = None) -> bytes:
        head = {"id": self._id, "object": "response", "created_at": self._created, "status": status}
        tail = {
            "error": error,
            "incomplete_details": {"reason": reason} if status == "incomplete" else None,
            "output": output,
            "usage": None if self._usage is None or status == "in_progress" else _usage(self._usage),
        }
        return b"%s,%s,%s" % (dump(head)[:-1], self._echo, dump(tail)[1:])

    def _emit(self, name: str, fields: Json, *, prefix: str = "response.") -> None:
        if self._streamed:
            kind = f"{prefix}{name}"
            self._events.append(event({"type": kind, "sequence_number": self._number, **fields}, kind))
            self._number += 1

    def _emit_response(self, name: str, response: bytes) -> None:
        kind = f"response.{name}"
        head = dump({"type": kind, "sequence_number": self._number})
        self._events.append(b'event: %s\ndata: %s,"response":%s}\n\n' % (kind.encode(), head[:-1], response))
        self._number += 1

    def _told(self) -> bytes:
        told = b"".join(self._events)
        self._events.clear()
        return told


def _usage(usage: Usage) -> Json:
    prompt, completion = usage.prompt or 0, usage.completion or 0
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": usage.cached or 0, "cache_write_tokens": 0},
        "output_tokens": completion,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning or 0},
        "total_tokens": prompt + completion,
    }


def _logprobs(document: Mapping[str, Any]) -> list[Json]:
    logprobs = document["choices"][0].get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    return [_logprob(entry) | {"top_logprobs": [_logprob(top) for top in entry.get("top_logprobs") or ()]} for entry in content or ()]


def _logprob(entry: Json) -> Json:
    return {"token": entry.get("token"), "logprob": entry.get("logprob"), "bytes": entry.get("bytes") or []}
