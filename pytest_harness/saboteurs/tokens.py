"""Faults of ids and logprobs, and of what is asked of the engine."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from pytest_harness.evidence.model import Call, Evidence
from pytest_harness.saboteurs.extras import NEUTRAL, QUESTION, last_call, side_call
from pytest_harness.saboteurs.registry import NothingToSabotage, chosen, saboteur
from pytest_harness.saboteurs.surgery import (
    Json,
    edit_forwarded,
    edit_reply,
    edit_request,
    found,
    last_turn,
    resample,
    struck_turn,
    with_call,
    with_manifest,
    with_prompt,
)


@saboteur
def retokenised_sample(evidence: Evidence) -> Evidence:
    """The record's ids were made by encoding the text again."""
    # of an earlier turn the chain would break too
    return _record(evidence, last_turn(evidence), lambda ids, logprobs: ((*ids[:-2], ids[-1] + 1, ids[-1]), logprobs))


@saboteur
def retokenised_prompt(evidence: Evidence) -> Evidence:
    """The record's prompt was rendered anew."""
    call = last_turn(evidence)  # of an earlier turn the chain would break too
    ids = found(call.prompt_ids, "prompt ids")
    return with_call(evidence, call.model_copy(update={"prompt_ids": (*ids[:-1], ids[-1] + 1)}))


@saboteur
def lost_sampled_ids(evidence: Evidence) -> Evidence:
    """The engine sent no ids for a turn."""
    return with_call(evidence, resample(struck_turn(evidence), lambda _, entries: (None, entries)))


@saboteur
def lost_prompt_ids(evidence: Evidence) -> Evidence:
    """The engine sent no ids for a prompt."""
    return with_call(evidence, with_prompt(struck_turn(evidence), None))


@saboteur
def float_id(evidence: Evidence) -> Evidence:
    """An id went through floating point."""
    return _id(evidence, float)


@saboteur
def negative_id(evidence: Evidence) -> Evidence:
    """An id is a padding mark."""
    return _id(evidence, lambda _: -100)


@saboteur
def boolean_id(evidence: Evidence) -> Evidence:
    """An id is true."""
    return _id(evidence, lambda _: True)


@saboteur
def null_id(evidence: Evidence) -> Evidence:
    """An id is null."""
    return _id(evidence, lambda _: None)


@saboteur
def wrong_usage(evidence: Evidence) -> Evidence:
    """The engine counts one token more than it gives ids for."""

    def more(parts: list[Json]) -> None:
        for part in parts:
            if part.get("usage"):
                part["usage"]["completion_tokens"] += 1
                part["usage"]["total_tokens"] += 1

    return with_call(evidence, edit_reply(struck_turn(evidence), more))


@saboteur
def ids_not_asked(evidence: Evidence) -> Evidence:
    """The proxy did not ask for ids."""
    return _forward(evidence, lambda body: body.pop("return_token_ids"))


@saboteur
def logprobs_not_asked(evidence: Evidence) -> Evidence:
    """The harness's own setting went through."""
    return _forward(evidence, lambda body: body.update(logprobs=False))


@saboteur
def another_model(evidence: Evidence) -> Evidence:
    """The harness's own name for the model went through."""

    def name(parts: list[Json]) -> None:
        for part in parts:
            part["model"] = "gpt-4o"

    call = struck_turn(evidence)
    return with_call(evidence, edit_reply(edit_forwarded(call, lambda body: body.update(model="gpt-4o")), name))


@saboteur
def changed_sampling(evidence: Evidence) -> Evidence:
    """The proxy samples as it likes."""

    def sample(body: Json) -> None:
        if "top_k" in body:
            raise NothingToSabotage("the session sets the sampling by itself")
        body.update(temperature=0.1, top_k=1)

    return _forward(evidence, sample)


@saboteur
def truncated_prompt(evidence: Evidence) -> Evidence:
    """The engine was asked to cut the prompt."""
    return _forward(evidence, lambda body: body.update(truncate_prompt_tokens=512))


@saboteur
def replaced_template(evidence: Evidence) -> Evidence:
    """The engine was given another chat template."""
    return _forward(evidence, lambda body: body.update(chat_template="{{ messages[-1].content }}"))


