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
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from pytest_harness.evidence.model import Call

Role = Literal["agent", "side"]
Fate = Literal["used", "undelivered", "abandoned", "ambiguous"]


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
    """``abandoned``: another reply to the same prompt was continued; ``ambiguous``: none of several was."""
    parent: int | None

    @property
    def trainable(self) -> bool:
        """Whether its sampled tokens have weight in a training row."""
        return self.role == "agent" and self.fate == "used" and self.logprobs is not None


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
    nodes = sorted(filter(None, map(_node, calls)), key=lambda node: node.call.index)
    ends = sorted(nodes, key=lambda node: (len(node.end), node.call.delivery == "delivered", node.call.index), reverse=True)
    parents = {node.call.index: _parent(node, ends) for node in nodes}
    offering = any(node.tools for node in nodes)
    continued = set(parents.values())
    siblings: dict[bytes, list[int]] = defaultdict(list)
    for node in nodes:
        if node.call.delivery == "delivered":
            siblings[node.prompt].append(node.call.index)
    return Graph(
        tuple(
            Turn(
                call=node.call.index,
                prompt=node.call.prompt_ids or (),
                sampled=node.sampled,
                logprobs=_logprobs(node.call, len(node.sampled)),
                role="side" if offering and not node.tools else "agent",
                fate=_fate(node, siblings[node.prompt], continued),
                parent=parents[node.call.index],
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


def _fate(node: _Node, siblings: list[int], continued: set[int | None]) -> Fate:
    if node.call.delivery != "delivered":
        return "undelivered"
    if len(siblings) == 1 or node.call.index in continued:
        return "used"
    return "abandoned" if continued.intersection(siblings) else "ambiguous"


def _logprobs(call: Call, length: int) -> tuple[float, ...] | None:
    logprobs = call.samples[0].logprobs
    if logprobs is None or len(logprobs) != length:
        return None
    usable = all(isinstance(value, float | int) and not isinstance(value, bool) and -math.inf < value <= 0 for value in logprobs)
    return tuple(map(float, logprobs)) if usable else None
