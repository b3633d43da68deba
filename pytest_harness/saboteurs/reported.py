"""Faults of engines, gateways and harnesses as others reported them, each named after what was seen; ``sources.toml`` has the links."""

from __future__ import annotations

import math
from typing import Any

from pytest_harness.evidence.model import Call, Evidence
from pytest_harness.saboteurs.registry import NothingToSabotage, chosen, saboteur
from pytest_harness.saboteurs.surgery import (
    Json,
    bound,
    call_ids,
    choices,
    edit_delivered,
    edit_forwarded,
    edit_reply,
    found,
    history,
    last_turn,
    resample,
    spoken,
    struck_turn,
    tool_calls,
    with_call,
)


@saboteur
def minus_infinity_logprob(evidence: Evidence) -> Evidence:
    """A token that the model could not have sampled has the logprob minus infinity."""

    def sink(entries: list[Json]) -> list[Json]:
        at = chosen(range(len(entries)), 0)
        return [{**entry, "logprob": -math.inf} if place == at else entry for place, entry in enumerate(entries)]

    return with_call(evidence, resample(struck_turn(evidence), lambda ids, entries: (ids, sink(entries))))


@saboteur
def ids_cut_to_the_text(evidence: Evidence) -> Evidence:
    """The record's ids and logprobs are cut by the length of the text, in which the end token does not show."""
    call = last_turn(evidence)  # of an earlier turn the chain would break too
    sample = call.samples[0]
    ids, logprobs = found(sample.token_ids, "sampled ids"), found(sample.logprobs, "logprobs")
    cut = sample.model_copy(update={"token_ids": ids[:-1], "logprobs": logprobs[:-1]})
    return with_call(evidence, call.model_copy(update={"samples": (cut, *call.samples[1:])}))


@saboteur
def lost_ids_of_a_streamed_call(evidence: Evidence) -> Evidence:
    """The engine leaves out ids and logprobs of the pieces in which a call came; its usage counts them."""
    call = chosen(_in_fragments(evidence), 0)
    lost: list[int] = []

    def count(parts: list[Json]) -> None:
        lost.append(sum(bool(spoken(choice).get("tool_calls")) for choice in choices(parts)))

    edit_delivered(call, count)
    return with_call(evidence, resample(call, lambda ids, entries: (ids[: -lost[0]], entries[: -lost[0]])))


@saboteur
def both_limits(evidence: Evidence) -> Evidence:
    """The gateway sends the limit under both of its names."""

    def double(body: Json) -> None:
        limits = [name for name in ("max_tokens", "max_completion_tokens") if body.get(name)]
        if len(limits) != 1:
            raise NothingToSabotage("the request has no limit, or both already")
        body["max_tokens"] = body["max_completion_tokens"] = body[limits[0]]

    return with_call(evidence, edit_forwarded(struck_turn(evidence), double))


@saboteur
def emptied_arguments(evidence: Evidence) -> Evidence:
    """A call that came in one piece is delivered with no arguments."""
    return _delivered_arguments(evidence, lambda texts: ["{}", *[""] * (len(texts) - 1)])


@saboteur
def lost_first_argument_fragment(evidence: Evidence) -> Evidence:
    """The first piece of the arguments is lost on the way, so the rest is no JSON."""
    return _delivered_arguments(evidence, lambda texts: ["", *texts[1:]])


@saboteur
def nameless_call_in_the_last_chunk(evidence: Evidence) -> Evidence:
    """A call that comes with the chunk that ends the reply has lost its id and its name."""

    def blank(parts: list[Json]) -> None:
        first = tool_calls(parts)[0]
        del first["id"], first["function"]["name"]

    first = _in_fragments(evidence)[0]  # of a later turn it depends on what follows who notices
    return with_call(evidence, edit_reply(first, blank))


