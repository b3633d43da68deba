"""From turns to training rows, in which every sampled token of a trainable turn has weight once, and nothing else has any."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_harness.graph.turns import Graph, Turn


@dataclass(frozen=True, slots=True)
class Row:
    """One training sequence: ``ids``, ``mask`` and ``logprobs`` have shape (length,); a logprob is None where the mask is 0."""

    calls: tuple[int, ...]
    ids: tuple[int, ...]
    mask: tuple[int, ...]
    logprobs: tuple[float | None, ...]
    replayable: bool = True
    """Whether the ids alone are what the engine saw; they are not where a prompt holds images, sound or files."""


def training_rows(graph: Graph) -> tuple[Row, ...]:
    """One row for the path to each trainable turn after which no other comes. A turn on several paths has weight in the first alone."""
    followed: set[int] = set()
    for turn in graph.turns:
        parent = turn.parent if turn.trainable else None
        while parent is not None and parent not in followed:
            followed.add(parent)
            parent = graph.by_call[parent].parent
    counted: set[int] = set()
    return tuple(_row(graph.path(turn), counted) for turn in graph.turns if turn.trainable and turn.call not in followed)


def _row(path: tuple[Turn, ...], counted: set[int]) -> Row:
    """The row that ends in the last turn of this path; the turns that get their weight here are added to ``counted``."""
    last = path[-1]
    ids = last.prompt + last.sampled
    mask = [0] * len(ids)
    logprobs: list[float | None] = [None] * len(ids)
    for turn in path:
        if turn.trainable and turn.call not in counted:
            counted.add(turn.call)
            span = slice(turn.prompt_length, turn.length)
            mask[span] = [1] * len(turn.sampled)
            logprobs[span] = turn.logprobs or ()
    return Row(tuple(turn.call for turn in path), ids, tuple(mask), tuple(logprobs), replayable=not last.media)
