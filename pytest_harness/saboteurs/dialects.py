"""Faults of the translation between chat completions and the other dialects, and of harnesses that speak them.

Each strikes the bytes of one dialect, as a harness or a proxy would, and leaves what chat completions say of it as it would be then.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pytest_harness.evidence.model import Call, Dialect, Evidence, Message
from pytest_harness.saboteurs.registry import NothingToSabotage, chosen, saboteur
from pytest_harness.saboteurs.surgery import TRAJECTORY, Json, edit_body, edit_file, edit_forwarded, edit_replied, found, with_call

Events = list[tuple[str | None, Json]]
"""The name and the data of each event of a stream."""


# --- what was sent on ---------------------------------------------------------------------------------------------------------------------


@saboteur
def dropped_in_translation(evidence: Evidence) -> Evidence:
    """The engine is not told what stands before the first question."""
    return _sent_on(evidence, lambda messages: messages.pop(0))


@saboteur
def moved_in_translation(evidence: Evidence) -> Evidence:
    """The engine is told the instructions behind the first question."""
    return _sent_on(evidence, lambda messages: messages.insert(1, messages.pop(0)))


@saboteur
def invented_in_translation(evidence: Evidence) -> Evidence:
    """The engine is told something of the proxy's own."""
    return _sent_on(evidence, lambda messages: messages.insert(1, {"role": "system", "content": "Answer in few words."}))


@saboteur
def changed_in_translation(evidence: Evidence) -> Evidence:
    """The engine is told the question with something behind it."""

    def change(messages: list[Json]) -> None:
        question = next(message for message in messages if message["role"] == "user")
        if isinstance(question["content"], str):
            question["content"] += " Be brief."
        else:
            question["content"].append({"type": "text", "text": " Be brief."})

    return _sent_on(evidence, change)


# --- what was delivered -------------------------------------------------------------------------------------------------------------------


@saboteur
def text_lost_in_translation(evidence: Evidence) -> Evidence:
    """The last piece of text is in none of the forms in which a dialect tells it."""
    call = _last(evidence)

    def cut(events: Events) -> None:
        pieces = [(data, name) for _, data in events for data, name in _text_pieces(data) if data[name]]
        if not pieces:
            raise NothingToSabotage("the last turn has no text")
        whole = "".join(data[name] for data, name in pieces)
        data, name = pieces[-1]
        data[name] = data[name][:-1]
        _replace(events, whole, whole[:-1])

    return with_call(evidence, _edited(call, cut))


