"""The graph of an attempt and the tokens of its calls, as they are drawn.

Ids and logprobs are shown as the engine sent them, wrong or not: what is no number, or none that a browser can hold, is passed on as text,
and a missing one as null.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pytest_harness.contract.linked import graph_of
from pytest_harness.evidence.model import Call, Evidence
from pytest_harness.graph import Graph, Turn, training_rows

MOST = 20_000
"""So many ids of one list are kept."""

Json = dict[str, Any]


def graph_data(evidence: Evidence) -> list[Json]:
    """The turns, each with the ids that its prompt adds to what it continues, and where it gets its weight."""
    graph = graph_of(evidence)
    weighted = _weighted(graph)
    return [_turn(graph, turn, weighted) for turn in graph.turns]


def samples_data(call: Call) -> list[Json]:
    """What was sampled for each choice."""
    return [
        {
            "index": sample.index,
            "finish": sample.finish_reason,
            "ids": _values(sample.token_ids),
            "logprobs": _values(sample.logprobs),
            "count": None if sample.token_ids is None else len(sample.token_ids),
        }
        for sample in call.samples
    ]


def prompt_data(call: Call, turn: Turn | None, graph: Graph) -> Json:
    """The prompt of a call: what it shares with the turn that it continues is only counted."""
    if call.prompt_ids is None:
        return {"count": None, "shared": 0, "ids": None}
    shared = 0 if turn is None or turn.parent is None else graph.by_call[turn.parent].length
    return {"count": len(call.prompt_ids), "shared": shared, "ids": _values(call.prompt_ids[shared:])}


def _turn(graph: Graph, turn: Turn, weighted: frozenset[int]) -> Json:
    return {
        "call": turn.call,
        "parent": turn.parent,
        "shared": 0 if turn.parent is None else graph.by_call[turn.parent].length,
        "prompt": turn.prompt_length,
        "length": turn.length,
        "role": turn.role,
        "fate": turn.fate,
        "sign": turn.sign,
        "why": turn.why,
        "weight": turn.call in weighted,
        "trainable": turn.trainable,
        "logprobs": turn.logprobs is not None,
        "constrained": turn.constrained,
        "truncated": turn.truncated,
        "media": turn.media,
        "choice": turn.choice,
    }


def _weighted(graph: Graph) -> frozenset[int]:
    """The turns whose sampled tokens have weight in a training row."""
    found = set()
    for row in training_rows(graph):
        for call in row.calls:
            turn = graph.by_call[call]
            if any(row.mask[turn.prompt_length : turn.length]):
                found.add(call)
    return frozenset(found)


def _values(values: Iterable[Any] | None) -> list[Any] | None:
    if values is None:
        return None
    return [_value(value) for _, value in zip(range(MOST), values, strict=False)]


def _value(value: Any) -> Any:
    if value is None or type(value) is float or (type(value) is int and abs(value) < 2**53):
        return value
    return repr(value)[:200]
