"""From calls to turns: which prompt continues which completion, by the engine's ids alone, and the training rows of it.

A turn is a completed call with valid prompt ids and sampled ids. Its parent is the turn whose prompt and completion are the longest
exact prefix of its prompt, whenever that arrived. Prompts are compared as byte strings, so 200 turns of 50 000 ids cost
less than a second.
"""

from __future__ import annotations

import json
import math
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from pytest_harness.evidence.model import Call
from pytest_harness.graph.retries import superseded

Role = Literal["agent", "side"]
Fate = Literal["used", "undelivered", "retried", "abandoned", "ambiguous"]


@dataclass(frozen=True, slots=True)
class Turn:
    """One node. ``prompt`` and ``sampled`` are ids; ``parent`` and ``call`` are indices of calls."""

    call: int
    prompt: tuple[int, ...]
    sampled: tuple[int, ...]
    logprobs: tuple[float, ...] | None
    """One for each sampled id, or None if they cannot be trained on."""
    role: Role
    fate: Fate
    """``retried``: the harness asked again (see ``retries``) and did not continue this reply, so it is no turn of its own;
    ``abandoned``: another reply to the same prompt was continued; ``ambiguous``: none of several that ran side by side was."""
    parent: int | None
    constrained: bool = False
    """Something but the model decided what could be sampled."""

    @property
    def trainable(self) -> bool:
        """Whether its sampled tokens have weight in a training row."""
        return self.role == "agent" and self.fate == "used" and self.logprobs is not None and not self.constrained


@dataclass(frozen=True, slots=True)
class Row:
    """One training sequence: ``ids``, ``mask`` and ``logprobs`` have shape (length,); a logprob is None where the mask is 0."""

    calls: tuple[int, ...]
    ids: tuple[int, ...]
    mask: tuple[int, ...]
    logprobs: tuple[float | None, ...]


@dataclass(frozen=True)
class Graph:
    """The turns of one attempt in order of arrival."""

    turns: tuple[Turn, ...]

    @cached_property
    def by_call(self) -> dict[int, Turn]:
        """The turn of each call."""
        return {turn.call: turn for turn in self.turns}

    @cached_property
    def children(self) -> dict[int | None, tuple[Turn, ...]]:
        """The turns that continue each call; under None the roots."""
        children: dict[int | None, list[Turn]] = defaultdict(list)
        for turn in self.turns:
            children[turn.parent].append(turn)
        return {parent: tuple(turns) for parent, turns in children.items()}

    @property
    def roots(self) -> tuple[Turn, ...]:
        """The turns that continue no other."""
        return self.children.get(None, ())

    @property
    def leaves(self) -> tuple[Turn, ...]:
        """The turns that no other continues."""
        return tuple(turn for turn in self.turns if turn.call not in self.children)

    @property
    def forks(self) -> tuple[Turn, ...]:
        """The turns that more than one other continues."""
        return tuple(turn for turn in self.turns if len(self.children.get(turn.call, ())) > 1)

    def path(self, turn: Turn) -> tuple[Turn, ...]:
        """The turns from the root to this one."""
        path = [turn]
        while (parent := path[-1].parent) is not None:
            path.append(self.by_call[parent])
        return tuple(reversed(path))


def build(calls: Iterable[Call]) -> Graph:
    """Link the completed calls that have ids."""
    calls = tuple(calls)
    nodes = sorted(filter(None, map(_node, calls)), key=lambda node: node.call.index)
    ends = sorted(nodes, key=lambda node: (len(node.end), node.call.delivery == "delivered", node.call.index), reverse=True)
    parents = {node.call.index: _parent(node, ends) for node in nodes}
    offering = any(node.tools for node in nodes)
    continued = set(parents.values())
    retried = superseded(calls).keys() - continued
    siblings: dict[bytes, list[Call]] = defaultdict(list)
    for node in nodes:
        if node.call.delivery == "delivered" and node.call.index not in retried:
            siblings[node.prompt].append(node.call)
    return Graph(
        tuple(
            Turn(
                call=node.call.index,
                prompt=node.call.prompt_ids or (),
                sampled=node.sampled,
                logprobs=_logprobs(node.call, len(node.sampled)),
                role="side" if offering and not node.tools else "agent",
                fate=_fate(node.call, siblings[node.prompt], retried, continued),
                parent=parents[node.call.index],
                constrained=bool(node.call.constraints),
            )
            for node in nodes
        )
    )