@saboteur
def finish_lost_in_translation(evidence: Evidence) -> Evidence:
    """A reply that is whole is delivered as one that was cut."""

    def change(events: Events) -> None:
        for place, (name, data) in enumerate(events):
            if name == "response.completed":
                response = {**data["response"], "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
                events[place] = "response.incomplete", {**data, "type": "response.incomplete", "response": response}
            elif data.get("type") == "message_delta":
                data["delta"]["stop_reason"] = "max_tokens"
            for candidate in data.get("candidates") or ():
                if "finishReason" in candidate:
                    candidate["finishReason"] = "MAX_TOKENS"

    return with_call(evidence, _edited(_last(evidence), change))


@saboteur
def arguments_rewritten_in_translation(evidence: Evidence) -> Evidence:
    """The arguments of a call are delivered in other bytes where the dialect keeps them as text."""
    call = _with_calls(evidence, "responses", "messages")

    def rewrite(events: Events) -> None:
        places = [_place(data) for _, data in events if any(True for _ in _argument_pieces(data))]
        first = [piece for _, data in events if _place(data) == places[0] for piece in _argument_pieces(data)]
        whole = "".join(data[name] for data, name in first)
        for data, name in first:
            data[name] = ""
        first[0][0][first[0][1]] = f" {whole}"
        _replace(events, whole, f" {whole}")

    return with_call(evidence, _edited(call, rewrite))


@saboteur
def argument_added_in_translation(evidence: Evidence) -> Evidence:
    """A call is delivered with one more argument, with which harness and log know it ever after."""
    call = _with_calls(evidence, "gemini")
    name = next(_function_calls(_events(call.delivered)))["id"]

    def add(value: Any) -> None:
        for entry in _dicts(value):
            if entry.get("id") == name and isinstance(entry.get("args"), dict):
                entry["args"]["timeout"] = 30
            elif entry.get("id") == name and isinstance(entry.get("function"), dict):
                arguments = {**json.loads(entry["function"]["arguments"]), "timeout": 30}
                entry["function"]["arguments"] = json.dumps(arguments)
            elif entry.get("tool_call_id") == name and isinstance(entry.get("arguments"), dict):
                entry["arguments"]["timeout"] = 30

    changed = with_call(evidence, _edited(call, lambda events: add([data for _, data in events])))
    for later in evidence.calls:
        if later.index > call.index and name in later.received.body:
            changes = {"received": edit_body(later.received, add), "forwarded": edit_body(later.forwarded, add)}
            changed = with_call(changed, later.model_copy(update=changes))
    return edit_file(changed, TRAJECTORY, add) if TRAJECTORY in evidence.files else changed


@saboteur
def ids_leaked_in_translation(evidence: Evidence) -> Evidence:
    """The ids of the capture reach a harness of another dialect."""
    return with_call(evidence, _edited(_last(evidence), lambda events: events[-1][1].update(token_ids=[1, 2, 3])))


@saboteur
def usage_lost_in_translation(evidence: Evidence) -> Evidence:
    """The counts are left out of the reply."""

    def drop(events: Events) -> None:
        for entry in _dicts([data for _, data in events]):
            entry.pop("usageMetadata", None)
            if "usage" in entry:
                entry["usage"] = None

    return with_call(evidence, _edited(_last(evidence), drop))


@saboteur
def cached_tokens_lost_in_translation(evidence: Evidence) -> Evidence:
    """The engine says how much of the prompt it had in its cache, and the harness is not told."""

    def count(parts: list[Json]) -> None:
        for part in parts:
            if part.get("usage"):
                part["usage"]["prompt_tokens_details"] = {"cached_tokens": 16}

    return with_call(evidence, edit_replied(_last(evidence), count))


# --- the grammar of events ----------------------------------------------------------------------------------------------------------------


@saboteur
def block_index_gap(evidence: Evidence) -> Evidence:
    """The indices of content blocks begin with 1."""

    def shift(events: Events) -> None:
        for _, data in events:
            if "index" in data:
                data["index"] += 1

    return _in(evidence, "messages", shift)


@saboteur
def delta_of_another_type(evidence: Evidence) -> Evidence:
    """A text comes as the input of a call, and once more as a text."""

    def insert(events: Events) -> None:
        place = chosen(_places(events, "text_delta"), 0)
        name, data = events[place]
        events.insert(place, (name, {**data, "delta": {"type": "input_json_delta", "partial_json": ""}}))

    return _in(evidence, "messages", insert)


@saboteur
def no_message_stop(evidence: Evidence) -> Evidence:
    """The stream of a message ends without its last event."""
    return _in(evidence, "messages", lambda events: events.pop())


@saboteur
def reopened_block(evidence: Evidence) -> Evidence:
    """A content block ends twice."""

    def reopen(events: Events) -> None:
        place = chosen(_places(events, "content_block_stop"), 0)
        events.insert(place, events[place])

    return _in(evidence, "messages", reopen)


@saboteur
def repeated_sequence_number(evidence: Evidence) -> Evidence:
    """Two events have one sequence number."""

    def repeat(events: Events) -> None:
        place = chosen(range(1, len(events)), 1)
        events[place][1]["sequence_number"] = events[place - 1][1]["sequence_number"]

    return _in(evidence, "responses", repeat)


@saboteur
def changed_item_id(evidence: Evidence) -> Evidence:
    """The pieces of an item come under another id than the item."""

    def change(events: Events) -> None:
        for _, data in events:
            if str(data.get("type")).endswith(".delta"):
                data["item_id"] = "item_of_the_proxy"

    return _in(evidence, "responses", change)


@saboteur
def unfinished_item(evidence: Evidence) -> Evidence:
    """An item says something else when it is done than it did in pieces."""

    def lose(events: Events) -> None:
        events.pop(chosen(_places(events, "response.output_text.delta"), 0))

    return _in(evidence, "responses", lose)


@saboteur
def second_terminal_event(evidence: Evidence) -> Evidence:
    """The response ends twice."""

    def repeat(events: Events) -> None:
        name, data = events[-1]
        events.append((name, {**data, "sequence_number": data["sequence_number"] + 1}))

    return _in(evidence, "responses", repeat)


@saboteur
def gemini_end_mark(evidence: Evidence) -> Evidence:
    """The stream has the end mark of another dialect."""
    call = _last(evidence, "gemini")
    delivered = found(call.delivered, "delivered reply")
    return with_call(
        evidence, call.model_copy(update={"delivered": delivered.model_copy(update={"body": f"{delivered.body}data: [DONE]\n\n"})})
    )


@saboteur
def gemini_early_finish(evidence: Evidence) -> Evidence:
    """The finish reason comes with the first event."""

    def hurry(events: Events) -> None:
        if len(events) < 2:
            raise NothingToSabotage("the turn came in one event")
        first, last = events[0][1]["candidates"][0], events[-1][1]["candidates"][0]
        first["finishReason"] = last.pop("finishReason")

    return _in(evidence, "gemini", hurry)


@saboteur
def gemini_two_kinds_in_a_part(evidence: Evidence) -> Evidence:
    """A part is a text and a file at once."""

    def add(events: Events) -> None:
        parts = [part for _, data in events for part in data["candidates"][0]["content"]["parts"]]
        chosen(parts, 0)["fileData"] = {"fileUri": "https://example.com/a.txt"}

    return _in(evidence, "gemini", add)


# --- what the harness sends back ----------------------------------------------------------------------------------------------------------


@saboteur
def text_before_results(evidence: Evidence) -> Evidence:
    """The harness puts a word in front of the results of its calls; the translation does not know where else to put it."""

    def put(body: Json) -> None:
        turn = _first(body["messages"], lambda turn: _blocks(turn, "tool_result"))
        turn["content"].insert(0, {"type": "text", "text": ""})

    return _asked(evidence, "messages", put)


@saboteur
def split_results(evidence: Evidence) -> Evidence:
    """The results of parallel calls come in a message each."""

    def split(body: Json) -> None:
        turn = _first(body["messages"], lambda turn: len(_blocks(turn, "tool_result")) > 1)
        place = body["messages"].index(turn)
        body["messages"][place : place + 1] = [{**turn, "content": [block]} for block in turn["content"]]

    return _asked(evidence, "messages", split)


@saboteur
def output_of_another_kind(evidence: Evidence) -> Evidence:
    """The output of a function is sent as that of a tool of the harness's own making."""

    def rename(body: Json) -> None:
        _first(body["input"], lambda item: item.get("type") == "function_call_output")["type"] = "custom_tool_call_output"

    return _asked(evidence, "responses", rename)


@saboteur
def lone_reasoning(evidence: Evidence) -> Evidence:
    """A reasoning item is sent back without the item that it led to."""

    def append(body: Json) -> None:
        body["input"].append({"type": "reasoning", "id": "rs_alone", "summary": []})

    return _asked(evidence, "responses", append)


@saboteur
def renamed_response(evidence: Evidence) -> Evidence:
    """A function response has the id of its call and the name of something else."""

    def rename(body: Json) -> None:
        _first(_dicts(body["contents"]), lambda part: "functionResponse" in part)["functionResponse"]["name"] = "another_function"

    return _asked(evidence, "gemini", rename)


@saboteur
def forged_signature(evidence: Evidence) -> Evidence:
    """A harness that cannot keep a signature puts one of its own in its place."""

    def forge(body: Json) -> None:
        for part in _dicts(body["contents"]):
            if "thoughtSignature" in part:
                part["thoughtSignature"] = "c2lnbmF0dXJlIG9mIHRoZSBoYXJuZXNz"

    return _asked(evidence, "gemini", forge)


@saboteur
def lost_signature(evidence: Evidence) -> Evidence:
    """A harness forgets the signatures."""

    def forget(body: Json) -> None:
        for part in _dicts(body["contents"]):
            part.pop("thoughtSignature", None)

    return _asked(evidence, "gemini", forget)


@saboteur
def orphan_item(evidence: Evidence) -> Evidence:
    """The harness forgets the last result, in its own dialect."""
    call = _last(evidence, "responses", "messages")

    def forget(body: Json) -> None:
        if "input" in body:
            body["input"].remove([item for item in body["input"] if item.get("type") == "function_call_output"][-1])
            return
        turn = [turn for turn in body["messages"] if _blocks(turn, "tool_result")][-1]
        turn["content"].remove(_blocks(turn, "tool_result")[-1])

    def forget_in_chat(body: Json) -> None:
        body["messages"].remove([message for message in body["messages"] if message["role"] == "tool"][-1])

    if '"tool"' not in found(call.forwarded, "forwarded request").body:
        raise NothingToSabotage("the last request has no result")
    changes = {"received": edit_body(call.received, forget), "forwarded": edit_body(call.forwarded, forget_in_chat)}
    return with_call(evidence, call.model_copy(update=changes))


# --- instruments --------------------------------------------------------------------------------------------------------------------------


def _turns(evidence: Evidence, dialects: Iterable[Dialect]) -> list[Call]:
    wanted = tuple(dialects) or ("responses", "messages", "gemini")
    calls = [call for call in evidence.calls if call.outcome == "complete" and call.samples and call.dialect in wanted]
    if not calls:
        raise NothingToSabotage(f"no call was answered in the dialects {', '.join(wanted)}")
    return calls


def _last(evidence: Evidence, *dialects: Dialect) -> Call:
    return _turns(evidence, dialects)[-1]


def _with_calls(evidence: Evidence, *dialects: Dialect) -> Call:
    for call in _turns(evidence, dialects):
        events = _events(call.delivered)
        if any(True for _, data in events for _ in _argument_pieces(data)) or any(True for _ in _function_calls(events)):
            return call
    raise NothingToSabotage("no turn has a tool call")


def _in(evidence: Evidence, dialect: Dialect, edit: Callable[[Events], Any]) -> Evidence:
    """The evidence with the events of one turn edited, which are the vendor's otherwise."""
    return with_call(evidence, _edited(chosen(_turns(evidence, [dialect]), -1), edit))


def _sent_on(evidence: Evidence, edit: Callable[[list[Json]], Any]) -> Evidence:
    """The requests with the messages edited that the engine got."""
    for call in _turns(evidence, ()):
        evidence = with_call(evidence, edit_forwarded(call, lambda body: edit(body["messages"])))
    return evidence


def _asked(evidence: Evidence, dialect: Dialect, edit: Callable[[Json], Any]) -> Evidence:
    """The last request as the harness would have sent it, translated as before."""
    call = _last(evidence, dialect)
    return with_call(evidence, call.model_copy(update={"received": edit_body(call.received, edit)}))


def _events(message: Message | None) -> Events:
    events: Events = []
    for block in found(message, "delivered reply").body.split("\n\n"):
        rows = dict(row.split(": ", 1) for row in block.split("\n") if ": " in row)
        if "data" in rows:
            events.append((rows.get("event"), json.loads(rows["data"])))
    return events


def _edited(call: Call, edit: Callable[[Events], Any]) -> Call:
    """A call of which other events were delivered."""
    delivered = found(call.delivered, "delivered reply")
    if delivered.body.startswith(("{", "[")):
        raise NothingToSabotage("the last turn was not streamed")
    events = _events(delivered)
    edit(events)
    written = (
        ("" if name is None else f"event: {name}\n") + f"data: {json.dumps(data, ensure_ascii=False, separators=(',', ':'))}\n\n"
        for name, data in events
    )
    return call.model_copy(update={"delivered": delivered.model_copy(update={"body": "".join(written)})})


def _places(events: Events, kind: str) -> list[int]:
    """Where events of this type stand, or deltas of this type."""
    kinds = [(data.get("type"), fields.get("type") if isinstance(fields := data.get("delta"), dict) else None) for _, data in events]
    return found([place for place, both in enumerate(kinds) if kind in both] or None, f"event of the type {kind}")


def _replace(events: Events, whole: str, changed: str) -> None:
    """Another text wherever events tell it whole."""
    for entry in _dicts([data for _, data in events]):
        for name, value in entry.items():
            if value == whole and name != "delta":
                entry[name] = changed


def _text_pieces(data: Json) -> Iterator[tuple[Json, str]]:
    """What one event adds to the text: the object that holds it, and under which name."""
    if data.get("type") == "content_block_delta" and data["delta"].get("type") == "text_delta":
        yield data["delta"], "text"
    elif data.get("type") == "response.output_text.delta":
        yield data, "delta"
    for candidate in data.get("candidates") or ():
        yield from ((part, "text") for part in candidate["content"]["parts"] if "text" in part and not part.get("thought"))


def _argument_pieces(data: Json) -> Iterator[tuple[Json, str]]:
    if data.get("type") == "content_block_delta" and data["delta"].get("type") == "input_json_delta":
        yield data["delta"], "partial_json"
    elif data.get("type") == "response.function_call_arguments.delta":
        yield data, "delta"


def _place(data: Json) -> Any:
    return data.get("output_index", data.get("index"))


def _function_calls(events: Events) -> Iterator[Json]:
    return (entry["functionCall"] for entry in _dicts([data for _, data in events]) if "functionCall" in entry)


def _dicts(value: Any) -> Iterator[Json]:
    """Every object in a JSON value, however deep."""
    if isinstance(value, dict):
        yield value
    for entry in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _dicts(entry)


def _blocks(turn: Json, kind: str) -> list[Json]:
    content = turn.get("content")
    return [block for block in content if block.get("type") == kind] if isinstance(content, list) else []


def _first(entries: Iterable[Json], wanted: Callable[[Json], Any]) -> Json:
    return found(next((entry for entry in entries if wanted(entry)), None), "such part in its last request")
