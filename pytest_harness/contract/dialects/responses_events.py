"""The grammar of OpenAI's Responses streams: what the vendor's SDK accumulates a response from.

``response.created`` first and one terminal event last; sequence numbers that rise; output items under indices counted from 0, each added
once and done once, and in every event of an item, and in the final response, under the same id. What came in pieces is what the item says
when it is done.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pytest_harness.contract.chat_wire import identical, short
from pytest_harness.contract.dialects.neutral import Event, Json, events, fields, objects, place, text
from pytest_harness.contract.dialects.responses import CALLS, PIECES, TERMINAL
from pytest_harness.evidence.model import Message

Broken = tuple[str, str]
"""What the grammar wants, and what is there."""

_LASTING = ("type", "call_id", "name", "namespace", "role")
"""Fields of an item that are the same when it is added and when it is done."""


def broken_rules(message: Message | None) -> Iterator[Broken]:
    """Where a stream breaks the grammar."""
    stream = list(events(message))
    yield from _frame(stream)
    items: dict[int, _Item] = {}
    for event in stream:
        yield from _hear(items, event)
    yield from _end(items, fields((stream[-1].data or {}).get("response")) if stream else {})


def _frame(stream: list[Event]) -> Iterator[Broken]:
    before = -1
    for event in stream:
        if event.data is None:
            yield "a JSON object as the data of each event", short(event.text)
            continue
        if event.name not in (None, event.kind):
            yield f"event: {event.kind}, as the data's type says", f"event: {event.name}"
        number = event.data.get("sequence_number")
        if type(number) is not int or number <= before:
            yield f"a sequence number above {before}", repr(number)
        before = number if isinstance(number, int) else before
    kinds = [event.kind for event in stream]
    if kinds[:1] != ["response.created"]:
        yield "response.created as the first event", kinds[0] if kinds else "nothing"
    ends = [kind for kind in kinds if kind in TERMINAL]
    if len(ends) != 1 or kinds[-1] != ends[0]:
        yield "one event that ends the response, as the last", f"{', '.join(ends) or 'none'}, and {kinds[-1] if kinds else 'nothing'} last"


@dataclass(slots=True)
class _Item:
    added: Json
    done: Json | None = None
    pieces: dict[tuple[str, int], str] = field(default_factory=dict)
    """What came in pieces, by kind and place within the item."""
    whole: set[tuple[str, int]] = field(default_factory=set)
    """What of it came whole behind its pieces."""


def _hear(items: dict[int, _Item], event: Event) -> Iterator[Broken]:
    data = event.data or {}
    index = place(data.get("output_index"), -1)
    if event.kind == "response.output_item.added":
        if index != len(items):
            yield f"output_index {len(items)} for the next item", repr(data.get("output_index"))
        items[index] = _Item(fields(data.get("item")))
    elif "output_index" in data:
        item = items.get(index)
        if item is None or item.done is not None:
            yield f"{event.kind} of an item that has begun and not ended", f"output_index {data['output_index']!r}"
        elif event.kind == "response.output_item.done":
            item.done = fields(data.get("item"))
            yield from _done(item, index)
        else:
            if data.get("item_id") != item.added.get("id"):
                yield f"item_id {item.added.get('id')} in {event.kind}", repr(data.get("item_id"))
            yield from _piece(item, event.kind, data)


def _piece(item: _Item, kind: str, data: Json) -> Iterator[Broken]:
    name, _, step = kind.rpartition(".")
    part = name, place(data.get("content_index"), -1)
    if name in PIECES and step == "delta":
        item.pieces[part] = item.pieces.get(part, "") + text(data.get("delta"))
    elif name in PIECES and step == "done":
        item.whole.add(part)
        came, whole = item.pieces.setdefault(part, ""), data.get(PIECES[name])
        if came != whole:
            yield f"{short(repr(came))} in {kind}, as it came in pieces", short(repr(whole))


def _done(item: _Item, index: int) -> Iterator[Broken]:
    """An item when it is done is the one that was added, and says what came in pieces."""
    done = item.done or {}
    for name in ("id", *_LASTING):
        if not identical(item.added.get(name), done.get(name)):
            yield f"{name} {item.added.get(name)!r} of item {index} when it is done", repr(done.get(name))
    said = text(done.get(CALLS.get(text(done.get("type")), ""))) + "".join(
        text(part.get("text")) + text(part.get("refusal")) for part in objects(done.get("content"))
    )
    for name, _ in item.pieces.keys() - item.whole:
        yield f"{name}.done before item {index} is done", "none"
    came = "".join(item.pieces.values())
    if came != said:
        yield f"{short(repr(came))} in item {index} when it is done, as it came in pieces", short(repr(said))


def _end(items: dict[int, _Item], response: Json) -> Iterator[Broken]:
    open_items = [index for index, item in items.items() if item.done is None]
    if open_items:
        yield "every item done before the response is", f"items {open_items} are open"
    done = [item.done for item in items.values() if item.done is not None]
    if response.get("status") != "failed" and not identical(response.get("output"), done):
        told = [entry.get("id") for entry in objects(response.get("output"))]
        yield f"the items as they were done in the final response: {[entry.get('id') for entry in done]}", short(repr(told))