@saboteur
def rewritten_prompt(evidence: Evidence) -> Evidence:
    """The proxy took something out of the system prompt."""
    return _forward(evidence, lambda body: body["messages"][0].update(content="You are helpful."))


@saboteur
def dropped_tool(evidence: Evidence) -> Evidence:
    """The proxy dropped a tool that it did not know."""

    def drop(body: Json) -> None:
        body["tools"].pop()
        if not body["tools"]:
            del body["tools"]

    return _forward(evidence, drop)


@saboteur
def altered_logprob(evidence: Evidence) -> Evidence:
    """The record's logprobs were rounded."""
    return _record(evidence, struck_turn(evidence), lambda ids, logprobs: (ids, (*logprobs[:-1], logprobs[-1] - 0.5)))


@saboteur
def missing_logprob(evidence: Evidence) -> Evidence:
    """The engine sent one logprob less than ids."""
    return _entries(evidence, lambda entries: entries[:-1])


@saboteur
def no_logprobs(evidence: Evidence) -> Evidence:
    """The engine sent no logprobs for a turn."""
    return _entries(evidence, lambda _: None)


@saboteur
def nan_logprob(evidence: Evidence) -> Evidence:
    """A logprob is not a number."""
    return _logprob(evidence, math.nan)


@saboteur
def positive_logprob(evidence: Evidence) -> Evidence:
    """A logprob is above zero."""
    return _logprob(evidence, 0.1)


@saboteur
def null_logprob(evidence: Evidence) -> Evidence:
    """A logprob is null."""
    return _logprob(evidence, None)


@saboteur
def sentinel_logprob(evidence: Evidence) -> Evidence:
    """A logprob is what engines write for minus infinity."""
    return _logprob(evidence, -9999.0)


@saboteur
def rotated_logprobs(evidence: Evidence) -> Evidence:
    """Each logprob stands one place too early."""
    return _entries(evidence, lambda entries: [*entries[1:], entries[0]])


@saboteur
def zero_filled_logprobs(evidence: Evidence) -> Evidence:
    """A part of the stack fills in zeros."""
    for call in evidence.calls:
        if call.samples:
            evidence = with_call(evidence, resample(call, lambda ids, entries: (ids, [{**entry, "logprob": 0.0} for entry in entries])))
    return evidence


def _record(evidence: Evidence, call: Call, change: Callable[[Any, Any], tuple[Any, Any]]) -> Evidence:
    sample = call.samples[0]
    ids, logprobs = change(found(sample.token_ids, "sampled ids"), found(sample.logprobs, "logprobs"))
    changed = sample.model_copy(update={"token_ids": ids, "logprobs": logprobs})
    return with_call(evidence, call.model_copy(update={"samples": (changed, *call.samples[1:])}))


def _id(evidence: Evidence, change: Callable[[int], Any]) -> Evidence:
    return with_call(evidence, resample(struck_turn(evidence), lambda ids, entries: (_changed(ids, change), entries)))


def _entries(evidence: Evidence, change: Callable[[list[Json]], list[Json] | None]) -> Evidence:
    return with_call(evidence, resample(struck_turn(evidence), lambda ids, entries: (ids, change(entries))))


def _logprob(evidence: Evidence, value: float | None) -> Evidence:
    return _entries(evidence, lambda entries: _changed(entries, lambda entry: {**entry, "logprob": value}))


def _changed[T](values: list[T], change: Callable[[T], Any]) -> list[Any]:
    """The list with one of its values changed."""
    at = chosen(range(len(values)), 0)
    return [*values[:at], change(values[at]), *values[at + 1 :]]


def _forward(evidence: Evidence, edit: Callable[[Json], Any]) -> Evidence:
    call: Call = struck_turn(evidence)
    return with_call(evidence, edit_forwarded(call, edit))


@saboteur
def id_beyond_any_vocabulary(evidence: Evidence) -> Evidence:
    """A negative id went through an unsigned integer."""
    value = 2**64 - 100

    def wrap(ids: list[Any], entries: list[Json]) -> tuple[list[Any], list[Json]]:
        return [value, *ids[1:]], [{**entries[0], "token": f"token_id:{value}"}, *entries[1:]]

    return with_call(evidence, resample(last_turn(evidence), wrap))


