"""GRF: the turns form one conversation, each reply is in it once, and each sampled token counts once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from pytest_harness.contract.chat_wire import conversation, line
from pytest_harness.contract.memo import once_per_evidence
from pytest_harness.contract.model import Fault, NotExercised, check
from pytest_harness.contract.tokens import answered
from pytest_harness.evidence.model import Call, Evidence
from pytest_harness.graph import Graph, Turn, build, training_rows


@check("GRF-001")
def one_append_only_chain(evidence: Evidence) -> Iterator[Fault]:
    """Only roots with another prompt than the first are breaks: a retry of the first call is none."""
    graph, calls = _graph(evidence)
    agent = [turn for turn in graph.turns if turn.role == "agent"]
    if len(agent) < 2:
        raise NotExercised("fewer than two turns of the agent carry ids")
    for before, turn in pairwise(agent):
        if turn.parent is None and turn.prompt != agent[0].prompt:
            place = _shared(before, turn)
            expected = f"a prompt that begins with the {len(before.prompt) + len(before.sampled)} ids of call {before.call}"
            yield Fault(turn.call, expected, f"another id at position {place}", f"{line(calls[turn.call])}, prompt_ids")


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
    first: dict[tuple[int, ...], Turn] = {}
    for turn in graph.turns:
        if turn.role == "agent" and turn.fate not in ("undelivered", "retried"):
            before = first.setdefault(turn.prompt, turn)
            if before is not turn:
                expected = f"another prompt than that of call {before.call}, which was answered and delivered"
                yield Fault(turn.call, expected, f"the same {len(turn.prompt)} ids", f"{line(calls[turn.call])}, prompt_ids")


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
    """Turns that the graph sets aside by rule (no usable logprobs, not delivered, retried) are not counted."""
    graph, _ = _graph(evidence)
    counted: Counter[int] = Counter()
    rows = training_rows(graph)
    for row in rows:
        for call in row.calls:
            node = graph.by_call[call]
            span = slice(len(node.prompt), len(node.prompt) + len(node.sampled))
            counted[call] += sum(row.mask[span])
    for turn in conversation(evidence):
        if turn.call.index not in graph.by_call or not graph.by_call[turn.call.index].trainable:
            continue
        sampled = sum(len(sample.token_ids or ()) for sample in turn.call.samples)
        if counted[turn.call.index] != sampled:
            seen = f"{counted[turn.call.index]} in the training rows"
            yield Fault(turn.call.index, f"{sampled} sampled tokens with weight", seen, f"{line(turn.call)}, samples")
    total, weight = sum(counted.values()), sum(sum(row.mask) for row in rows)
    if total != weight:
        yield Fault(None, f"{total} tokens with weight", f"{weight}", "the training rows of calls.ndjson")


@once_per_evidence
def _built(evidence: Evidence) -> Graph:
    return build(evidence.calls)


def _graph(evidence: Evidence) -> tuple[Graph, dict[int, Call]]:
    graph = _built(evidence)
    if not graph.turns:
        raise NotExercised("no answered call carries ids")
    return graph, {call.index: call for call in evidence.calls}


def _shared(before: Turn, turn: Turn) -> int:
    """How many ids the end of one turn and the prompt of another have in common from the start."""
    pairs = zip(before.prompt + before.sampled, turn.prompt, strict=False)
    return next(
        (position for position, (one, other) in enumerate(pairs) if one != other),
        min(len(before.prompt + before.sampled), len(turn.prompt)),
    )
