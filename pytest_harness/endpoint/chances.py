"""Whether what was sampled can have been sampled from the probabilities that were told."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

IMPOSSIBLE = 1e-9
"""What is less likely than this did not happen by chance."""
DRAWS = 32


def tail(hits: int, draws: int, chance: float) -> float:
    """How likely it is that so many draws hit so rarely, or so often, whichever is less."""
    chance = min(max(chance, 0.0), 1.0)
    each = [math.comb(draws, n) * chance**n * (1 - chance) ** (draws - n) for n in range(draws + 1)]
    return min(math.fsum(each[: hits + 1]), math.fsum(each[hits:]))


def all_alike(logprob: float, count: int) -> float:
    """At most how likely it is that so many samples are all this one."""
    return math.exp(min(0.0, logprob)) ** (count - 1)


def likeliest(entry: Any) -> tuple[Any, float] | None:
    """The likeliest token of an entry, and its probability; None where it does not tell."""
    told: Sequence[Any] = (entry.get("top_logprobs") if isinstance(entry, dict) else None) or ()
    known = [(each["token"], float(each["logprob"])) for each in told if isinstance(each.get("logprob"), int | float)]
    if not known:
        return None
    token, logprob = max(known, key=lambda pair: pair[1])
    return token, math.exp(min(0.0, logprob))
