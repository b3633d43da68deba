"""Faults of the translation between chat completions and the other dialects, and of harnesses that speak them.

Each strikes the bytes of one dialect, as a harness or a proxy would, and leaves what chat completions say of it as it would be then.
"""

from __future__ import annotations

import json
from typing import Any

from pytest_harness.evidence.model import Evidence
from pytest_harness.saboteurs.dialect_surgery import (
    Events,
    argument_pieces,
    asked,
    blocks,
    edit_events,
    events_of,
    first_of,
    function_calls,
    in_events,
    item_of,
    last_of,
    objects,
    places_of,
    replace_whole,
    sent_on,
    text_pieces,
    with_calls,
)
from pytest_harness.saboteurs.registry import NothingToSabotage, chosen, saboteur
from pytest_harness.saboteurs.surgery import TRAJECTORY, Json, edit_body, edit_file, edit_replied, found, with_call

# --- what was sent on ---------------------------------------------------------------------------------------------------------------------


@saboteur
def dropped_in_translation(evidence: Evidence) -> Evidence:
    """The engine is not told what stands before the first question."""
    return sent_on(evidence, lambda messages: messages.pop(0))


@saboteur
def moved_in_translation(evidence: Evidence) -> Evidence:
    """The engine is told the instructions behind the first question."""
    return sent_on(evidence, lambda messages: messages.insert(1, messages.pop(0)))


@saboteur
def invented_in_translation(evidence: Evidence) -> Evidence:
    """The engine is told something of the proxy's own."""
    return sent_on(evidence, lambda messages: messages.insert(1, {"role": "system", "content": "Answer in few words."}))


@saboteur
def changed_in_translation(evidence: Evidence) -> Evidence:
    """The engine is told the question with something behind it."""

    def change(messages: list[Json]) -> None:
        question = next(message for message in messages if message["role"] == "user")
        if isinstance(question["content"], str):
            question["content"] += " Be brief."
        else:
            question["content"].append({"type": "text", "text": " Be brief."})

    return sent_on(evidence, change)


# --- what was delivered -------------------------------------------------------------------------------------------------------------------


@saboteur
def text_lost_in_translation(evidence: Evidence) -> Evidence:
    """The last piece of text is in none of the forms in which a dialect tells it."""
    call = last_of(evidence)

    def cut(events: Events) -> None:
        pieces = [(data, name) for _, data in events for data, name in text_pieces(data) if data[name]]
        if not pieces:
            raise NothingToSabotage("the last turn has no text")
        whole = "".join(data[name] for data, name in pieces)
        data, name = pieces[-1]
        data[name] = data[name][:-1]
        replace_whole(events, whole, whole[:-1])

    return with_call(evidence, edit_events(call, cut))


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

    return with_call(evidence, edit_events(last_of(evidence), change))


@saboteur
def arguments_rewritten_in_translation(evidence: Evidence) -> Evidence:
    """The arguments of a call are delivered in other bytes where the dialect keeps them as text."""
    call = with_calls(evidence, "responses", "messages")

    def rewrite(events: Events) -> None:
        places = [item_of(data) for _, data in events if any(True for _ in argument_pieces(data))]
        first = [piece for _, data in events if item_of(data) == places[0] for piece in argument_pieces(data)]
        whole = "".join(data[name] for data, name in first)
        for data, name in first:
            data[name] = ""
        first[0][0][first[0][1]] = f" {whole}"
        replace_whole(events, whole, f" {whole}")

    return with_call(evidence, edit_events(call, rewrite))


@saboteur
def argument_added_in_translation(evidence: Evidence) -> Evidence:
    """A call is delivered with one more argument, with which harness and log know it ever after."""
    call = with_calls(evidence, "gemini")
    name = next(function_calls(events_of(call.delivered)))["id"]

    def add(value: Any) -> None:
        for entry in objects(value):
            if entry.get("id") == name and isinstance(entry.get("args"), dict):
                entry["args"]["timeout"] = 30
            elif entry.get("id") == name and isinstance(entry.get("function"), dict):
                arguments = {**json.loads(entry["function"]["arguments"]), "timeout": 30}
                entry["function"]["arguments"] = json.dumps(arguments)
            elif str(entry.get("tool_call_id")).rpartition("__")[2] == name and isinstance(entry.get("arguments"), dict):
                entry["arguments"]["timeout"] = 30  # in the log of Gemini CLI the function's name stands before the id

    changed = with_call(evidence, edit_events(call, lambda events: add([data for _, data in events])))
    for later in evidence.calls:
        if later.index > call.index and name in later.received.body:
            changes = {"received": edit_body(later.received, add), "forwarded": edit_body(later.forwarded, add)}
            changed = with_call(changed, later.model_copy(update=changes))
    return edit_file(changed, TRAJECTORY, add) if TRAJECTORY in evidence.files else changed


