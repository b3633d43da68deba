"""PAR: tool calls and their results stay paired, from the engine through the harness and back."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from pytest_harness.contract.chat_wire import (
    Choice,
    ToolCall,
    Turn,
    asked,
    call_objects,
    is_json,
    line,
    parse_json,
    plain_text,
    same_json,
    short,
    steps,
    turns,
)
from pytest_harness.contract.linked import graph_of
from pytest_harness.contract.model import Fault, NotExercised, check
from pytest_harness.contract.tokens import answered
from pytest_harness.evidence.model import Evidence
from pytest_harness.evidence.notes import ids_filled_in

PORTABLE = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""The ids of calls that every vendor's interface takes."""

LEFT_OVER = ("<tool_call>", "</tool_call>", "<|tool_call", "<｜tool▁call", "[TOOL_CALLS]", "<function=", "<|python_tag|>")
"""Marks of calls in the templates of models: where they are left in the text, the engine's parser did not see the call."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """An assistant message in the history of a request and the tool messages right after it."""

    turn: Turn
    position: int
    """Of the assistant message among the messages; -1 where tool messages follow none."""
    calls: list[ToolCall]
    results: list[Any]
    """The ``tool_call_id`` of each."""
    texts: list[str]
    """What each says."""

    @property
    def where(self) -> str:
        """Where it stands in the evidence."""
        return f"{line(self.turn.call)}, received.body messages[{max(self.position, 0)}]"


@check("PAR-001")
def a_result_answers_a_call_just_made(evidence: Evidence) -> Iterator[Fault]:
    """Strays and repetitions."""
    for exchange in _exchanges(evidence):
        known = {_key(call.id) for call in exchange.calls}
        for result, times in Counter(map(_key, exchange.results)).items():
            if result not in known:
                yield Fault(exchange.turn.call.index, "the id of a call just made", short(repr(result)), exchange.where)
            elif times > 1 and times > sum(_key(call.id) == result for call in exchange.calls):
                yield Fault(exchange.turn.call.index, f"one result for {result}", f"{times} results", exchange.where)


@check("PAR-002")
def every_call_is_answered(evidence: Evidence) -> Iterator[Fault]:
    """The calls of a last reply that no request follows are nobody's."""
    for exchange in _with_calls(evidence):
        answered_ids = set(map(_key, exchange.results))
        for call in exchange.calls:
            if _key(call.id) not in answered_ids:
                yield Fault(exchange.turn.call.index, f"a result for call {call.id} of {call.name}", "none", exchange.where)


@check("PAR-003")
def results_stand_in_the_order_of_the_calls(evidence: Evidence) -> Iterator[Fault]:
    """Only among the results that answer a call."""
    several = [exchange for exchange in _with_calls(evidence) if len(exchange.calls) > 1]
    if not several:
        raise NotExercised("no turn made several calls")
    for exchange in several:
        order = [_key(call.id) for call in exchange.calls]
        places = [order.index(result) for result in map(_key, exchange.results) if result in order]
        if places != sorted(places):
            seen = ", ".join(map(str, exchange.results))
            yield Fault(exchange.turn.call.index, f"results in the order {', '.join(map(str, order))}", seen, exchange.where)


@check("PAR-004")
def call_ids_are_there_and_unique(evidence: Evidence) -> Iterator[Fault]:
    """As the engine gave them."""
    first: dict[str, Turn] = {}
    made = False
    for turn in answered(evidence):
        for call in turn.engine.calls:
            made = True
            where = f"{line(turn.call)}, replied.body tool_calls"
            if not isinstance(call.id, str) or not call.id:
                yield Fault(turn.call.index, "an id that is not empty", repr(call.id), where)
            elif call.id in first:
                yield Fault(turn.call.index, f"an id that no call of call {first[call.id].call.index} has", call.id, where)
            else:
                first[call.id] = turn
    if not made:
        raise NotExercised("the engine made no tool call")