def training_rows(graph: Graph) -> tuple[Row, ...]:
    """One row for each path from a root to a leaf, cut after its last token with weight.

    A turn on several paths has weight in the first of them alone, so every sampled token counts once. A path on which
    nothing has weight makes no row.
    """
    counted: set[int] = set()
    return tuple(row for leaf in graph.leaves for row in _row(graph.path(leaf), counted))


def _row(path: tuple[Turn, ...], counted: set[int]) -> Iterator[Row]:
    weighted = [turn for turn in path if turn.trainable and turn.call not in counted]
    if not weighted:
        return
    last = weighted[-1]
    ids = last.prompt + last.sampled
    mask = [0] * len(ids)
    logprobs: list[float | None] = [None] * len(ids)
    for turn in weighted:
        counted.add(turn.call)
        span = slice(len(turn.prompt), len(turn.prompt) + len(turn.sampled))
        mask[span] = [1] * len(turn.sampled)
        logprobs[span] = turn.logprobs or ()
    yield Row(tuple(turn.call for turn in path[: path.index(last) + 1]), ids, tuple(mask), tuple(logprobs))


@dataclass(frozen=True, slots=True)
class _Node:
    call: Call
    sampled: tuple[int, ...]
    prompt: bytes
    end: bytes
    tools: bool


def _node(call: Call) -> _Node | None:
    sampled = call.samples[0].token_ids if call.samples else None
    if call.outcome != "complete" or not sampled:
        return None
    prompt, completion = _bytes(call.prompt_ids), _bytes(sampled)
    if not prompt or not completion:
        return None
    return _Node(call, sampled, prompt, prompt + completion, _offers_tools(call))


def _bytes(ids: tuple[Any, ...] | None) -> bytes | None:
    """The ids as fixed-width integers; None unless every one is an int that is not negative."""
    if ids is None or set(map(type, ids)) - {int}:
        return None
    try:
        return array("Q", ids).tobytes()
    except OverflowError:
        return None


def _offers_tools(call: Call) -> bool:
    try:
        body = json.loads(call.received.body)
    except ValueError:
        return False
    return isinstance(body, dict) and bool(body.get("tools"))


def _parent(node: _Node, ends: list[_Node]) -> int | None:
    """The call with the longest end that the prompt begins with. ``ends`` are sorted, longest first."""
    for other in ends:
        if len(other.end) <= len(node.prompt) and node.prompt.startswith(other.end):
            return other.call.index
    return None


def _fate(call: Call, siblings: list[Call], retried: AbstractSet[int], continued: AbstractSet[int | None]) -> Fate:
    """``siblings`` are the delivered calls with this prompt that were not retried."""
    if call.delivery != "delivered":
        return "undelivered"
    if call.index in retried:
        return "retried"
    if call.index in continued:
        return "used"
    if any(sibling.index in continued for sibling in siblings):
        return "abandoned"
    return "used" if all(sibling is call or _apart(sibling, call) for sibling in siblings) else "ambiguous"


def _apart(one: Call, other: Call) -> bool:
    """Whether the harness had the one reply before it asked for the other: then it asked twice and got two answers."""
    first, second = sorted((one, other), key=lambda call: call.index)
    return first.times.delivered is not None and first.times.delivered <= second.times.received


def _logprobs(call: Call, length: int) -> tuple[float, ...] | None:
    logprobs = call.samples[0].logprobs
    if logprobs is None or len(logprobs) != length:
        return None
    usable = all(isinstance(value, float | int) and not isinstance(value, bool) and -math.inf < value <= 0 for value in logprobs)
    return tuple(map(float, logprobs)) if usable else None
