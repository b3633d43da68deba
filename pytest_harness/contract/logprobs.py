"""LGP: one measured, finite logprob of at most 0 for each sampled id, beside the id that it belongs to."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pytest_harness.contract.chat_wire import first_difference, identical, line, short
from pytest_harness.contract.model import Fault, NotExercised, Unverifiable, check
from pytest_harness.contract.tokens import NEUTRAL, answered, neutralised, of_the_agent
from pytest_harness.evidence.model import Call, Evidence, Sample

SENTINEL = -9999.0
"""What engines write where JSON cannot hold minus infinity; nothing with that probability is ever sampled."""
ENOUGH = 8
"""Fewer equal logprobs than this may be chance or one forced word."""

ROUNDING = 0.01
"""By how much the probabilities of one place may exceed 1: engines compute them in 16 bits."""

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
    """Over the whole rollout, as one short reply may well be certain; what was forced on a model that would have said it anyway is, too."""
    samples = _samples(evidence)
    logprobs = [value for _, sample in samples for value in sample.logprobs or ()]
    if len(logprobs) < ENOUGH:
        raise NotExercised(f"fewer than {ENOUGH} logprobs were recorded")
    if not any(logprobs) and all(call.constraints for call, _ in samples):
        raise NotExercised("every token was forced, so each logprob is 0")
    if len(set(map(repr, logprobs))) == 1:
        yield Fault(
            None, "logprobs that differ", f"{len(logprobs)} times {logprobs[0]!r}", "calls.ndjson, samples[].logprobs of every call"
        )


@check("LGP-006")
def no_two_turns_have_the_same_logprobs(evidence: Evidence) -> Iterator[Fault]:
    """Unless they sampled the same, or all of them are one number."""
    first: dict[tuple[Any, ...], tuple[Call, Sample]] = {}
    long_enough = [(call, sample) for call, sample in _samples(evidence) if len(sample.logprobs or ()) >= ENOUGH]
    if len(long_enough) < 2:
        raise NotExercised(f"fewer than two samples have {ENOUGH} logprobs")
    for call, sample in long_enough:
        logprobs = tuple(sample.logprobs or ())
        before, other = first.setdefault(logprobs, (call, sample))
        if other.token_ids != sample.token_ids and len(set(logprobs)) > 1:
            expected = f"other logprobs than those of call {before.index}, which sampled other ids"
            yield Fault(call.index, expected, f"the same {len(logprobs)}", _where(call, sample))


@check("LGP-007")
def neutral_sampling_is_whole(evidence: Evidence) -> Iterator[Fault]:
    """In a session that trains, or that makes the sampling neutral though it does not, every call has every neutral value."""
    if evidence.manifest.purpose != "train" and not any(neutralised(turn) for turn in answered(evidence)):
        raise NotExercised("the session leaves the sampling to the harness")
    for turn in answered(evidence):
        sent = turn.forwarded
        for name, value in NEUTRAL.items():
            if sent.get(name) != value:
                yield Fault(turn.call.index, f"{name} {value}", repr(sent.get(name)), f"{line(turn.call)}, forwarded.body {name}")
        if sent.get("temperature") is None:
            yield Fault(turn.call.index, "a temperature", "none", f"{line(turn.call)}, forwarded.body temperature")


@check("LGP-008")
def one_temperature_over_a_rollout(evidence: Evidence) -> Iterator[Fault]:
    """Over the agent's turns; the first one sets it."""
    first, *rest = of_the_agent(evidence)
    asked = first.forwarded.get("temperature")
    for turn in rest:
        if turn.forwarded.get("temperature") != asked:
            where = f"{line(turn.call)}, forwarded.body temperature"
            yield Fault(turn.call.index, f"{asked}, as in call {first.call.index}", repr(turn.forwarded.get("temperature")), where)


@check("LGP-009")
def constrained_sampling_is_marked(evidence: Evidence) -> Iterator[Fault]:
    """Both ways: a mark where nothing constrains drops a good turn."""
    for turn in answered(evidence):
        found = {name for name, constrains in CONSTRAINING.items() if constrains(turn.forwarded.get(name))}
        marked, where = set(turn.call.constraints), f"{line(turn.call)}, constraints"
        for name in sorted(found - marked):
            yield Fault(
                turn.call.index, f"{name} among the constraints", short(repr(turn.forwarded[name])), f"{line(turn.call)}, constraints"
            )
        for name in sorted(marked & CONSTRAINING.keys() - found):
            yield Fault(turn.call.index, f"no {name} among the constraints", "it is there", where)


@check("LGP-010")
def the_probabilities_of_one_place_fit(evidence: Evidence) -> Iterator[Fault]:
    """Where the engine told alternatives. One fault for each choice, naming the first place."""
    compared = False
    for turn in answered(evidence):
        for index, choice in turn.engine.choices.items():
            for position, entries in enumerate(choice.top_logprobs or ()):
                found = [entry.get("logprob") for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
                logprobs = [value for value in found if isinstance(value, int | float) and not isinstance(value, bool)]
                if not logprobs:
                    continue
                compared = True
                total = sum(math.exp(min(value, 1.0)) for value in logprobs)
                if not total <= 1 + ROUNDING:
                    where = f"{line(turn.call)}, replied.body choices[{index}].logprobs"
                    seen = f"{total:.4g} at position {position}"
                    yield Fault(turn.call.index, "probabilities of at most 1 together", seen, where)
                    break
    if not compared:
        raise NotExercised("the engine told no alternatives")


def _given(value: Any) -> bool:
    return value is not None and value is not False and value not in ([], {}, "")


CONSTRAINING: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(
        (
            "allowed_token_ids",
            "bad_words",
            "guided_choice",
            "guided_grammar",
            "guided_json",
            "guided_regex",
            "ignore_eos",
            "logit_bias",
            "logits_processors",
            "structural_tag",
            "structured_outputs",
            "use_beam_search",
        ),
        _given,
    ),
    "min_tokens": lambda value: value not in (None, 0),
    "response_format": lambda value: _given(value) and not (isinstance(value, dict) and value.get("type") == "text"),
    "tool_choice": lambda value: value == "required" or isinstance(value, dict),
}
"""The fields of OpenAI's and vLLM's chat routes that make the sampling another than the model's own, and which values of them do."""


def _samples(evidence: Evidence) -> list[tuple[Call, Sample]]:
    found = [(turn.call, sample) for turn in answered(evidence) for sample in turn.call.samples if sample.token_ids]
    if not found:
        raise NotExercised("no sample carries ids")
    return found


def _where(call: Call, sample: Sample) -> str:
    return f"{line(call)}, samples[{sample.index}].logprobs"