@saboteur
def ids_leaked_in_translation(evidence: Evidence) -> Evidence:
    """The ids of the capture reach a harness of another dialect."""
    return with_call(evidence, edit_events(last_of(evidence), lambda events: events[-1][1].update(token_ids=[1, 2, 3])))


@saboteur
def usage_lost_in_translation(evidence: Evidence) -> Evidence:
    """The counts are left out of the reply."""

    def drop(events: Events) -> None:
        for entry in objects([data for _, data in events]):
            entry.pop("usageMetadata", None)
            if "usage" in entry:
                entry["usage"] = None

    return with_call(evidence, edit_events(last_of(evidence), drop))


@saboteur
def cached_tokens_lost_in_translation(evidence: Evidence) -> Evidence:
    """The engine says how much of the prompt it had in its cache, and the harness is not told."""

    def count(parts: list[Json]) -> None:
        for part in parts:
            if part.get("usage"):
                part["usage"]["prompt_tokens_details"] = {"cached_tokens": 16}

    return with_call(evidence, edit_replied(last_of(evidence), count))


# --- the grammar of events ----------------------------------------------------------------------------------------------------------------


@saboteur
def block_index_gap(evidence: Evidence) -> Evidence:
    """The indices of content blocks begin with 1."""

    def shift(events: Events) -> None:
        for _, data in events:
            if "index" in data:
                data["index"] += 1

    return in_events(evidence, "messages", shift)


@saboteur
def delta_of_another_type(evidence: Evidence) -> Evidence:
    """A text comes as the input of a call, and once more as a text."""

    def insert(events: Events) -> None:
        place = chosen(places_of(events, "text_delta"), 0)
        name, data = events[place]
        events.insert(place, (name, {**data, "delta": {"type": "input_json_delta", "partial_json": ""}}))

    return in_events(evidence, "messages", insert)


@saboteur
def no_message_stop(evidence: Evidence) -> Evidence:
    """The stream of a message ends without its last event."""
    return in_events(evidence, "messages", lambda events: events.pop())


@saboteur
def reopened_block(evidence: Evidence) -> Evidence:
    """A content block ends twice."""

    def reopen(events: Events) -> None:
        place = chosen(places_of(events, "content_block_stop"), 0)
        events.insert(place, events[place])

    return in_events(evidence, "messages", reopen)


@saboteur
def repeated_sequence_number(evidence: Evidence) -> Evidence:
    """Two events have one sequence number."""

    def repeat(events: Events) -> None:
        place = chosen(range(1, len(events)), 1)
        events[place][1]["sequence_number"] = events[place - 1][1]["sequence_number"]

    return in_events(evidence, "responses", repeat)


@saboteur
def changed_item_id(evidence: Evidence) -> Evidence:
    """The pieces of an item come under another id than the item."""

    def change(events: Events) -> None:
        for _, data in events:
            if str(data.get("type")).endswith(".delta"):
                data["item_id"] = "item_of_the_proxy"

    return in_events(evidence, "responses", change)


@saboteur
def unfinished_item(evidence: Evidence) -> Evidence:
    """An item says something else when it is done than it did in pieces."""

    def lose(events: Events) -> None:
        events.pop(chosen(places_of(events, "response.output_text.delta"), 0))

    return in_events(evidence, "responses", lose)


@saboteur
def second_terminal_event(evidence: Evidence) -> Evidence:
    """The response ends twice."""

    def repeat(events: Events) -> None:
        name, data = events[-1]
        events.append((name, {**data, "sequence_number": data["sequence_number"] + 1}))

    return in_events(evidence, "responses", repeat)