@check("PAR-005")
def history_keeps_the_calls_as_they_were_made(evidence: Evidence) -> Iterator[Fault]:
    """Of each turn in the request of the next one."""
    compared = False
    for before, after in _successions(evidence):
        delivered = [(call.id, call.name) for call in before.harness.calls]
        position, message = _echo(before, after)
        kept = [(call.id, call.name) for call in call_objects(message)]
        if not delivered and not kept:
            continue
        compared = True
        if delivered != kept:
            where = f"{line(after.call)}, received.body messages[{position}].tool_calls"
            yield Fault(after.call.index, f"the calls of call {before.call.index}: {_named(delivered)}", _named(kept), where)
    if not compared:
        raise NotExercised("no request follows a turn with tool calls")


@check("PAR-006")
def history_keeps_the_arguments(evidence: Evidence) -> Iterator[Fault]:
    """As JSON values, as many harnesses write them anew. What the model wrote that is no JSON must come
    back as it was, where the dialect can hold it."""
    delivered: dict[str, list[str]] = {}
    for turn in turns(evidence):
        written = {_key(call.id): call.arguments for call in turn.engine.calls}
        for call in turn.harness.calls:
            if turn.call.dialect in ("messages", "gemini") and not is_json(written.get(_key(call.id), "null")):
                continue
            delivered.setdefault(_key(call.id), []).append(call.arguments)
    compared = False
    for exchange in _with_calls(evidence):
        for call in exchange.calls:
            made = delivered.get(_key(call.id))
            if made is None:
                continue
            compared = True
            if not any(same_json(arguments, call.arguments) for arguments in made):
                yield Fault(exchange.turn.call.index, short(made[0]), short(call.arguments), f"{exchange.where}.tool_calls")
    if not compared:
        raise NotExercised("no request repeats a call that was delivered")


@check("PAR-007")
def calls_are_delivered_as_the_engine_wrote_them(evidence: Evidence) -> Iterator[Fault]:
    """Byte for byte, but for an id that the engine did not give and that a note says was filled in."""
    compared = False
    for turn in answered(evidence):
        made, delivered = turn.engine.calls, turn.harness.calls
        if filled_in := ids_filled_in(turn.call.notes):
            own = [
                replace(call, id=theirs.id) if not theirs.id and call.id in filled_in else call
                for call, theirs in zip(delivered, made, strict=False)
            ]
            delivered = own + delivered[len(own) :]
        compared = compared or bool(made or delivered)
        if made != delivered:
            yield Fault(turn.call.index, _written(made), _written(delivered), f"{line(turn.call)}, delivered.body tool_calls")
    if not compared:
        raise NotExercised("the engine made no tool call")


@check("PAR-008")
def a_result_says_what_its_command_printed(evidence: Evidence) -> Iterator[Fault]:
    """In the requests as they went to the engine, where every dialect says the same."""
    scenario = evidence.manifest.scenario
    groups = steps(evidence)
    compared = False
    for number, (commands, prints) in enumerate(zip(scenario.shell_commands, scenario.prints, strict=False)):
        made = [call for turn in (groups[number] if number < len(groups) else ()) for call in turn.harness.calls]
        for command, printed in zip(commands, prints, strict=False):
            ids = {_key(call.id) for call in made if printed and command in argument_texts(call)}
            for turn, position, text in _results_of(groups[number + 1 :], ids):
                compared = True
                if printed not in text and json.dumps(printed)[1:-1] not in text:  # some tell a result as JSON
                    where = f"{line(turn.call)}, forwarded.body messages[{position}]"
                    yield Fault(turn.call.index, f"{printed}, which {short(command)} prints", short(text) or "nothing", where)
    if not compared:
        raise NotExercised("no request holds the result of a scripted command that is known to print something")


