"""An engine without a script: chance says what comes next, as far as the request's seed and temperature leave it to chance.

The made-up model is that of ``sampling.py`` with one difference: what is sampled is drawn from its probabilities, so it is not always the
likeliest. A request may force a text, as vLLM's ``structured_outputs`` does; the rest means nothing.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from itertools import islice

from pytest_harness.engines.scripted.request import ChatRequest
from pytest_harness.engines.scripted.sampling import ALTERNATIVES, Likelihood, Sample, context_of, ended, likelihoods, sample
from pytest_harness.engines.scripted.tokenizer import SPECIALS, TAGS, ChatTokenizer

_END_EVERY = 12
"""At one position of so many, the end of the turn is the likeliest."""
_WORD = "pear"


def draw(
    tokenizer: ChatTokenizer, prompt_ids: Sequence[int], request: ChatRequest, index: int, limit: int, *, told: float
) -> tuple[Sample, list[Likelihood]]:
    """The sample of one choice, and the likelihood of each id, told as that of the temperature ``told``."""
    if request.forced is not None:
        sampled = sample(tokenizer, request.forced, limit=limit, stop=request.stop, include_stop=request.include_stop)
        return sampled, list(likelihoods(prompt_ids, sampled.ids, told, tokenizer.size))
    chance = random.Random() if request.seed is None else random.Random(f"{request.seed}/{index}")  # noqa: S311 - it is a die
    outside = {tokenizer.ids[mark] for mark in (*SPECIALS, *TAGS)}
    context = context_of(prompt_ids)
    ids: list[int] = []
    found: list[Likelihood] = []
    while len(ids) < limit:
        candidates = _candidates(context.digest(), tokenizer, outside)
        tokens = list(candidates)
        if request.temperature == 0:
            token = tokens[0]
        else:
            token = chance.choices(tokens, [math.exp(-gap / request.temperature) for gap in candidates.values()])[0]
        ids.append(token)
        found.append(_likelihood(candidates, token, told))
        if token == tokenizer.end_of_turn:
            break
        stopped = ended(tokenizer, ids, request.stop, include_stop=request.include_stop) if request.stop else None
        if stopped is not None:
            return stopped, list(islice(found, len(stopped.ids)))
        context.update(token.to_bytes(4))
    reason = "stop" if ids[-1] == tokenizer.end_of_turn else "length"
    return Sample(tuple(ids), tuple(tokenizer.decode_pieces(ids)), reason), found


def any_call(request: ChatRequest) -> tuple[str, dict[str, str]]:
    """A call of the tool that the request names, or of the first that it offers, with a word for each argument."""
    offered = request.offered
    name = request.tool_choice if request.tool_choice in offered else next(iter(offered))
    assert name is not None
    return name, dict.fromkeys(offered[name] or (), _WORD)


def _candidates(drawn: bytes, tokenizer: ChatTokenizer, outside: set[int]) -> dict[int, float]:
    """What may come next, the likeliest first, each with its distance to it."""
    candidates: dict[int, float] = {}
    gap = 0.0
    if drawn[-1] < 256 // _END_EVERY:
        candidates[tokenizer.end_of_turn] = gap
    for number in range(len(candidates), ALTERNATIVES + 1):
        token = int.from_bytes(drawn[3 * number : 3 * number + 2]) % tokenizer.size
        while token in candidates or token in outside:
            token = (token + 1) % tokenizer.size
        candidates[token] = gap
        gap += (1 + drawn[3 * number + 2]) / 640
    return candidates


def _likelihood(candidates: dict[int, float], token: int, temperature: float) -> Likelihood:
    logits = {each: -gap / (temperature or 1.0) for each, gap in candidates.items()}
    total = math.log(math.fsum(math.exp(logit) for logit in logits.values()))
    return Likelihood(logits[token] - total, tuple((each, logit - total) for each, logit in logits.items()))
