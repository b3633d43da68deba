"""The grammar of each dialect's stream, as its vendor documents it: which events may follow which, and what all of them share.

Pure: events in, faults out. An event is the name that its ``event:`` line gives, None where there is none, and its data.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

Event = tuple[str | None, Any]


def events_of(body: bytes) -> list[Event]:
    """The events of a body; comments are left out, data that is no JSON is kept as text."""
    found: list[Event] = []
    for block in body.decode("utf-8", "replace").replace("\r\n", "\n").split("\n\n"):
        lines = [line.partition(":") for line in block.split("\n") if line and not line.startswith(":")]
        data = "\n".join(value.removeprefix(" ") for name, _, value in lines if name == "data")
        kind = next((value.strip() for name, _, value in lines if name == "event"), None)
        if data:
            try:
                found.append((kind, json.loads(data)))
            except ValueError:
                found.append((kind, data))
    return found


def faults_of(dialect: str, events: Sequence[Event]) -> list[str]:
    """What is wrong with the events of a whole, successful stream."""
    if not events:
        return ["there are no events"]
    faults: list[str] = []
    try:
        faults += _GRAMMARS[dialect](events)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        faults.append(f"an event lacks what it must have ({type(error).__name__}: {error})")
    return faults


def _chat(events: Sequence[Event]) -> Iterator[str]:
    *chunks, last = [data for _, data in events]
    if last != "[DONE]":
        yield f"the last event is {last!r} instead of [DONE]"
        chunks.append(last)
    finished = False
    calls: dict[int, str] = {}
    for number, chunk in enumerate(chunks):
        if not isinstance(chunk, dict) or chunk.get("object") != "chat.completion.chunk":
            yield f"event {number} is no chat.completion.chunk: {chunk!r}"
            continue
        if chunk.get("id") != chunks[0].get("id"):
            yield f"event {number} has another id than the first"
        for choice in chunk.get("choices", ()):
            if finished:
                yield f"event {number} follows the finish reason and has a choice"
            for call in choice["delta"].get("tool_calls") or ():
                yield from _chat_call(number, call, calls)
            finished = finished or choice.get("finish_reason") is not None
    if not finished:
        yield "no event has a finish reason"


def _chat_call(number: int, call: Mapping[str, Any], calls: dict[int, str]) -> Iterator[str]:
    index, name = call.get("index"), (call.get("function") or {}).get("name")
    if not isinstance(index, int):
        yield f"event {number} has a part of a call without an index"
    elif index not in calls:
        if index != len(calls):
            yield f"event {number} begins call {index} as number {len(calls)}"
        if not call.get("id") or not name:
            yield f"event {number} begins call {index} without id or name"
        calls[index] = str(call.get("id"))
    elif (call.get("id") or calls[index]) != calls[index] or name:
        yield f"event {number} names call {index} again"


def _messages(events: Sequence[Event]) -> Iterator[str]:
    yield from _named(events)
    kinds: list[Any] = [data.get("type") if isinstance(data, dict) else None for _, data in events]
    told = [(kind, data) for kind, (_, data) in zip(kinds, events, strict=True) if kind != "ping"]
    order = [kind for kind, _ in told]
    if order[0] != "message_start" or order[-2:] != ["message_delta", "message_stop"]:
        yield f"the stream begins with {order[0]} and ends with {order[-2:]} instead of message_delta, message_stop"
    for kind in ("message_start", "message_delta", "message_stop"):
        if order.count(kind) != 1:
            yield f"there are {order.count(kind)} {kind}"
    block: str | None = None
    index = -1
    deltas = {
        "text": {"text_delta", "citations_delta"},
        "tool_use": {"input_json_delta"},
        "thinking": {"thinking_delta", "signature_delta"},
    }
    for kind, data in told:
        if kind == "content_block_start":
            index += 1
            if block is not None or data["index"] != index:
                yield f"block {data['index']} begins out of order"
            block = data["content_block"]["type"]
        elif kind in ("content_block_delta", "content_block_stop"):
            if block is None or data["index"] != index:
                yield f"{kind} of block {data['index']}, which is not open"
            elif kind == "content_block_delta" and data["delta"]["type"] not in deltas.get(block, {data["delta"]["type"]}):
                yield f"a {data['delta']['type']} in a block of type {block}"
            block = None if kind == "content_block_stop" else block
        elif kind == "message_delta" and block is not None:
            yield "message_delta comes inside an open block"
    start = told[0][1].get("message", {}) if isinstance(told[0][1], dict) else {}
    if start.get("content") != [] or start.get("stop_reason") is not None:
        yield "message_start must have an empty content and a stop_reason of null"


def _responses(events: Sequence[Event]) -> Iterator[str]:
    yield from _named(events)
    told = [data for _, data in events if isinstance(data, dict)]
    kinds = [data.get("type") for data in told]
    if kinds[:1] != ["response.created"] or kinds[-1] not in ("response.completed", "response.incomplete"):
        yield f"the stream begins with {kinds[0]} and ends with {kinds[-1]}"
    numbers: list[Any] = [data.get("sequence_number") for data in told]
    if any(not isinstance(number, int) for number in numbers) or any(after <= before for before, after in pairwise(numbers)):
        yield f"the sequence numbers do not strictly rise: {numbers}"
    items: dict[int, str] = {}
    done: list[Any] = []
    for data in told:
        kind: str = data.get("type", "")
        index: Any = data.get("output_index")
        if kind == "response.output_item.added":
            if index != len(items):
                yield f"item {index} is added as number {len(items)}"
            items[index] = data["item"].get("id")
        elif kind == "response.output_item.done":
            if data["item"].get("id") != items.get(index):
                yield f"item {index} is done under another id"
            done.append(data["item"])
        elif "item_id" in data and data["item_id"] != items.get(index):
            yield f"{kind} of item {index} has another item_id"
    final = told[-1].get("response", {}).get("output", ())
    if [item.get("id") for item in final] != [item.get("id") for item in done]:
        yield "the items of the last event are not those that were done"
    if {data["response"].get("id") for data in told if isinstance(data.get("response"), dict)} != {told[0].get("response", {}).get("id")}:
        yield "the id of the response changes"


def _gemini(events: Sequence[Event]) -> Iterator[str]:
    reasons = []
    for number, (_, data) in enumerate(events):
        if not isinstance(data, dict):
            yield f"event {number} is no object: {data!r}"
            continue
        if "candidates" not in data and "usageMetadata" not in data:
            yield f"event {number} has neither candidates nor usageMetadata"
        for candidate in data.get("candidates", ()):
            reasons.append(candidate.get("finishReason"))
            if reasons[:-1].count(None) != len(reasons) - 1:
                yield f"event {number} follows the finish reason"
    if not reasons or reasons[-1] is None:
        yield "the last candidate has no finish reason"
    if not isinstance(events[-1][1], dict) or "usageMetadata" not in events[-1][1]:
        yield "the last event has no usageMetadata"


def _named(events: Sequence[Event]) -> Iterator[str]:
    for number, (name, data) in enumerate(events):
        if not isinstance(data, dict) or name != data.get("type"):
            yield f"event {number} is named {name} and has the type {data.get('type') if isinstance(data, dict) else data!r}"


_GRAMMARS: Mapping[str, Callable[[Sequence[Event]], Iterator[str]]] = {
    "chat": _chat,
    "messages": _messages,
    "responses": _responses,
    "gemini": _gemini,
}
