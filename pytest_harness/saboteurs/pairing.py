"""Faults of tool calls and their results."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from pytest_harness.evidence.model import Evidence
from pytest_harness.graph import build
from pytest_harness.saboteurs.extras import SAID, plant, side_call
from pytest_harness.saboteurs.registry import NothingToSabotage, chosen, saboteur
from pytest_harness.saboteurs.surgery import (
    Json,
    call_ids,
    edit_delivered,
    edit_request,
    history,
    in_chat,
    last_turn,
    replace_text,
    tool_calls,
    with_call,
)


@saboteur
def stray_result(evidence: Evidence) -> Evidence:
    """A result answers a call that nobody made."""
    return _last_history(evidence, lambda messages: messages.append({"role": "tool", "tool_call_id": "call_nobody", "content": ""}))


@saboteur
def repeated_result(evidence: Evidence) -> Evidence:
    """A result is sent twice."""

    def repeat(messages: list[Json]) -> None:
        position = max(number for number, message in enumerate(messages) if message["role"] == "tool")
        messages.insert(position, dict(messages[position]))

    return history(evidence, _results, repeat, "a tool result")


@saboteur
def orphan_call(evidence: Evidence) -> Evidence:
    """The last result was lost on the way into the history."""

    def lose(messages: list[Json]) -> None:
        messages.pop(max(number for number, message in enumerate(messages) if message["role"] == "tool"))

    return _last_history(evidence, lose)


@saboteur
def swapped_results(evidence: Evidence) -> Evidence:
    """Parallel calls are answered in the order in which they ended."""

    def swap(messages: list[Json]) -> None:
        first = _pair(messages)
        assert first is not None
        messages[first], messages[first + 1] = messages[first + 1], messages[first]

    return history(evidence, lambda messages: _pair(messages) is not None, swap, "two results of one turn")


@saboteur
def misplaced_results(evidence: Evidence) -> Evidence:
    """Two parallel calls get each other's results."""

    def swap(messages: list[Json]) -> None:
        first = _pair(messages)
        assert first is not None
        one, two = messages[first], messages[first + 1]
        one["content"], two["content"] = two["content"], one["content"]

    _paired(evidence)
    return history(evidence, lambda messages: _pair(messages) is not None, swap, "two results of one turn")


@saboteur
def replaced_result(evidence: Evidence) -> Evidence:
    """Every result says the same."""

    def replace_all(messages: list[Json]) -> None:
        for message in messages:
            if message["role"] == "tool":
                message["content"] = "ok"

    return history(evidence, _results, replace_all, "a tool result")


@saboteur
def repeated_call_id(evidence: Evidence) -> Evidence:
    """The engine counts its calls anew in every turn."""
    several = [ids for ids in call_ids(evidence) if ids]
    if len(several) < 2:
        raise NothingToSabotage("fewer than two turns have tool calls")
    return replace_text(evidence, several[1][0], several[0][0])


@saboteur
def empty_call_id(evidence: Evidence) -> Evidence:
    """The engine gives a call an empty id."""
    return replace_text(evidence, f'"{_struck_id(evidence)}"', '""')


@saboteur
def renamed_call_id(evidence: Evidence) -> Evidence:
    """The harness takes the punctuation out of call ids in its history."""
    agent = [call for call in evidence.calls if call.index in _agent(evidence)]
    kept = [name for ids in call_ids(evidence) for name in ids if any(name in call.received.body for call in agent)]
    if not kept:
        raise NothingToSabotage("no request of the agent has a call in its history")
    name = chosen(kept, 0)

    def rename(messages: list[Json]) -> None:
        messages[:] = json.loads(json.dumps(messages).replace(name, name.replace("-", "")))

    return history(evidence, lambda messages: name in json.dumps(messages), rename, "a call in its history")


@saboteur
def dropped_parallel_call(evidence: Evidence) -> Evidence:
    """The harness runs the first of two parallel calls and forgets the other."""
    names = next((ids for ids in call_ids(evidence) if len(ids) > 1), None)
    if names is None:
        raise NothingToSabotage("no turn has two tool calls")
    _paired(evidence)

    def drop(messages: list[Json]) -> None:
        messages[:] = [message for message in messages if message.get("tool_call_id") != names[1]]
        for message in messages:
            if message.get("tool_calls"):
                message["tool_calls"] = [call for call in message["tool_calls"] if call["id"] != names[1]]

    return history(evidence, lambda messages: names[1] in json.dumps(messages), drop, "two parallel calls in its history")


@saboteur
def mutated_arguments(evidence: Evidence) -> Evidence:
    """The harness adds defaults to the arguments in its history."""

    def add(messages: list[Json]) -> None:
        function = next(message for message in messages if message.get("tool_calls"))["tool_calls"][0]["function"]
        function["arguments"] = json.dumps({**json.loads(function["arguments"]), "timeout": 30})

    return history(evidence, lambda messages: any(message.get("tool_calls") for message in messages), add, "a call in its history")