@saboteur
def gemini_end_mark(evidence: Evidence) -> Evidence:
    """The stream has the end mark of another dialect."""
    call = last_of(evidence, "gemini")
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

    return in_events(evidence, "gemini", hurry)


@saboteur
def gemini_two_kinds_in_a_part(evidence: Evidence) -> Evidence:
    """A part is a text and a file at once."""

    def add(events: Events) -> None:
        parts = [part for _, data in events for part in data["candidates"][0]["content"]["parts"]]
        chosen(parts, 0)["fileData"] = {"fileUri": "https://example.com/a.txt"}

    return in_events(evidence, "gemini", add)


# --- what the harness sends back ----------------------------------------------------------------------------------------------------------


@saboteur
def text_before_results(evidence: Evidence) -> Evidence:
    """The harness puts a word in front of the results of its calls; the translation does not know where else to put it."""

    def put(body: Json) -> None:
        turn = first_of(body["messages"], lambda turn: blocks(turn, "tool_result"))
        turn["content"].insert(0, {"type": "text", "text": ""})

    return asked(evidence, "messages", put)


@saboteur
def split_results(evidence: Evidence) -> Evidence:
    """The results of parallel calls come in a message each."""

    def split(body: Json) -> None:
        turn = first_of(body["messages"], lambda turn: len(blocks(turn, "tool_result")) > 1)
        place = body["messages"].index(turn)
        body["messages"][place : place + 1] = [{**turn, "content": [block]} for block in turn["content"]]

    return asked(evidence, "messages", split)


@saboteur
def output_of_another_kind(evidence: Evidence) -> Evidence:
    """The output of a function is sent as that of a tool of the harness's own making."""

    def rename(body: Json) -> None:
        first_of(body["input"], lambda item: item.get("type") == "function_call_output")["type"] = "custom_tool_call_output"

    return asked(evidence, "responses", rename)


@saboteur
def lone_reasoning(evidence: Evidence) -> Evidence:
    """A reasoning item is sent back without the item that it led to."""

    def append(body: Json) -> None:
        body["input"].append({"type": "reasoning", "id": "rs_alone", "summary": []})

    return asked(evidence, "responses", append)


@saboteur
def renamed_response(evidence: Evidence) -> Evidence:
    """A function response has the id of its call and the name of something else."""

    def rename(body: Json) -> None:
        first_of(objects(body["contents"]), lambda part: "functionResponse" in part)["functionResponse"]["name"] = "another_function"

    return asked(evidence, "gemini", rename)


@saboteur
def forged_signature(evidence: Evidence) -> Evidence:
    """A harness that cannot keep a signature puts one of its own in its place."""

    def forge(body: Json) -> None:
        for part in objects(body["contents"]):
            if "thoughtSignature" in part:
                part["thoughtSignature"] = "c2lnbmF0dXJlIG9mIHRoZSBoYXJuZXNz"

    return asked(evidence, "gemini", forge)


@saboteur
def lost_signature(evidence: Evidence) -> Evidence:
    """A harness forgets the signatures."""

    def forget(body: Json) -> None:
        for part in objects(body["contents"]):
            part.pop("thoughtSignature", None)

    return asked(evidence, "gemini", forget)


@saboteur
def orphan_item(evidence: Evidence) -> Evidence:
    """The harness forgets the last result, in its own dialect."""
    call = last_of(evidence, "responses", "messages")

    def forget(body: Json) -> None:
        if "input" in body:
            body["input"].remove([item for item in body["input"] if item.get("type") == "function_call_output"][-1])
            return
        turn = [turn for turn in body["messages"] if blocks(turn, "tool_result")][-1]
        turn["content"].remove(blocks(turn, "tool_result")[-1])

    def forget_in_chat(body: Json) -> None:
        body["messages"].remove([message for message in body["messages"] if message["role"] == "tool"][-1])

    if '"tool"' not in found(call.forwarded, "forwarded request").body:
        raise NothingToSabotage("the last request has no result")
    changes = {"received": edit_body(call.received, forget), "forwarded": edit_body(call.forwarded, forget_in_chat)}
    return with_call(evidence, call.model_copy(update=changes))
