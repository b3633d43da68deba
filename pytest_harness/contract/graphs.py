"""GRF: the turns form one conversation, each reply is in it once, and each sampled token counts once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from pytest_harness.contract.chat_wire import asked, conversation, document, line, short
from pytest_harness.contract.linked import graph_of
from pytest_harness.contract.model import Fault, NotExercised, check
from pytest_harness.contract.tokens import answered
from pytest_harness.evidence.model import Call, Evidence
from pytest_harness.graph import Graph, Turn, training_rows
from pytest_harness.graph.prefixes import Prefix
from pytest_harness.graph.requests import OPENING, messages_of, text_of


@check("GRF-001")
def one_append_only_chain(evidence: Evidence) -> Iterator[Fault]:
    """Only roots with another prompt than the first are breaks: a retry of the first call is none, nor is what a summary begins anew."""
    _repeatable(evidence)
    graph, calls = _graph(evidence)
    agent = _agent(graph)
    for before, turn in pairwise(agent):
        if turn.parent is None and turn.context is not agent[0].context and turn.sign != "summary":
            expected = f"a prompt that begins with the {before.length} ids of call {before.call}"
            yield Fault(turn.call, expected, f"another id at position {_shared(before, turn)}", f"{line(calls[turn.call])}, prompt_ids")


@check("GRF-002")
def one_reply_one_record(evidence: Evidence) -> Iterator[Fault]:
    """By the id in the engine's bytes."""
    first: dict[str, Call] = {}
    for turn in answered(evidence):
        name = turn.engine.id
        if isinstance(name, str) and name:
            before = first.setdefault(name, turn.call)
            if before is not turn.call:
                yield Fault(turn.call.index, f"an id other than that of call {before.index}", name, f"{line(turn.call)}, replied.body id")


@check("GRF-003")
def one_delivered_reply_for_each_prompt(evidence: Evidence) -> Iterator[Fault]:
    """Turns that the record calls undelivered, and those that the harness is seen to have retried, are free to be asked again."""
    graph, calls = _graph(evidence)
    first: dict[Prefix, Turn] = {}
    for turn in graph.turns:
        if turn.role == "agent" and turn.fate not in ("undelivered", "retried"):
            before = first.setdefault(turn.context, turn)
            if before is not turn:
                expected = f"another prompt than that of call {before.call}, which was answered and delivered"
                yield Fault(turn.call, expected, f"the same {turn.prompt_length} ids", f"{line(calls[turn.call])}, prompt_ids")


@check("GRF-004")
def what_was_continued_was_delivered(evidence: Evidence) -> Iterator[Fault]:
    """The harness cannot continue what it never got."""
    graph, calls = _graph(evidence)
    continued = [turn for turn in graph.turns if turn.call in graph.children]
    if not continued:
        raise NotExercised("no turn is continued by a later one")
    for turn in continued:
        if turn.fate == "undelivered":
            later = graph.children[turn.call][0].call
            yield Fault(
                turn.call, f"delivered, as call {later} continues it", calls[turn.call].delivery, f"{line(calls[turn.call])}, delivery"
            )


@check("GRF-005")
def every_sampled_token_counts_once(evidence: Evidence) -> Iterator[Fault]:
    """Turns that the graph sets aside by rule (no usable logprobs, not delivered, retried) are not counted; choices that it drops are."""
    graph, _ = _graph(evidence)
    counted: Counter[int] = Counter()
    rows = training_rows(graph)
    for row in rows:
        for call in row.calls:
            node = graph.by_call[call]
            counted[call] += sum(row.mask[node.prompt_length : node.length])
    for turn in conversation(evidence):
        found = graph.by_call.get(turn.call.index)
        if found is None or not (found.trainable or (found.fate in ("used", "ambiguous") and len(turn.call.samples) > 1)):
            continue
        sampled = sum(len(sample.token_ids or ()) for sample in turn.call.samples)
        if counted[turn.call.index] != sampled:
            seen = f"{counted[turn.call.index]} in the training rows"
            yield Fault(turn.call.index, f"{sampled} sampled tokens with weight", seen, f"{line(turn.call)}, samples")
    total, weight = sum(counted.values()), sum(sum(row.mask) for row in rows)
    if total != weight:
        yield Fault(None, f"{total} tokens with weight", f"{weight}", "the training rows of calls.ndjson")