@saboteur
def repaired_arguments(evidence: Evidence) -> Evidence:
    """The proxy writes the arguments anew: the same value in other bytes."""

    def repair(parts: list[Json]) -> None:
        fragment = next(call for call in tool_calls(parts) if call["function"].get("arguments"))
        fragment["function"]["arguments"] = " " + fragment["function"]["arguments"]

    turns = [call for call, ids in zip(evidence.calls, call_ids(evidence), strict=True) if ids]
    if not turns:
        raise NothingToSabotage("no turn has a tool call")
    return with_call(evidence, edit_delivered(chosen(turns, 0), repair))


@saboteur
def new_call_id(evidence: Evidence) -> Evidence:
    """The proxy gives calls ids of its own; harness and log know no other."""
    return replace_text(evidence, _struck_id(evidence), "call_of_the_proxy", but_replied=True)


@saboteur
def unknown_tool_unanswered(evidence: Evidence) -> Evidence:
    """The model called a tool that is not there, and was told nothing."""
    made = {"id": "call_unknown", "type": "function", "function": {"name": "no_such_tool", "arguments": "{}"}}
    planted = (
        {"role": "assistant", "content": None, "tool_calls": [made]},
        {"role": "tool", "tool_call_id": "call_unknown", "content": ""},
    )
    return plant(evidence, *planted)


@saboteur
def made_up_call(evidence: Evidence) -> Evidence:
    """The harness puts a call into the history that the model never made."""
    if len(evidence.calls) < 2:
        raise NothingToSabotage("the evidence has no second call")
    name = _a_tool(evidence)

    def add(body: Json) -> None:
        made = {"id": "call_of_the_harness", "type": "function", "function": {"name": name, "arguments": "{}"}}
        result = {"role": "tool", "tool_call_id": made["id"], "content": "Reminder: be brief."}
        body["messages"] += [{"role": "assistant", "content": None, "tool_calls": [made]}, result]

    return with_call(evidence, edit_request(last_turn(evidence), add))


@saboteur
def dotted_call_id(evidence: Evidence) -> Evidence:
    """The engine makes its ids of the names of the tools."""
    return replace_text(evidence, _struck_id(evidence), "functions.bash:0")


@saboteur
def call_left_in_the_text(evidence: Evidence) -> Evidence:
    """The engine's parser does not see a call, which stays in the text."""
    return side_call(evidence, text='<tool_call>{"name": "bash", "arguments": {}}</tool_call>')


@saboteur
def rewritten_words(evidence: Evidence) -> Evidence:
    """The harness puts a turn into other words."""

    def rewrite(messages: list[Json]) -> None:
        next(message for message in messages if message["role"] == "assistant")["content"] = "The assistant looked around."

    return history(evidence, lambda messages: any(message["role"] == "assistant" for message in messages), rewrite, "turn in its history")


@saboteur
def streamed_call_without_id(evidence: Evidence) -> Evidence:
    """A call has no id if it is streamed."""
    if not evidence.manifest.seam.streams:
        raise NothingToSabotage("the harness does not stream")
    made = {name: value for name, value in SAID.items() if name != "id"}
    return side_call(evidence, calls=[made], finish="tool_calls", streamed=True)


def _a_tool(evidence: Evidence) -> str:
    tools = json.loads(in_chat(last_turn(evidence)).received.body).get("tools")
    if not tools:
        raise NothingToSabotage("the last request offers no tools")
    return str(tools[0]["function"]["name"])


def _struck_id(evidence: Evidence) -> str:
    made = [name for ids in call_ids(evidence) for name in ids]
    if not made:
        raise NothingToSabotage("no turn has a tool call")
    return chosen(made, 0)


def _results(messages: list[Json]) -> bool:
    return any(message["role"] == "tool" for message in messages)


def _last_history(evidence: Evidence, edit: Any) -> Evidence:
    call = last_turn(evidence)
    if not _results(json.loads(in_chat(call).received.body)["messages"]):
        raise NothingToSabotage("the last request has no tool result")
    return with_call(evidence, edit_request(call, lambda body: edit(body["messages"])))


def _agent(evidence: Evidence) -> set[int]:
    """The indices of the agent's own turns."""
    return {turn.call for turn in build(evidence.calls).turns if turn.role == "agent"}


def _paired(evidence: Evidence) -> None:
    """Raises NothingToSabotage if no request of the agent has two results of one turn."""
    histories = [json.loads(in_chat(call).received.body)["messages"] for call in evidence.calls if call.index in _agent(evidence)]
    if all(_pair(messages) is None for messages in histories):
        raise NothingToSabotage("no request of the agent has two results of one turn")


def _pair(messages: list[Json]) -> int | None:
    """Where the first two results of one turn stand."""
    both = (number for number, (one, two) in enumerate(pairwise(messages)) if one["role"] == two["role"] == "tool")
    return next(both, None)
