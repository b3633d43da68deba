"""From turns to training rows, in which every sampled token of a trainable turn has weight once, and nothing else has any."""

from __future__ import annotations

from collections.abc import Iterator
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
    """One row for each path from a root to a leaf, cut after its last token with weight.

    A turn on several paths has weight in the first of them alone. A path on which nothing has weight makes no row.
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
        span = slice(turn.prompt_length, turn.length)
        mask[span] = [1] * len(turn.sampled)
        logprobs[span] = turn.logprobs or ()
    yield Row(tuple(turn.call for turn in path[: path.index(last) + 1]), ids, tuple(mask), tuple(logprobs), replayable=not last.media)
