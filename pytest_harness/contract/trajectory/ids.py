"""ATF: the token contract inside the trajectory, where a harness or a converter writes ids and logprobs into it."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from pytest_harness.atif import Step
from pytest_harness.atif.document import whole
from pytest_harness.contract.chat_wire import conversation, first_difference, identical
from pytest_harness.contract.model import Fault, NotExercised, check
from pytest_harness.contract.trajectory.alignment import align
from pytest_harness.contract.trajectory.reading import own_steps, there
from pytest_harness.evidence.model import Call, Evidence

COUNTED = {"prompt_token_ids": "prompt_tokens", "completion_token_ids": "completion_tokens"}
LISTS = (*COUNTED, "logprobs")
LARGEST = sys.float_info.max
"""A whole number may be larger than any float."""


@check("ATF-018")
def ids_and_logprobs_are_sound(evidence: Evidence) -> Iterator[Fault]:
    """Whole numbers, one finite logprob of at most 0 for each id, and as many as are counted."""
    for step in there(evidence).steps:
        ids, logprobs = _list(step, "completion_token_ids"), _list(step, "logprobs")
        for name, count in COUNTED.items():
            values, counted = _list(step, name), whole(step.metrics.get(count))
            if values is None:
                continue
            if (odd := _first(values, lambda value: type(value) is int and value >= 0)) is not None:
                yield Fault(None, "whole numbers that are not negative", odd, step.at(f"metrics.{name}"))
            if counted is not None and counted >= 0 and counted != len(values):
                yield Fault(None, f"{counted} ids, as {count} says", str(len(values)), step.at(f"metrics.{name}"))
        if logprobs is not None:
            if (odd := _first(logprobs, _is_logprob)) is not None:
                yield Fault(None, "finite numbers of at most 0", odd, step.at("metrics.logprobs"))
            if len(logprobs) != len(ids or ()):
                yield Fault(None, f"{len(ids or ())} logprobs, one for each id", str(len(logprobs)), step.at("metrics.logprobs"))


@check("ATF-019")
def ids_and_logprobs_are_the_engines(evidence: Evidence) -> Iterator[Fault]:
    """Of each step that has some: of its own call, and of one that was captured."""
    if not conversation(evidence):
        raise NotExercised("no model call was answered")
    owner = {step.at(): pair.turns[0].call for pair in align(evidence).pairs if len(pair.turns) == 1 for step in pair.steps}
    for step in own_steps(evidence):
        values = {name: found for name in LISTS if (found := _list(step, name)) is not None}
        call = owner.get(step.at())
        if call is None:
            if values:
                yield Fault(None, "ids of a call that was captured", "a step of which no call is known", step.at("metrics"))
            continue
        for name, found in values.items():
            wire = _wire(call, name)
            if not _equal(name, wire, found):
                seen = f"the engine's against these: {first_difference(wire, found)}"
                yield Fault(call.index, f"the {name} of call {call.index}", seen, step.at(f"metrics.{name}"))


@check("ATF-020")
def prompts_extend_each_other(evidence: Evidence) -> Iterator[Fault]:
    """Within a document: a history that was rewritten or summed up begins a new sequence."""
    for document in there(evidence).documents:
        told = [
            (step, prompt, _list(step, "completion_token_ids") or [])
            for step in document.steps
            if step.of_agent and (prompt := _list(step, "prompt_token_ids")) is not None
        ]
        for (before, prompt, sampled), (after, following, _) in pairwise(told):
            whole_before = [*prompt, *sampled]
            if following[: len(whole_before)] != whole_before:
                expected = f"a prompt that begins with the {len(whole_before)} ids of {before.at()}"
                seen = first_difference(whole_before, following)
                yield Fault(None, expected, seen, after.at("metrics.prompt_token_ids"))


@check("ATF-025")
def ids_come_with_their_counts(evidence: Evidence) -> Iterator[Fault]:
    """Where there are ids: the count is the only redundancy."""
    for step in there(evidence).steps:
        for name, count in COUNTED.items():
            if _list(step, name) is not None and step.metrics.get(count) is None:
                yield Fault(None, f"{count} beside {name}", "none", step.at(f"metrics.{count}"))


def _list(step: Step, name: str) -> list[Any] | None:
    value = step.metrics.get(name)
    return value if isinstance(value, list) else None


def _wire(call: Call, name: str) -> list[Any] | None:
    sample = call.samples[0] if len(call.samples) == 1 else None
    values = {
        "prompt_token_ids": call.prompt_ids,
        "completion_token_ids": sample and sample.token_ids,
        "logprobs": sample and sample.logprobs,
    }[name]
    return None if values is None else list(values)


def _equal(name: str, wire: list[Any] | None, told: list[Any]) -> bool:
    if wire is None or name != "logprobs":
        return identical(wire, told)
    return len(wire) == len(told) and all(
        _is_logprob(one) and _is_logprob(two) and math.isclose(one, two) for one, two in zip(wire, told, strict=True)
    )


def _is_logprob(value: Any) -> bool:
    return type(value) in (int, float) and -LARGEST < value <= 0


def _first(values: list[Any], sound: Any) -> str | None:
    return next((f"{value!r} at position {position}" for position, value in enumerate(values) if not sound(value)), None)
