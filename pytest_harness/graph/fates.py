"""What became of a reply: was it used, or did the harness never get it, ask again, or go another way? And why it is thought so.

A reply that a later prompt continues was used, save where the harness went back: all that hangs on one continuation had been answered
before it asked for another one of the same turn, and that other request repeats no more of the assistant's messages. Nothing is guessed:
of several replies to one prompt that ran side by side and lead nowhere each is ambiguous, and so is a reply with several choices none of
which is continued.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Literal

from pytest_harness.evidence.model import Call
from pytest_harness.graph.prefixes import Prefix
from pytest_harness.graph.roles import Label, Node

Fate = Literal["used", "undelivered", "retried", "abandoned", "ambiguous"]


def fates(nodes: Iterable[Node], labels: Mapping[int, Label], retried: AbstractSet[int]) -> dict[int, tuple[Fate, str]]:
    """The fate of each turn and the reason, empty where it was plainly used, by the index of its call."""
    nodes = tuple(nodes)
    continued = {node.parent for node in nodes if node.parent is not None}
    left = _left_behind(nodes, labels)
    siblings: dict[Prefix, list[Call]] = defaultdict(list)
    for node in nodes:
        if node.call.delivery == "delivered" and node.call.index not in retried:
            siblings[node.prompt].append(node.call)
    return {node.call.index: _fate(node, siblings[node.prompt], retried, continued, left) for node in nodes}


def _fate(
    node: Node, siblings: list[Call], retried: AbstractSet[int], continued: AbstractSet[int], left: Mapping[int, str]
) -> tuple[Fate, str]:
    """``siblings`` are the delivered calls with this prompt that were not retried."""
    call = node.call
    if call.delivery != "delivered":
        return "undelivered", f"delivery: {call.delivery}"
    if call.index in retried:
        return "retried", "the harness asked for it again"
    if call.index in left:
        return "abandoned", left[call.index]
    return ("used", "") if call.index in continued else _fate_of_a_leaf(call, siblings, continued)


def _fate_of_a_leaf(call: Call, siblings: list[Call], continued: AbstractSet[int]) -> tuple[Fate, str]:
    other = next((sibling for sibling in siblings if sibling.index in continued), None)
    if other is not None:
        return "abandoned", f"the reply of call {other.index} to the same prompt was continued"
    if len(call.samples) > 1:
        return "ambiguous", f"none of its {len(call.samples)} choices was continued"
    beside = next((sibling for sibling in siblings if sibling is not call and not _apart(sibling, call)), None)
    if beside is not None:
        return "ambiguous", f"call {beside.index} was answered to the same prompt at the same time, and neither was continued"
    return "used", ""


def _left_behind(nodes: tuple[Node, ...], labels: Mapping[int, Label]) -> dict[int, str]:
    """The turns on branches from which the harness went back, with the reason."""
    children: dict[int, list[Node]] = defaultdict(list)
    for node in nodes:
        if node.parent is not None:
            children[node.parent].append(node)
    ended: dict[int, float] = {}
    for node in sorted(nodes, key=lambda node: node.prompt.length, reverse=True):  # what continues a turn has a longer prompt
        own = node.call.times.delivered
        following = (ended[child.call.index] for child in children[node.call.index])
        ended[node.call.index] = max([math.inf if own is None else own, *following])
    left: dict[int, str] = {}
    for parent, branches in children.items():
        for branch in branches:
            other = next((other for other in branches if _went_back(branch, other, ended, children, labels)), None)
            if other is not None:
                reason = f"the harness went back to call {parent} and on to call {other.call.index}"
                left |= dict.fromkeys(_below(branch, children), reason)
    return left


def _went_back(
    branch: Node, other: Node, ended: Mapping[int, float], children: Mapping[int, list[Node]], labels: Mapping[int, Label]
) -> bool:
    """Whether ``other`` took the place of all that hangs on ``branch``; a reply that it repeats in other words stays used."""
    if branch is other or any(labels[node.call.index].role != "agent" for node in (branch, other)):
        return False
    again = branch.prompt == other.prompt and not children.get(branch.call.index)  # has rules of its own
    return not again and other.call.times.received >= ended[branch.call.index] and other.request.assistants <= branch.request.assistants


def _below(branch: Node, children: Mapping[int, list[Node]]) -> list[int]:
    found, waiting = [], [branch]
    while waiting:
        node = waiting.pop()
        found.append(node.call.index)
        waiting += children.get(node.call.index, ())
    return found


def _apart(one: Call, other: Call) -> bool:
    """Whether the harness had the one reply before it asked for the other: then it asked twice and got two answers."""
    first, second = sorted((one, other), key=lambda call: (call.times.received, call.index))
    return first.times.delivered is not None and first.times.delivered <= second.times.received
