"""LGP: one measured, finite logprob of at most 0 for each sampled id, beside the id that it belongs to."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from pytest_harness.contract.chat_wire import first_difference, identical, line
from pytest_harness.contract.model import Fault, NotExercised, Unverifiable, check
from pytest_harness.contract.tokens import answered
from pytest_harness.evidence.model import Call, Evidence, Sample

SENTINEL = -9999.0
"""What engines write where JSON cannot hold minus infinity; nothing with that probability is ever sampled."""
ENOUGH = 8
"""Fewer equal logprobs than this may be chance or one forced word."""

_TOKEN = re.compile(r"token_id:(-?\d+)")


@check("LGP-001")
def recorded_logprobs_are_the_engines(evidence: Evidence) -> Iterator[Fault]:
    """The record against the bytes of the reply."""
    for turn in answered(evidence):
        for sample in turn.call.samples:
            choice = turn.engine.choices.get(sample.index)
            sent = choice.logprobs if choice else None
            if not identical(sample.logprobs, sent):
                seen = f"recorded against sent: {first_difference(sample.logprobs, sent)}"
                yield Fault(turn.call.index, "the logprobs that the engine sent", seen, _where(turn.call, sample))


@check("LGP-002")
def one_logprob_for_each_id(evidence: Evidence) -> Iterator[Fault]:
    """Samples without ids are TOK-002's."""
    for call, sample in _samples(evidence):
        expected, seen = len(sample.token_ids or ()), None if sample.logprobs is None else len(sample.logprobs)
        if expected != seen:
            yield Fault(call.index, f"{expected} logprobs", "none" if seen is None else f"{seen}", _where(call, sample))


@check("LGP-003")
def a_logprob_is_finite_and_not_positive(evidence: Evidence) -> Iterator[Fault]:
    """One fault for each list that holds anything else, naming the first."""
    with_logprobs = [(call, sample) for call, sample in _samples(evidence) if sample.logprobs is not None]
    if not with_logprobs:
        raise NotExercised("no sample carries logprobs")
    for call, sample in with_logprobs:
        for position, value in enumerate(sample.logprobs or ()):
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not math.isfinite(value) or value > 0 or value <= SENTINEL:
                yield Fault(call.index, "finite numbers of at most 0", f"{value!r} at position {position}", _where(call, sample))
                break


@check("LGP-004")
def logprobs_belong_to_their_ids(evidence: Evidence) -> Iterator[Fault]:
    """Where the engine names tokens by id."""
    compared = False
    for turn in answered(evidence):
        for index, choice in turn.engine.choices.items():
            for position, (token, sampled) in enumerate(zip(choice.tokens or (), choice.token_ids or (), strict=False)):
                named = _TOKEN.fullmatch(token) if isinstance(token, str) else None
                if named is None or type(sampled) is not int or sampled < 0:
                    continue
                compared = True
                if int(named[1]) != sampled:
                    where = f"{line(turn.call)}, replied.body choices[{index}].logprobs"
                    yield Fault(turn.call.index, f"token_id:{sampled}", f"{token} at position {position}", where)
                    break
    if not compared:
        raise Unverifiable("the engine names no token by its id; start it with --return-tokens-as-token-ids")


@check("LGP-005")
def logprobs_are_measured(evidence: Evidence) -> Iterator[Fault]:
    """Over the whole rollout, as one short reply may well be certain."""
    logprobs = [value for _, sample in _samples(evidence) for value in sample.logprobs or ()]
    if len(logprobs) < ENOUGH:
        raise NotExercised(f"fewer than {ENOUGH} logprobs were recorded")
    if len(set(map(repr, logprobs))) == 1:
        yield Fault(
            None, "logprobs that differ", f"{len(logprobs)} times {logprobs[0]!r}", "calls.ndjson, samples[].logprobs of every call"
        )


def _samples(evidence: Evidence) -> list[tuple[Call, Sample]]:
    found = [(turn.call, sample) for turn in answered(evidence) for sample in turn.call.samples if sample.token_ids]
    if not found:
        raise NotExercised("no sample carries ids")
    return found


def _where(call: Call, sample: Sample) -> str:
    return f"{line(call)}, samples[{sample.index}].logprobs"