@check("GRF-006")
def the_system_prompt_stays_the_same(evidence: Evidence) -> Iterator[Fault]:
    """Compared where a prompt begins anew, as only there it may have broken the chain."""
    graph, calls = _graph(evidence)
    agent = _agent(graph)
    if not any(_system(calls[turn.call]) for turn in agent):
        raise NotExercised("the agent has no system prompt")
    for before, turn in pairwise(agent):
        one, other = (_system(calls[part.call]) for part in (before, turn))
        if turn.parent is None and turn.sign != "summary" and one != other:
            at = next(
                (place for place, (left, right) in enumerate(zip(one, other, strict=False)) if left != right), min(len(one), len(other))
            )
            expected = f"the system prompt of call {before.call}: {short(one[max(0, at - 20) :], 60)!r}"
            where = f"{line(calls[turn.call])}, forwarded.body messages"
            yield Fault(turn.call, expected, f"{short(other[max(0, at - 20) :], 60)!r} from character {max(0, at - 20)} on", where)


@check("GRF-007")
def no_turn_falls_off_the_chain(evidence: Evidence) -> Iterator[Fault]:
    """Retries of one prompt have a rule of their own."""
    _repeatable(evidence)
    graph, calls = _graph(evidence)
    _agent(graph)
    for fork in graph.forks:
        branches = [turn for turn in graph.children[fork.call] if turn.role == "agent" and turn.fate not in ("undelivered", "retried")]
        for turn in branches:
            others = [one for one in branches if one.context is not turn.context and (one.call > turn.call or one.call in graph.children)]
            if others and (turn.call not in graph.children or turn.fate == "abandoned"):
                expected = f"a turn that is continued, as call {others[0].call} goes on from call {fork.call} too"
                seen = turn.why or f"no later prompt begins with its {turn.length} ids"
                yield Fault(turn.call, expected, seen, f"{line(calls[turn.call])}, samples")


@check("GRF-008")
def ids_continue_only_what_the_messages_continue(evidence: Evidence) -> Iterator[Fault]:
    """Two witnesses: the ids say that a prompt continues a turn, and the messages must say so too, as the harness sent them or as they went
    to the engine; whether these two agree is another question. White space is free."""
    graph, calls = _graph(evidence)
    linked = [(graph.by_call[turn.parent], turn) for turn in graph.turns if turn.parent is not None]
    if not linked:
        raise NotExercised("no turn is continued by a later one")
    sides = {turn.call.index: (messages_of(turn.request), messages_of(turn.forwarded)) for turn in asked(evidence)}
    for parent, turn in linked:
        if turn.call not in sides or parent.call not in sides:
            continue
        place = f"{line(calls[turn.call])}, received.body and forwarded.body"
        if not any(message.get("role") == "assistant" for messages in sides[turn.call] for message in messages):
            yield Fault(turn.call, f"a message of the assistant, as its ids continue call {parent.call}", "none", place)
        missing = [_missing(before, after) for before, after in zip(sides[parent.call], sides[turn.call], strict=True)]
        if None not in missing:
            yield Fault(turn.call, f"what call {parent.call} said, as its ids continue it: {short(missing[0])}", "another text", place)


def _repeatable(evidence: Evidence) -> None:
    """Raises NotExercised where no harness can keep the chain: the template writes no reasoning, no cut call and no text behind calls."""
    scenario = evidence.manifest.scenario
    if scenario.splits or any(fault.kind in ("length", "malformed") for fault in scenario.faults):
        raise NotExercised("the model says what the engine's template does not repeat, whatever the harness sends back")


def _graph(evidence: Evidence) -> tuple[Graph, dict[int, Call]]:
    graph = graph_of(evidence)
    if not graph.turns:
        raise NotExercised("no answered call carries ids")
    return graph, {call.index: call for call in evidence.calls}


def _agent(graph: Graph) -> list[Turn]:
    agent = [turn for turn in graph.turns if turn.role == "agent"]
    if len(agent) < 2:
        raise NotExercised("fewer than two turns of the agent carry ids")
    return agent


def _texts(messages: list[dict[str, Any]], roles: tuple[str, ...]) -> list[str]:
    return [text for message in messages if message.get("role") in roles and (text := text_of(message))]


def _missing(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> str | None:
    """The first text of the system or the user that does not come back in its turn."""
    later = iter(_texts(after, (*OPENING, "user")))
    return next((text for text in _texts(before, (*OPENING, "user")) if text not in later), None)


def _system(call: Call) -> str:
    return next(iter(_texts(messages_of(document(call.forwarded) or {}), OPENING)), "")


def _shared(before: Turn, turn: Turn) -> int:
    """How many ids the end of one turn and the prompt of another have in common from the start."""
    one, other = before.prompt + before.sampled, turn.prompt
    pairs = zip(one, other, strict=False)
    return next((position for position, (left, right) in enumerate(pairs) if left != right), min(len(one), len(other)))
