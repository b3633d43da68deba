"""The instruments of the saboteurs of the dialects other than chat completions: cuts in their events and in their requests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pytest_harness.evidence.model import Call, Dialect, Evidence, Message
from pytest_harness.saboteurs.registry import NothingToSabotage, chosen
from pytest_harness.saboteurs.surgery import Json, edit_body, edit_forwarded, found, with_call

Events = list[tuple[str | None, Json]]
"""The name and the data of each event of a stream."""


def turns_of(evidence: Evidence, dialects: Iterable[Dialect]) -> list[Call]:
    """The answered calls in these dialects, in any but chat completions if none is named."""
    wanted = tuple(dialects) or ("responses", "messages", "gemini")
    calls = [call for call in evidence.calls if call.outcome == "complete" and call.samples and call.dialect in wanted]
    if not calls:
        raise NothingToSabotage(f"no call was answered in the dialects {', '.join(wanted)}")
    return calls


def last_of(evidence: Evidence, *dialects: Dialect) -> Call:
    """The last of them."""
    return turns_of(evidence, dialects)[-1]


def with_calls(evidence: Evidence, *dialects: Dialect) -> Call:
    """The first of them to which the model answered with a tool call."""
    for call in turns_of(evidence, dialects):
        events = events_of(call.delivered)
        if any(True for _, data in events for _ in argument_pieces(data)) or any(True for _ in function_calls(events)):
            return call
    raise NothingToSabotage("no turn has a tool call")


def in_events(evidence: Evidence, dialect: Dialect, edit: Callable[[Events], Any]) -> Evidence:
    """The evidence with the events of one turn edited, which are the vendor's otherwise."""
    return with_call(evidence, edit_events(chosen(turns_of(evidence, [dialect]), -1), edit))


def sent_on(evidence: Evidence, edit: Callable[[list[Json]], Any]) -> Evidence:
    """The requests with the messages edited that the engine got."""
    for call in turns_of(evidence, ()):
        evidence = with_call(evidence, edit_forwarded(call, lambda body: edit(body["messages"])))
    return evidence


def asked(evidence: Evidence, dialect: Dialect, edit: Callable[[Json], Any]) -> Evidence:
    """The last request as the harness would have sent it, translated as before."""
    call = last_of(evidence, dialect)
    return with_call(evidence, call.model_copy(update={"received": edit_body(call.received, edit)}))


def events_of(message: Message | None) -> Events:
    """The events of a stream."""
    events: Events = []
    for block in found(message, "delivered reply").body.split("\n\n"):
        rows = dict(row.split(": ", 1) for row in block.split("\n") if ": " in row)
        if "data" in rows:
            events.append((rows.get("event"), json.loads(rows["data"])))
    return events


def edit_events(call: Call, edit: Callable[[Events], Any]) -> Call:
    """A call of which other events were delivered."""
    delivered = found(call.delivered, "delivered reply")
    if delivered.body.startswith(("{", "[")):
        raise NothingToSabotage("the last turn was not streamed")
    events = events_of(delivered)
    edit(events)
    written = (
        ("" if name is None else f"event: {name}\n") + f"data: {json.dumps(data, ensure_ascii=False, separators=(',', ':'))}\n\n"
        for name, data in events
    )
    return call.model_copy(update={"delivered": delivered.model_copy(update={"body": "".join(written)})})


def places_of(events: Events, kind: str) -> list[int]:
    """Where events of this type stand, or deltas of this type."""
    kinds = [(data.get("type"), fields.get("type") if isinstance(fields := data.get("delta"), dict) else None) for _, data in events]
    return found([place for place, both in enumerate(kinds) if kind in both] or None, f"event of the type {kind}")


def replace_whole(events: Events, whole: str, changed: str) -> None:
    """Another text wherever events tell it whole."""
    for entry in objects([data for _, data in events]):
        for name, value in entry.items():
            if value == whole and name != "delta":
                entry[name] = changed


def text_pieces(data: Json) -> Iterator[tuple[Json, str]]:
    """What one event adds to the text: the object that holds it, and under which name."""
    if data.get("type") == "content_block_delta" and data["delta"].get("type") == "text_delta":
        yield data["delta"], "text"
    elif data.get("type") == "response.output_text.delta":
        yield data, "delta"
    for candidate in data.get("candidates") or ():
        yield from ((part, "text") for part in candidate["content"]["parts"] if "text" in part and not part.get("thought"))


def argument_pieces(data: Json) -> Iterator[tuple[Json, str]]:
    """What one event adds to the arguments of a call: the object that holds it, and under which name."""
    if data.get("type") == "content_block_delta" and data["delta"].get("type") == "input_json_delta":
        yield data["delta"], "partial_json"
    elif data.get("type") == "response.function_call_arguments.delta":
        yield data, "delta"


def item_of(data: Json) -> Any:
    """Which item or block an event is about."""
    return data.get("output_index", data.get("index"))


def function_calls(events: Events) -> Iterator[Json]:
    """The function calls in events of Gemini."""
    return (entry["functionCall"] for entry in objects([data for _, data in events]) if "functionCall" in entry)


def objects(value: Any) -> Iterator[Json]:
    """Every object in a JSON value, however deep."""
    if isinstance(value, dict):
        yield value
    for entry in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from objects(entry)


def blocks(turn: Json, kind: str) -> list[Json]:
    """The content blocks of this type in a message."""
    content = turn.get("content")
    return [block for block in content if block.get("type") == kind] if isinstance(content, list) else []


def first_of(entries: Iterable[Json], wanted: Callable[[Json], Any]) -> Json:
    """The first of them that is wanted. Raises NothingToSabotage."""
    return found(next((entry for entry in entries if wanted(entry)), None), "such part in its last request")
