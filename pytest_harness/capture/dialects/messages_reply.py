"""The engine's chat reply as an Anthropic message: whole, or as the events of a stream that add up to the same message.

Blocks come in the order in which the engine says them; a whole reply has no order within, and is told as thinking, text, calls. One block
is open at a time, as the vendor does it.

Calls. The engine's call ids are kept. ``input`` must be an object on this wire, so the arguments of a call are passed on when they are
whole: as the model wrote them where they are one JSON object, no text at all being an empty one, and otherwise (cut off by a limit,
broken, a list, a number) as ``{"INVALID_JSON": "what the model wrote"}``, the wrapping that the vendor's documentation names. A harness
then tells the model that its arguments were wrong instead of running half a command, nothing is repaired, and when the turn is sent back
the model's own text goes to the engine. Arguments that look like such a wrapping are wrapped once more. While arguments gather, ``ping``
events say that the stream is alive. The last block ends only in ``closing``: some harnesses run a call as soon as its block has ended,
and by then it is recorded.

Usage. ``input_tokens`` leaves out the cached ones, as the vendor counts. Of what the engine did not count, ``input_tokens`` and
``output_tokens`` are null, and the cache's fields, which are optional, are left out: strict clients (grok's) refuse null there. In a
stream the counts come with ``message_delta``; ``message_start`` cannot know them yet.

Thinking. The signature is made here, from the text: it says that a block came from this proxy as it is, and nothing about any vendor.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Any, Literal

from pytest_harness.capture.dialects import neutral
from pytest_harness.capture.dialects.base import MalformedReplyError
from pytest_harness.capture.dialects.messages_turns import INVALID_JSON
from pytest_harness.capture.dialects.neutral import CallPiece, Json, Spoken, ToolCallAssembler, Usage

BlockKind = Literal["thinking", "text", "tool_use"]

_PIECES_PER_PING = 32
_STOP_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}
_PING = neutral.event({"type": "ping"}, "ping")
_DELTAS = {
    "thinking": b'"delta":{"type":"thinking_delta","thinking":',
    "text": b'"delta":{"type":"text_delta","text":',
    "tool_use": b'"delta":{"type":"input_json_delta","partial_json":',
}


class MessagesReply:
    """Turns one reply. ``model`` is the name the harness asked for, ``stops`` the stop sequences it named."""

    def __init__(self, model: str, stops: Collection[str] = ()) -> None:
        self._model = model
        self._stops = frozenset(stops)
        self._id = neutral.make_id("msg_")
        self._calls = ToolCallAssembler()
        self._usage: Usage | None = None
        self._finish: Spoken | None = None
        self._open: BlockKind | None = None
        self._index = -1
        self._held: list[str] = []
        """The text of the open block so far, as far as its end needs it: a thinking block's, or a call's arguments."""
        self._position = -1
        """Which call the open block is."""

    def whole(self, completion: Mapping[str, Any]) -> bytes:
        """The message. Raises MalformedReplyError."""
        said = neutral.spoken(completion)
        if said is None:
            raise MalformedReplyError("the engine's reply has no choices")
        self._calls.feed(said.tool_calls)
        content: list[Json] = []
        if said.reasoning:
            content.append({"type": "thinking", "thinking": said.reasoning, "signature": signature(said.reasoning)})
        if text := said.text + said.refusal:
            content.append({"type": "text", "text": text})
        content += [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": json.loads(tool_input(call.arguments))}
            for call in self._calls.calls
        ]
        reason, sequence = self._stop_reason(said)
        usage = _usage(neutral.usage_of(completion))
        return neutral.dump(self._message(content, usage) | {"stop_reason": reason, "stop_sequence": sequence})

    def opening(self) -> bytes:
        """``message_start`` and a ``ping``."""
        message = self._message([], {"input_tokens": 0, "output_tokens": 0})
        return neutral.event({"type": "message_start", "message": message}, "message_start") + _PING

    def chunk(self, chunk: Mapping[str, Any]) -> bytes:
        """The events of one chunk. Raises MalformedReplyError."""
        self._usage = neutral.usage_of(chunk) or self._usage
        said = neutral.spoken(chunk)
        if said is None:
            return b""
        events = self._texts("thinking", said.reasoning) + self._texts("text", said.text + said.refusal)
        if said.tool_calls:
            events += b"".join(self._piece(piece) for piece in self._calls.feed(said.tool_calls))
        if said.finish_reason is not None:
            self._finish = said
        return events

    def closing(self) -> bytes:
        """``message_delta`` and ``message_stop``. Raises MalformedReplyError if the engine never said how the turn ended."""
        if self._finish is None:
            raise MalformedReplyError("the engine's stream has no finish reason")
        reason, sequence = self._stop_reason(self._finish)
        delta = {"stop_reason": reason, "stop_sequence": sequence}
        ending = neutral.event({"type": "message_delta", "delta": delta, "usage": _usage(self._usage)}, "message_delta")
        return self._close() + ending + neutral.event({"type": "message_stop"}, "message_stop")

    def error_event(self, status: int, message: str) -> bytes:
        """An ``error`` event: the vendor's SDK raises it."""
        return neutral.event(error_document(status, message), "error")

    def _message(self, content: list[Json], usage: Json) -> Json:
        return {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": content,
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }

    def _stop_reason(self, said: Spoken) -> tuple[str, str | None]:
        reason = said.finish_reason
        if reason == "stop" and isinstance(said.stop_reason, str) and said.stop_reason in self._stops:
            return "stop_sequence", said.stop_reason
        if reason == "stop" and self._calls.calls:  # vLLM says "stop" where the harness forced the tool
            return "tool_use", None
        if reason not in _STOP_REASONS:
            raise MalformedReplyError(f"the engine's finish reason is {reason!r}, which has no counterpart in Anthropic's dialect")
        return _STOP_REASONS[reason], None

    def _texts(self, kind: Literal["thinking", "text"], text: str) -> bytes:
        if not text:
            return b""
        events = b""
        if self._open != kind:
            events = self._start(
                kind, {"type": "thinking", "thinking": "", "signature": ""} if kind == "thinking" else {"type": kind, "text": ""}
            )
        if kind == "thinking":
            self._held.append(text)
        return events + self._delta(text)

    def _piece(self, piece: CallPiece) -> bytes:
        events = b""
        if piece.begins:
            events = self._start("tool_use", {"type": "tool_use", "id": piece.id, "name": piece.name, "input": {}})
            self._position = piece.position
        elif self._open != "tool_use" or piece.position != self._position:
            if not piece.arguments:
                return b""
            raise MalformedReplyError(f"the engine went on with the call {piece.name!r} after it had gone on to something else")
        self._held.append(piece.arguments)
        return events if len(self._held) % _PIECES_PER_PING else events + _PING

    def _start(self, kind: BlockKind, block: Json) -> bytes:
        events = self._close()
        self._open = kind
        self._index += 1
        return events + neutral.event({"type": "content_block_start", "index": self._index, "content_block": block}, "content_block_start")

    def _delta(self, text: str) -> bytes:
        head = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,' % self._index
        return b"".join((head, _DELTAS[self._open or "text"], neutral.dump(text), b"}}\n\n"))

    def _close(self) -> bytes:
        """End the open block, if there is one."""
        if self._open is None:
            return b""
        events, held = b"", "".join(self._held)
        if self._open == "tool_use":
            events = self._delta(tool_input(held))
        elif self._open == "thinking":
            delta = {"type": "signature_delta", "signature": signature(held)}
            events = neutral.event({"type": "content_block_delta", "index": self._index, "delta": delta}, "content_block_delta")
        self._open = None
        self._held.clear()
        return events + neutral.event({"type": "content_block_stop", "index": self._index}, "content_block_stop")