@check("PAR-009")
def the_model_is_told_of_a_tool_that_is_not_there(evidence: Evidence) -> Iterator[Fault]:
    """By a result that says something."""
    unknown = [
        (exchange, call)
        for exchange in _with_calls(evidence)
        if (offered := _offered(exchange.turn))
        for call in exchange.calls
        if _key(call.name) not in offered and _key(call.id) in map(_key, exchange.results)
    ]
    if not unknown:
        raise NotExercised("no history has an answered call of a tool that is not on offer")
    for exchange, call in unknown:
        said = exchange.texts[list(map(_key, exchange.results)).index(_key(call.id))]
        if not said.strip():
            yield Fault(exchange.turn.call.index, f"a result that says that there is no tool {call.name}", "an empty one", exchange.where)


@check("PAR-010")
def history_holds_no_call_that_nobody_made(evidence: Evidence) -> Iterator[Fault]:
    """What the agent's first request holds is an example, or an earlier session's."""
    everything = asked(evidence)
    made = {_key(call.id) for turn in everything for call in turn.harness.calls}
    if not made:
        raise NotExercised("the harness got no tool call")
    firsts = [*everything[:1], *[turn for turn in everything if turn.has_tools][:1]]
    made |= {_key(call.id) for turn in firsts for message in turn.messages for call in call_objects(message)}
    for exchange in _exchanges(evidence):
        for call in exchange.calls:
            if _key(call.id) not in made:
                made.add(_key(call.id))
                seen = f"{call.id} {call.name}({short(call.arguments)})"
                yield Fault(exchange.turn.call.index, "a call that the harness was given", seen, exchange.where)


@check("PAR-011")
def call_ids_are_portable(evidence: Evidence) -> Iterator[Fault]:
    """As the engine gave them; ids that are missing are PAR-004's."""
    ids = [(turn, call.id) for turn in answered(evidence) for call in turn.engine.calls if isinstance(call.id, str) and call.id]
    if not ids:
        raise NotExercised("the engine made no tool call with an id")
    for turn, name in ids:
        if not PORTABLE.fullmatch(name):
            expected = "at most 64 letters, digits, hyphens and underscores"
            yield Fault(turn.call.index, expected, short(name), f"{line(turn.call)}, replied.body tool_calls")


@check("PAR-012")
def no_call_is_left_in_the_text(evidence: Evidence) -> Iterator[Fault]:
    """By the marks of the models' templates; in a reply that was cut the call may not have come to its end, and where the scenario has the
    model write a call that is none, the text is where it belongs."""
    if any(fault.kind == "malformed" for fault in evidence.manifest.scenario.faults):
        raise NotExercised("the model is told to write a call that is none")
    for turn in answered(evidence):
        for index, choice in turn.engine.choices.items():
            found = [mark for mark in LEFT_OVER if mark in choice.text]
            if found and choice.finish_reason != "length":
                where = f"{line(turn.call)}, replied.body choices[{index}]"
                yield Fault(turn.call.index, "text without marks of tool calls", f"{' and '.join(found)} in the text", where)


@check("PAR-013")
def history_keeps_the_words(evidence: Evidence) -> Iterator[Fault]:
    """Of each turn in the request of the next one; white space around them is free."""
    compared = False
    for before, after, position, message in echoes(evidence):
        said, kept = before.harness.choices.get(0, Choice()).text.strip(), plain_text(message).strip()
        if not said and not kept:
            continue
        compared = True
        if said != kept:
            where = f"{line(after.call)}, received.body messages[{position}].content"
            yield Fault(after.call.index, short(said) or "no text", short(kept) or "no text", where)
    if not compared:
        raise NotExercised("no request follows a turn with text")


def echoes(evidence: Evidence) -> list[tuple[Turn, Turn, int, dict[str, Any]]]:
    """Each turn of the agent that was continued, the turn that continued it, and where and how it stands in the history there."""
    return [(before, after, *_echo(before, after)) for before, after in _successions(evidence)]


