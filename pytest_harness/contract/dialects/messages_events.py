"""The grammar of Anthropic's event streams: what the vendor's SDK accumulates a message from.

``message_start``; content blocks one after the other, each started, grown and stopped under its own index, counted from 0;
``message_delta`` with the stop reason; ``message_stop``. A ``ping`` may stand anywhere, and an event of a kind not known here too: the
vendor adds some, and clients pass over them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pytest_harness.contract.chat_wire import parse_json, short
from pytest_harness.contract.dialects.neutral import Event, Json, events, fields
from pytest_harness.evidence.model import Message

Broken = tuple[str, str]
"""What the grammar wants, and what is there."""

_FIRST, _LAST = "message_start", "message_stop"
_DELTAS = {
    "text": ("text_delta", "citations_delta"),
    "thinking": ("thinking_delta", "signature_delta"),
    "tool_use": ("input_json_delta",),
    "redacted_thinking": (),
}


def broken_rules(message: Message | None) -> Iterator[Broken]:
    """Where a stream breaks the grammar."""
    stream = [event for event in events(message) if event.kind != "ping"]
    yield from _frame(stream)
    state = _Blocks()
    for event in stream:
        yield from state.hear(event)
    yield from state.end()


def _frame(stream: list[Event]) -> Iterator[Broken]:
    for event in stream:
        if event.data is None:
            yield "a JSON object as the data of each event", short(event.text)
        elif event.name != event.kind:
            yield f"event: {event.kind}, as the data's type says", f"event: {event.name}"
    kinds = [event.kind for event in stream]
    for kind, place in ((_FIRST, 0), (_LAST, -1)):
        times = kinds.count(kind)
        if times != 1 or kinds[place] != kind:
            where = "first" if place == 0 else "last"
            yield f"one {kind}, as the {where} event", f"{times} of them, and {kinds[place] if kinds else 'nothing'} {where}"


@dataclass(slots=True)
class _Blocks:
    """The content blocks so far; ``open`` is the index of the one that has begun and not ended."""

    kinds: list[str] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    open: int | None = None
    reasons: int = 0

    def hear(self, event: Event) -> Iterator[Broken]:
        data = event.data or {}
        match event.kind:
            case "content_block_start":
                yield from self._start(data)
            case "content_block_delta" | "content_block_stop":
                if data.get("index") != self.open or self.open is None:
                    yield f"{event.kind} of the open block, {self.open}", f"one of block {data.get('index')!r}"
                elif event.kind == "content_block_stop":
                    yield from self._stop()
                else:
                    yield from self._grow(fields(data.get("delta")))
            case "message_delta":
                self.reasons += fields(data.get("delta")).get("stop_reason") is not None
                if self.open is not None:
                    yield "message_delta after the last block has ended", f"block {self.open} is open"

    def end(self) -> Iterator[Broken]:
        if self.reasons != 1:
            yield "one message_delta with a stop_reason", f"{self.reasons} of them"

    def _start(self, data: Json) -> Iterator[Broken]:
        block = fields(data.get("content_block"))
        if self.open is not None:
            yield "one block open at a time", f"a block begins while block {self.open} is open"
        if self.reasons:
            yield "no block after the stop reason", "one more begins"
        if type(data.get("index")) is not int or data["index"] != len(self.kinds):
            yield f"index {len(self.kinds)} for the next block", repr(data.get("index"))
        kind = str(block.get("type"))
        if kind == "tool_use" and not (isinstance(block.get("id"), str) and isinstance(block.get("name"), str)):
            yield "id and name of a tool_use block where it begins", repr({name: block.get(name) for name in ("id", "name")})
        self.kinds.append(kind)
        self.pieces.clear()
        self.open = data.get("index") if isinstance(data.get("index"), int) else None

    def _grow(self, delta: Json) -> Iterator[Broken]:
        kind, allowed = delta.get("type"), _DELTAS.get(self.kinds[-1])
        if allowed is not None and kind not in allowed:
            yield f"{' or '.join(allowed) or 'no delta'} in a block of type {self.kinds[-1]}", repr(kind)
        if isinstance(delta.get("partial_json"), str):
            self.pieces.append(delta["partial_json"])

    def _stop(self) -> Iterator[Broken]:
        self.open = None
        written = "".join(self.pieces)
        if self.kinds[-1] == "tool_use" and written.strip() and not isinstance(parse_json(written), dict):
            yield "the pieces of a call's input, put together, as one JSON object", short(written)