def tool_input(arguments: str) -> str:
    """Arguments as the JSON text of an object: what the model wrote if that is one, else wrapped under INVALID_JSON."""
    value = neutral.object_of(arguments)
    if value is None or (len(value) == 1 and isinstance(value.get(INVALID_JSON), str)):
        return neutral.dump({INVALID_JSON: arguments}).decode()
    return arguments if arguments.strip() else "{}"


def signature(thinking: str) -> str:
    """The signature of a thinking block: the same text has the same, on every machine."""
    digest = hashlib.blake2b(thinking.encode("utf-8", "surrogatepass"), digest_size=24, person=b"harness-conf").digest()
    return base64.b64encode(b"harness-conformance:" + digest).decode()


def error_document(status: int, message: str, **more: str | None) -> Json:
    """An error in the vendor's shape; ``more`` are further fields of it, left out where None."""
    error = {"type": _error_type(status), "message": message} | {name: value for name, value in more.items() if value is not None}
    return {"type": "error", "error": error, "request_id": neutral.make_id("req_")}


def _error_type(status: int) -> str:
    return _ERROR_TYPES.get(status, "invalid_request_error" if 400 <= status < 500 else "api_error")


_ERROR_TYPES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def _usage(usage: Usage | None) -> Json:
    usage = usage or Usage()
    if usage.prompt is None or usage.cached is None:
        return {"input_tokens": usage.prompt, "output_tokens": usage.completion}
    return {"input_tokens": usage.prompt - usage.cached, "cache_read_input_tokens": usage.cached, "output_tokens": usage.completion}