@saboteur
def snapshots_as_deltas(evidence: Evidence) -> Evidence:
    """The harness takes each snapshot of a streamed call for a call of its own: in its history the call is there three times."""

    def repeat(messages: list[Json]) -> None:
        message = next(message for message in messages if message.get("tool_calls"))
        message["tool_calls"] = [*[message["tool_calls"][0]] * 2, *message["tool_calls"]]

    return history(evidence, _called, repeat, "a call in its history")


@saboteur
def cleared_tool_calls(evidence: Evidence) -> Evidence:
    """The calls of an earlier turn and their results are cleared in the history, its text stays."""

    def clear(messages: list[Json]) -> None:
        cleared = next(message for message in messages if message.get("tool_calls"))
        names = {call["id"] for call in cleared.pop("tool_calls")}
        cleared["content"] = cleared.get("content") or ""
        messages[:] = [message for message in messages if message.get("tool_call_id") not in names]

    return history(evidence, _called, clear, "a call in its history")


@saboteur
def unanswered_extra_call(evidence: Evidence) -> Evidence:
    """The model makes two calls where the harness expects one, and only the first is answered."""

    def forget(messages: list[Json]) -> None:
        extra = _several(messages)["tool_calls"][1]["id"]
        messages[:] = [message for message in messages if message.get("tool_call_id") != extra]

    return history(evidence, _several, forget, "two calls of one turn in its history")


@saboteur
def message_between_results(evidence: Evidence) -> Evidence:
    """Words of the user stand between the results of parallel calls."""

    def interrupt(messages: list[Json]) -> None:
        second = _several(messages)["tool_calls"][1]["id"]
        at = next(number for number, message in enumerate(messages) if message.get("tool_call_id") == second)
        messages.insert(at, {"role": "user", "content": "And?"})

    return history(evidence, _several, interrupt, "two calls of one turn in its history")


@saboteur
def history_cut_between_call_and_result(evidence: Evidence) -> Evidence:
    """A limit on the history cuts it between a call and its result."""

    def said(messages: list[Json]) -> Any:
        spoke = (message for message in messages if message.get("tool_calls") and message.get("content"))
        return next((message for message in spoke if not any("reasoning" in key for key in message)), None)

    return history(evidence, said, lambda messages: messages.remove(said(messages)), "call beside a text in its history")


@saboteur
def silent_prefill(evidence: Evidence) -> Evidence:
    """Nothing keeps the connection alive while the engine reads a long prompt."""
    call = last_turn(evidence)  # the answer to an earlier one would come after the next request
    if not (call.streamed and call.times.first_byte):
        raise NothingToSabotage("the last turn is no stream, or nobody recorded when its first byte came")
    late = {name: at + 90 for name in ("first_byte", "replied", "delivered") if (at := getattr(call.times, name)) is not None}
    return with_call(evidence, call.model_copy(update={"times": call.times.model_copy(update=late)}))


def _delivered_arguments(evidence: Evidence, change: Any) -> Evidence:
    """The evidence with the arguments of a call delivered otherwise, piece by piece."""
    bound(evidence)

    def edit(parts: list[Json]) -> None:
        made = tool_calls(parts)
        first = next(call for call in made if call["function"].get("arguments"))
        pieces = [call for call in made if call.get("index") == first.get("index") and call["function"].get("arguments")]
        for piece, text in zip(pieces, change([piece["function"]["arguments"] for piece in pieces]), strict=True):
            piece["function"]["arguments"] = text

    return with_call(evidence, edit_delivered(chosen(_in_fragments(evidence), 0), edit))


def _in_fragments(evidence: Evidence) -> list[Call]:
    """The streamed turns whose calls came in pieces, at least one."""
    answered = zip(evidence.calls, call_ids(evidence), strict=True)
    turns = [call for call, ids in answered if ids and call.streamed and call.dialect == "chat"]
    if not turns:
        raise NothingToSabotage("no tool call was streamed in pieces")
    return turns


def _called(messages: list[Json]) -> bool:
    return any(message.get("tool_calls") for message in messages)


def _several(messages: list[Json]) -> Any:
    """The first message with two calls, None if there is none."""
    return next((message for message in messages if len(message.get("tool_calls") or ()) > 1), None)