def argument_texts(call: ToolCall) -> list[str]:
    """Every text in the arguments of a call, however deep it stands."""
    texts, rest = [], [parse_json(call.arguments)]
    while rest:
        value = rest.pop()
        if isinstance(value, str):
            texts.append(value)
        elif isinstance(value, dict | list):
            rest.extend(value.values() if isinstance(value, dict) else value)
    return texts


def _results_of(groups: Iterable[tuple[Turn, ...]], ids: set[Any]) -> Iterator[tuple[Turn, int, str]]:
    """The results of these calls in the first request that has each: later ones only repeat it."""
    open_ids = set(ids)
    for turn in (turn for group in groups for turn in group):
        messages = turn.forwarded.get("messages")
        numbered = list(enumerate(messages if isinstance(messages, list) else []))
        for position, message in reversed(numbered):  # where an engine repeats its ids, the last one is meant
            if isinstance(message, dict) and message.get("role") == "tool" and _key(message.get("tool_call_id")) in open_ids:
                open_ids.discard(_key(message.get("tool_call_id")))
                yield turn, position, plain_text(message)


def _exchanges(evidence: Evidence) -> list[Exchange]:
    """All exchanges with calls or results in the histories of all requests, also of those that failed."""
    found = [exchange for turn in asked(evidence) for exchange in _of(turn) if exchange.calls or exchange.results]
    if not found:
        raise NotExercised("no request has a tool call in its history")
    return found


def _with_calls(evidence: Evidence) -> list[Exchange]:
    found = [exchange for exchange in _exchanges(evidence) if exchange.calls]
    if not found:
        raise NotExercised("no request has a tool call in its history")
    return found


def _of(turn: Turn) -> Iterator[Exchange]:
    current = Exchange(turn, -1, [], [], [])
    for number, message in enumerate(turn.messages):
        if message.get("role") == "tool":
            current.results.append(message.get("tool_call_id"))
            current.texts.append(plain_text(message))
            continue
        yield current
        current = Exchange(turn, number, call_objects(message), [], [])
    yield current


def _successions(evidence: Evidence) -> Iterator[tuple[Turn, Turn]]:
    """Each turn with the turn that continued it. A history that was compacted continues nothing and is left out, also where it is as long
    as one that goes on, since its summary stands in it as a turn of the model's."""
    anew = {turn.call for turn in graph_of(evidence).turns if turn.sign == "summary"}
    for group, following in pairwise(steps(evidence)):
        before, after = group[-1], following[0]
        one_more = _assistants(after) == _assistants(before) + 1 and after.call.index not in anew
        if one_more or after.messages[: len(before.messages)] == before.messages:
            yield before, after


def _offered(turn: Turn) -> set[Any]:
    """The names of the tools on offer; empty where any of them has none, as a call may then mean it."""
    tools = turn.request.get("tools")
    functions = [tool.get("function") if isinstance(tool, dict) else None for tool in tools] if isinstance(tools, list) else []
    names = [function.get("name") if isinstance(function, dict) else None for function in functions]
    return set() if None in names else set(map(_key, names))


def _assistants(turn: Turn) -> int:
    return sum(message.get("role") == "assistant" for message in turn.messages)


def _echo(before: Turn, after: Turn) -> tuple[int, dict[str, Any]]:
    """Where the turn before stands in the history of the one after, and its message there; an empty one where it was dropped."""
    known = _assistants(before)
    for position, message in enumerate(after.messages):
        if message.get("role") == "assistant":
            if known == 0:
                return position, message
            known -= 1
    return len(after.messages), {}


def _key(value: Any) -> Any:
    return value if isinstance(value, str) else repr(value)


def _named(calls: list[tuple[Any, Any]]) -> str:
    return ", ".join(f"{name} {call}" for call, name in calls) or "no calls"


def _written(calls: list[ToolCall]) -> str:
    return short("; ".join(f"{call.id} {call.name}({call.arguments})" for call in calls) or "no calls", 300)
