"""The output items of a response as they grow, and the events that tell it.

Text items are told one after the other, as the vendor does: one ends where another begins. Calls stay open until the reply ends, for a
harness may run a call as soon as it is done, and nothing may be run that is not recorded. A custom call is told when the reply ends, as its
input is known only then; so are the calls after it, which keeps items in order. A whole reply is one large piece of a stream: both forms
say the same by construction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pytest_harness.capture.dialects.neutral import CallPiece, Json, ToolCallAssembler
from pytest_harness.capture.dialects.responses_opaque import item_id, seal
from pytest_harness.capture.dialects.responses_request import ResponsesRequest
from pytest_harness.capture.dialects.responses_tools import Tool, custom_input, plain_arguments

Emit = Callable[[str, Json], None]
"""Tells an event: its type without ``response.``, and its fields."""
Status = Literal["in_progress", "completed", "incomplete"]
Kind = Literal["reasoning_text", "output_text", "refusal"]


@dataclass
class _Text:
    """An item that is one part of text: a message, or reasoning."""

    id: str
    index: int
    kind: Kind
    sealed: bool
    pieces: list[str] = field(default_factory=list)
    logprobs: list[Json] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def place(self) -> Json:
        return {"item_id": self.id, "output_index": self.index, "content_index": 0}

    def part(self, text: str) -> Json:
        if self.kind == "output_text":
            return {"type": self.kind, "annotations": [], "logprobs": self.logprobs, "text": text}
        return {"type": self.kind, ("refusal" if self.kind == "refusal" else "text"): text}

    def document(self, status: Status) -> Json:
        content = [] if status == "in_progress" else [self.part(self.text)]
        if self.kind != "reasoning_text":
            return {"id": self.id, "type": "message", "status": status, "role": "assistant", "content": content}
        sealed = seal(self.text) if self.sealed and content else None
        return {"id": self.id, "type": "reasoning", "status": status, "summary": [], "content": content, "encrypted_content": sealed}


@dataclass
class _Call:
    """An item that is a call."""

    turn: str
    index: int
    call_id: str
    tool: Tool
    told: bool
    """Its beginning has been told."""
    pieces: list[str] = field(default_factory=list)

    @property
    def id(self) -> str:
        """A custom call's id carries the arguments where the input in its plainest form is not what the model wrote."""
        if not self.tool.custom:
            return item_id("fc", self.turn, self.index)
        arguments = "".join(self.pieces)
        plain = plain_arguments(custom_input(arguments)) == arguments
        return item_id("ctc", self.turn, self.index, None if plain else arguments)

    @property
    def place(self) -> Json:
        return {"item_id": self.id, "output_index": self.index}

    def document(self, status: Status) -> Json:
        arguments = "".join(self.pieces)
        whole = status != "in_progress"
        kind, name, text = ("custom_tool_call", "input", custom_input) if self.tool.custom else ("function_call", "arguments", str)
        fields = {"id": self.id, "type": kind, "status": status, "call_id": self.call_id, "name": self.tool.name}
        if self.tool.namespace is not None:
            fields["namespace"] = self.tool.namespace
        return {**fields, name: text(arguments) if whole else ""}


