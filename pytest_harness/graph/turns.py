"""From calls to turns: which prompt continues which completion, by the engine's ids alone.

A turn is an answered model call with valid prompt ids and sampled ids. Its parent is the turn whose prompt and completion are the longest
exact prefix of its prompt, whenever that arrived. Of a reply with several choices one is the turn: the one that a later prompt continues.

Time is linear in the ids that are read and memory in those that are new, as all prompts stand in one tree (``prefixes``).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from pytest_harness.evidence.model import Call, Sample
from pytest_harness.graph.fates import Fate, fates
from pytest_harness.graph.prefixes import Prefix, Tree, as_bytes
from pytest_harness.graph.requests import is_model_call, read_request
from pytest_harness.graph.retries import superseded
from pytest_harness.graph.roles import Node, Role, Sign, label


@dataclass(frozen=True, slots=True)
class Turn:
    """One node. ``sampled`` are ids; ``parent`` and ``call`` are indices of calls."""

    call: int
    context: Prefix
    """The prompt; equal prompts of one graph are the same object."""
    sampled: tuple[int, ...]
    logprobs: tuple[float, ...] | None
    """One for each sampled id, or None if they cannot be trained on."""
    role: Role
    fate: Fate
    """``retried``: the harness asked again (see ``retries``) and did not continue this reply, so it is no turn of its own; ``abandoned``:
    another reply was continued in its place; ``ambiguous``: the wire does not say whether this reply was used."""
    parent: int | None
    sign: Sign = ""
    """By what the role was told."""
    why: str = ""
    """Why it has its role and fate; empty for a turn of the agent that was used, other than one that begins anew."""
    constrained: bool = False
    """Something but the model decided what could be sampled."""
    truncated: bool = False
    """A limit ended it: its tokens are the model's, its end is not."""
    media: bool = False
    """Its prompt holds images, sound or files: the ids alone are not what the engine saw."""
    choice: int = 0
    """The index of the choice that is the turn."""

    @property
    def prompt(self) -> tuple[int, ...]:
        """The ids of the prompt, put together for this question."""
        return self.context.ids

    @property
    def prompt_length(self) -> int:
        """How many ids the prompt has."""
        return self.context.length

    @property
    def length(self) -> int:
        """How many ids the prompt and the completion have."""
        return self.context.length + len(self.sampled)

    @property
    def trainable(self) -> bool:
        """Whether its sampled tokens have weight in a training row."""
        return self.role == "agent" and self.fate == "used" and self.logprobs is not None and not self.constrained


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
    """Link the answered model calls that have ids. Of calls that share an index only the first can be told from the rest by it."""
    first: dict[int, Call] = {}
    for call in calls:
        first.setdefault(call.index, call)
    calls = tuple(first.values())
    tree = Tree()
    replies = [reply for call in sorted(calls, key=lambda call: call.index) if (reply := _reply(call, tree)) is not None]
    again = superseded(calls).keys()
    parents, chosen = _link(replies, again)
    nodes = [Node(reply.call, read_request(reply.call), reply.prompt, parents[reply.call.index]) for reply in replies]
    labels = label(nodes)
    fate_of = fates(nodes, labels, again - set(parents.values()))
    turns = []
    for node, choice in zip(nodes, chosen, strict=True):
        call, (fate, reason), role = node.call, fate_of[node.call.index], labels[node.call.index]
        turns.append(
            Turn(
                call=call.index,
                context=node.prompt,
                sampled=choice.sampled,
                logprobs=_logprobs(choice.sample),
                role=role.role,
                fate=fate,
                parent=node.parent,
                sign=role.sign,
                why="; ".join(filter(None, (role.why, reason))),
                constrained=bool(call.constraints),
                truncated=choice.sample.finish_reason == "length",
                media=node.request.media,
                choice=choice.sample.index,
            )
        )
    return Graph(tuple(turns))


@dataclass(frozen=True, slots=True)
class _Choice:
    sample: Sample
    sampled: tuple[int, ...]
    end: Prefix


@dataclass(frozen=True, slots=True)
class _Reply:
    call: Call
    prompt: Prefix
    choices: tuple[_Choice, ...]


def _reply(call: Call, tree: Tree) -> _Reply | None:
    if call.outcome != "complete" or not is_model_call(call):
        return None
    ids = as_bytes(call.prompt_ids)
    sampled = [(sample, bytes_) for sample in call.samples if (bytes_ := as_bytes(sample.token_ids))]
    if not ids or not sampled:
        return None
    prompt = tree.add(ids)
    return _Reply(call, prompt, tuple(_Choice(sample, sample.token_ids or (), tree.add(ids + bytes_)) for sample, bytes_ in sampled))


def _link(replies: list[_Reply], again: Iterable[int]) -> tuple[dict[int, int | None], list[_Choice]]:
    """The parent of each call, and the choice that is its turn: of several that are continued the first, as the others are forks of a
    conversation that no single row can hold."""
    again = set(again)
    parents = _parents(replies, [reply.choices for reply in replies], again)
    several = any(len(reply.choices) > 1 for reply in replies)
    if not several:
        return {call: None if found is None else found[0] for call, found in parents.items()}, [reply.choices[0] for reply in replies]
    continued = set(parents.values())
    chosen = [
        next((choice for choice in reply.choices if (reply.call.index, choice.sample.index) in continued), reply.choices[0])
        for reply in replies
    ]
    parents = _parents(replies, [(choice,) for choice in chosen], again)
    return {call: None if found is None else found[0] for call, found in parents.items()}, chosen


def _parents(replies: list[_Reply], choices: list[tuple[_Choice, ...]], again: set[int]) -> dict[int, tuple[int, int] | None]:
    """The call and the index of its choice that each prompt continues. Of equal ends the one that was delivered and not asked for again
    comes first, then the longest sample, then the latest call."""
    ends: dict[Prefix, tuple[tuple[bool, bool, int, int], tuple[int, int]]] = {}
    for reply, offered in zip(replies, choices, strict=True):
        call = reply.call
        for choice in offered:
            rank = (call.delivery == "delivered", call.index not in again, len(choice.sampled), call.index)
            if choice.end not in ends or ends[choice.end][0] < rank:
                ends[choice.end] = (rank, (call.index, choice.sample.index))
    return {reply.call.index: next((ends[one][1] for one in reply.prompt.beginnings() if one in ends), None) for reply in replies}


def _logprobs(sample: Sample) -> tuple[float, ...] | None:
    logprobs = sample.logprobs
    if logprobs is None or len(logprobs) != len(sample.token_ids or ()):
        return None
    usable = all(isinstance(value, float | int) and not isinstance(value, bool) and -math.inf < value <= 0 for value in logprobs)
    return tuple(map(float, logprobs)) if usable else None
