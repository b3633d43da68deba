"""Samples a scripted turn: its ids, where they end, and their logprobs.

The ids are those of the template's own text for the turn, so the next prompt extends them token for token. The logprobs come from a made-up
model: at every position a hash of all ids before it draws twenty alternatives and their distances to the sampled token, which is always
the likeliest. They are *processed*: a softmax over these 21 at the request's temperature (greedy counts as 1, as in vLLM), so they are
finite and below zero, and T = 2 halves every gap.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from pytest_harness.engines.scripted.tokenizer import ChatTokenizer

ALTERNATIVES = 20


@dataclass(frozen=True)
class Sample:
    """One sampled completion. ``pieces`` is the text that each id delivers; ``ids`` and ``pieces`` are parallel."""

    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    finish_reason: str
    stop_reason: str | None = None


@dataclass(frozen=True)
class Likelihood:
    """The natural logarithms of the probabilities at one position: of the sampled token, and of the likeliest tokens, best first."""

    logprob: float
    top: tuple[tuple[int, float], ...]


def sample(tokenizer: ChatTokenizer, text: str, *, limit: int, stop: Sequence[str] = (), include_stop: bool = False) -> Sample:
    """Sample ``text`` and the end of the turn, at most ``limit`` tokens, up to the first of the ``stop`` strings."""
    whole = [*tokenizer.encode(text), tokenizer.end_of_turn]
    ids = whole[:limit]
    stopped = ended(tokenizer, ids, stop, include_stop=include_stop)
    return stopped or Sample(tuple(ids), tuple(tokenizer.decode_pieces(ids)), "stop" if len(ids) == len(whole) else "length")


def likelihoods(prompt_ids: Sequence[int], ids: Sequence[int], temperature: float, vocabulary: int) -> Iterator[Likelihood]:
    """The likelihoods at the position of each of ``ids``."""
    context = context_of(prompt_ids)
    for token in ids:
        drawn = context.digest()
        candidates = {token: 0.0}
        gap = 0.0
        for number in range(ALTERNATIVES):
            other = int.from_bytes(drawn[3 * number : 3 * number + 2]) % vocabulary
            while other in candidates:
                other = (other + 1) % vocabulary
            gap += (1 + drawn[3 * number + 2]) / 64
            candidates[other] = -gap / (temperature or 1.0)
        total = math.log(math.fsum(math.exp(logit) for logit in candidates.values()))
        top = tuple((candidate, logit - total) for candidate, logit in candidates.items())
        yield Likelihood(-total, top)
        context.update(token.to_bytes(4))


def context_of(prompt_ids: Sequence[int]) -> hashlib.blake2b:
    """What the made-up model knows of a prompt; each further id goes into it."""
    return hashlib.blake2b(b"".join(token.to_bytes(4) for token in prompt_ids))


def ended(tokenizer: ChatTokenizer, ids: Sequence[int], stop: Sequence[str] = (), *, include_stop: bool = False) -> Sample | None:
    """The sample up to the first of the ``stop`` strings in it; None if there is none."""
    pieces = tokenizer.decode_pieces(ids)
    seen = ""
    for number, piece in enumerate(pieces, start=1):
        seen += piece
        for string in stop:
            at = seen.find(string)
            if at >= 0:
                end = at + len(string) if include_stop else at
                return Sample(tuple(ids[:number]), tuple(_cut(pieces[:number], end)), "stop", string)
    return None


def lagging(pieces: Sequence[str], stop: Sequence[str]) -> list[str]:
    """The pieces as vLLM delivers them beside ``stop`` strings: so many characters late as may turn out to begin one of them."""
    late = max(map(len, stop), default=1) - 1
    text = "".join(pieces)
    reached = list(accumulate(map(len, pieces)))
    told = [0, *(max(0, end - late) for end in reached[:-1]), len(text)]
    return [text[start:end] for start, end in pairwise(told)] if pieces else []


def _cut(pieces: Sequence[str], end: int) -> Iterator[str]:
    for piece, reached in zip(pieces, accumulate(map(len, pieces)), strict=True):
        yield piece[: max(0, len(piece) - max(0, reached - end))]