class Output:
    """The output of one response. ``turn`` is 32 hexadecimal digits of its own."""

    def __init__(self, request: ResponsesRequest, turn: str, emit: Emit) -> None:
        self._request = request
        self._turn = turn
        self._emit = emit
        self._documents: dict[int, Json] = {}
        self._count = 0
        self._text: _Text | None = None
        self._calls: list[_Call] = []
        self._assembler = ToolCallAssembler()
        self._logprobs: list[Json] = []
        self._located = 0
        """How many bytes of the logprobs' tokens belong to items that have ended."""

    def hear(self, logprobs: Sequence[Json]) -> None:
        """Logprobs of what was sampled, whatever it was; told before what was sampled."""
        self._logprobs += logprobs

    def write(self, kind: Kind, text: str, logprobs: Sequence[Json] = ()) -> None:
        """More text; nothing if it is empty. ``logprobs`` are those of the piece it came in."""
        if not text:
            return
        item = self._text
        if item is None or item.kind != kind:
            item = self._begin_text(kind)
        item.pieces.append(text)
        more = {"logprobs": list(logprobs)} if kind == "output_text" else {}
        self._emit(f"{kind}.delta", item.place | {"delta": text} | more)

    def call(self, deltas: object) -> None:
        """What chat's ``tool_calls`` add. Raises MalformedReplyError."""
        for piece in self._assembler.feed(deltas):
            if piece.begins:
                self._begin_call(piece)
            call = self._calls[piece.position]
            call.pieces.append(piece.arguments)
            if piece.arguments and call.told:
                self._emit("function_call_arguments.delta", call.place | {"delta": piece.arguments})

    def end(self, status: Literal["completed", "incomplete"]) -> list[Json]:
        """End what is open, and give back all items. Where the reply is incomplete, its last item is."""
        if not self._count:
            self._begin_text("output_text")  # an empty turn, sent back, is a turn too
        last = self._count - 1
        if self._text is not None:
            self._end_text(status if self._text.index == last else "completed")
        for call in self._calls:
            self._end_call(call, status if call.index == last else "completed")
        return [self._documents[index] for index in range(self._count)]

    def _next(self) -> int:
        self._count += 1
        return self._count - 1

    def _begin_text(self, kind: Kind) -> _Text:
        self._end_text("completed")
        index = self._next()
        identity = item_id("rs" if kind == "reasoning_text" else "msg", self._turn, index)
        self._text = item = _Text(identity, index, kind, self._request.wants_sealed)
        self._emit("output_item.added", {"output_index": index, "item": item.document("in_progress")})
        self._emit("content_part.added", item.place | {"part": item.part("")})
        return item

    def _end_text(self, status: Status) -> None:
        item, self._text = self._text, None
        if item is None:
            return
        text = item.text
        if self._request.wants_logprobs:
            item.logprobs = self._locate(text)
        part = item.part(text)
        fields = {name: value for name, value in part.items() if name not in ("type", "annotations")}
        self._emit(f"{item.kind}.done", item.place | fields)
        self._emit("content_part.done", item.place | {"part": part})
        self._end_item(item.index, item.document(status))

    def _begin_call(self, piece: CallPiece) -> None:
        self._end_text("completed")
        tool = self._request.tools.get(piece.name) or Tool(piece.name, None, custom=False, function={})
        told = not tool.custom and all(call.told for call in self._calls)
        call = _Call(self._turn, self._next(), piece.id, tool, told)
        self._calls.append(call)
        if told:
            self._emit("output_item.added", {"output_index": call.index, "item": call.document("in_progress")})

    def _end_call(self, call: _Call, status: Status) -> None:
        document = call.document(status)
        name, event = ("input", "custom_tool_call_input") if call.tool.custom else ("arguments", "function_call_arguments")
        text = document[name]
        if not call.told:
            self._emit("output_item.added", {"output_index": call.index, "item": call.document("in_progress")})
            if text:
                self._emit(f"{event}.delta", call.place | {"delta": text})
        done = {name: text} if call.tool.custom else {"name": call.tool.name, name: text}
        self._emit(f"{event}.done", call.place | done)
        self._end_item(call.index, document)

    def _end_item(self, index: int, document: Json) -> None:
        self._documents[index] = document
        self._emit("output_item.done", {"output_index": index, "item": document})

    def _locate(self, text: str) -> list[Json]:
        """The logprobs of the tokens that make up a text, none if it is not found: the engine tells them for all that was sampled."""
        tokens = [_bytes_of(entry) for entry in self._logprobs]
        wanted = text.encode("utf-8", "surrogatepass")
        start = b"".join(tokens).find(wanted, self._located)
        if start < 0:
            return []
        self._located = end = start + len(wanted)
        found, position = [], 0
        for entry, token in zip(self._logprobs, tokens, strict=True):
            if position < end and position + len(token) > start:
                found.append(entry)
            position += len(token)
        return found


def _bytes_of(entry: Json) -> bytes:
    values = entry["bytes"]
    return bytes(values) if values else str(entry["token"]).encode("utf-8", "surrogatepass")