@saboteur
def answered_by_another_model(evidence: Evidence) -> Evidence:
    """A router sent the request elsewhere."""
    return side_call(evidence, edit=lambda reply: reply.update(model="tiny-fallback"))


@saboteur
def slid_prompt(evidence: Evidence) -> Evidence:
    """The engine drops the beginning of a prompt that is too long for it."""
    first = side_call(evidence, messages=QUESTION, prompt=40)
    longer = [*QUESTION, {"role": "assistant", "content": "A short title."}, {"role": "assistant", "content": "Another."}]
    return side_call(first, messages=longer, prompt=30)


@saboteur
def switched_template(evidence: Evidence) -> Evidence:
    """The harness switches thinking off in the middle."""
    _several(evidence)
    change: Json = {"chat_template_kwargs": {"enable_thinking": False}}
    return with_call(evidence, edit_request(last_turn(evidence), lambda body: body.update(change)))


@saboteur
def another_engine(evidence: Evidence) -> Evidence:
    """The engine was started anew with other settings."""
    before = side_call(evidence, edit=lambda reply: reply.update(system_fingerprint="vllm-a"))
    return side_call(before, edit=lambda reply: reply.update(system_fingerprint="vllm-b"))


@saboteur
def copied_logprobs(evidence: Evidence) -> Evidence:
    """Two replies that ran side by side got the same logprobs."""
    asked = side_call(side_call(evidence, sampled=12), sampled=12)
    entries: list[float] = list(found(asked.calls[-2].samples[0].logprobs, "logprobs"))

    def copy(ids: list[Any], own: list[Json]) -> tuple[list[Any], list[Json]]:
        return ids, [{**entry, "logprob": value} for entry, value in zip(own, entries, strict=True)]

    return last_call(asked, lambda call: resample(call, copy))


@saboteur
def half_neutral_sampling(evidence: Evidence) -> Evidence:
    """The session leaves one of the parameters to the engine's own defaults."""

    def half(body: Json) -> None:
        body.update(NEUTRAL, temperature=1.0)
        del body["min_p"]

    for call in evidence.calls:
        if call.forwarded is not None:
            evidence = with_call(evidence, edit_forwarded(call, half))
    return evidence


@saboteur
def training_on_any_sampling(evidence: Evidence) -> Evidence:
    """A session that trains leaves the sampling to the harness and to the engine's own defaults."""
    sent = [json.loads(call.forwarded.body) for call in evidence.calls if call.outcome == "complete" and call.forwarded is not None]
    own = [body for body in sent if any(body.get(name) != value for name, value in NEUTRAL.items())]
    found(own or None, "call that is not sampled neutrally")
    return with_manifest(evidence, purpose="train")


@saboteur
def changing_temperature(evidence: Evidence) -> Evidence:
    """The harness turns the temperature up in the middle."""
    _several(evidence)
    return with_call(evidence, edit_request(last_turn(evidence), lambda body: body.update(temperature=1.5)))


@saboteur
def unmarked_constraint(evidence: Evidence) -> Evidence:
    """A reply that a grammar forced looks like the model's own."""
    schema = {"type": "json_schema", "json_schema": {"name": "title", "schema": {"type": "object"}}}
    return side_call(evidence, response_format=schema)


@saboteur
def needless_mark(evidence: Evidence) -> Evidence:
    """A turn that nothing constrained is marked as if something had."""
    return with_call(evidence, last_turn(evidence).model_copy(update={"constraints": ("response_format",)}))


@saboteur
def impossible_alternatives(evidence: Evidence) -> Evidence:
    """The alternatives of a place have more than all probability."""
    top = [{"token": f"token_id:{token}", "logprob": -0.1, "bytes": []} for token in (1, 2)]
    asked = side_call(evidence)
    return last_call(asked, lambda call: resample(call, lambda ids, own: (ids, [{**own[0], "top_logprobs": top}, *own[1:]])))


@saboteur
def choice_without_tools(evidence: Evidence) -> Evidence:
    """An offer of no tools is sent on with a choice among them."""
    return side_call(evidence, tools=[], tool_choice="auto")


def _several(evidence: Evidence) -> None:
    if len(evidence.calls) < 2:
        raise NothingToSabotage("the evidence has no second call")
