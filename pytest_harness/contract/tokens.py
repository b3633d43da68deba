"""TOK: the ids are the engine's, whole numbers, counted right, and asked for in the right way."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_harness.contract.chat_wire import Turn, asked, conversation, first_difference, identical, line, plain_text, short, turns
from pytest_harness.contract.model import Fault, NotExercised, check
from pytest_harness.evidence.model import Call, Evidence
from pytest_harness.evidence.notes import names_not_passed_on

DISTORTING = (
    "truncate_prompt_tokens",
    "echo",
    "prompt_logprobs",
    "chat_template",
    "continue_final_message",
    "prompt_embeds",
    "documents",
)
"""Fields of vLLM's chat route that change the prompt while the messages stay the same."""

CAPTURE = ("logprobs", "top_logprobs", "return_token_ids", "return_tokens_as_token_ids", "stream_options")
"""Fields by which the capture asks for ids and logprobs."""

NEUTRAL: Mapping[str, float] = {
    "top_p": 1,
    "top_k": -1,
    "min_p": 0,
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "repetition_penalty": 1,
}
"""The values that leave the model's distribution as it is: a session that trains sends them all, whatever the harness asked."""

TEMPLATE = ("chat_template_kwargs", "reasoning_effort")
"""Fields that choose among the prompts that a template makes of the same messages."""

BEYOND = 2**31
"""No vocabulary is that large, and a signed tensor of 32 bits ends there."""
NEAR = 8
"""How many turns back the one is looked for that a request continues."""

ELSEWHERE = frozenset({"messages", "tools", "model", *DISTORTING, *CAPTURE})


@check("TOK-001")
def recorded_ids_are_the_engines(evidence: Evidence) -> Iterator[Fault]:
    """Both records of the ids against the bytes of the reply."""
    for turn in answered(evidence):
        call = turn.call
        if not identical(call.prompt_ids, turn.engine.prompt_ids):
            seen = f"recorded against sent: {first_difference(call.prompt_ids, turn.engine.prompt_ids)}"
            yield Fault(call.index, "the prompt ids that the engine sent", seen, f"{line(call)}, prompt_ids")
        recorded = {sample.index: sample.token_ids for sample in call.samples}
        for index in sorted(recorded.keys() | turn.engine.choices.keys()):
            choice = turn.engine.choices.get(index)
            sent = choice.token_ids if choice else None
            if not identical(recorded.get(index), sent):
                seen = f"recorded against sent: {first_difference(recorded.get(index), sent)}"
                yield Fault(call.index, "the sampled ids that the engine sent", seen, f"{line(call)}, samples[{index}].token_ids")


@check("TOK-002")
def every_turn_has_its_ids(evidence: Evidence) -> Iterator[Fault]:
    """An answered turn without ids cannot be trained on."""
    for turn in answered(evidence):
        if not turn.call.prompt_ids:
            yield Fault(turn.call.index, "the ids of the prompt", repr(turn.call.prompt_ids), f"{line(turn.call)}, prompt_ids")
        if not turn.call.samples:
            yield Fault(turn.call.index, "a sample", "none", f"{line(turn.call)}, samples")
        for sample in turn.call.samples:
            if not sample.token_ids:
                where = f"{line(turn.call)}, samples[{sample.index}].token_ids"
                yield Fault(turn.call.index, "the ids that were sampled", repr(sample.token_ids), where)


@check("TOK-003")
def an_id_is_a_whole_number(evidence: Evidence) -> Iterator[Fault]:
    """One fault for each list that holds anything else, naming the first."""
    lists = [(call, where, ids) for call in _calls_with_ids(evidence) for where, ids in _id_lists(call)]
    if not lists:
        raise NotExercised("no call carries ids")
    for call, where, ids in lists:
        if set(map(type, ids)) <= {int} and min(ids, default=0) >= 0:
            continue
        for position, value in enumerate(ids):
            if type(value) is not int or value < 0:
                yield Fault(call.index, "integers that are not negative", f"{value!r} at position {position}", f"{line(call)}, {where}")
                break


@check("TOK-004")
def usage_agrees_with_the_ids(evidence: Evidence) -> Iterator[Fault]:
    """The one redundancy on the wire."""
    reported = [turn for turn in answered(evidence) if turn.engine.usage]
    if not reported:
        raise NotExercised("the engine reported no usage")
    for turn in reported:
        usage = turn.engine.usage or {}
        counts = {"prompt_tokens": prompt_length(turn.call), "completion_tokens": completion_length(turn.call)}
        for name, count in counts.items():
            if count is not None and not identical(usage.get(name), count):
                yield Fault(
                    turn.call.index, f"{count}, the number of ids", repr(usage.get(name)), f"{line(turn.call)}, replied.body usage.{name}"
                )


@check("TOK-005")
def the_engine_is_asked_for_ids_and_logprobs(evidence: Evidence) -> Iterator[Fault]:
    """Whatever the harness asked for."""
    for turn in answered(evidence):
        call, body = turn.call, turn.forwarded
        for name in ("return_token_ids", "logprobs"):
            if body.get(name) is not True:
                yield Fault(call.index, f"{name} true", repr(body.get(name)), f"{line(call)}, forwarded.body {name}")


@check("TOK-006")
def the_served_model_is_named(evidence: Evidence) -> Iterator[Fault]:
    """The manifest says which model is served."""
    for turn in answered(evidence):
        call, body = turn.call, turn.forwarded
        if body.get("model") != evidence.manifest.model:
            yield Fault(call.index, evidence.manifest.model, repr(body.get("model")), f"{line(call)}, forwarded.body model")


@check("TOK-007")
def nothing_distorts_the_prompt_unseen(evidence: Evidence) -> Iterator[Fault]:
    """A field that is null or false does nothing."""
    for turn in answered(evidence):
        call, body = turn.call, turn.forwarded
        for name in DISTORTING:
            if body.get(name) is not None and body[name] is not False:
                yield Fault(call.index, f"no {name}", short(body[name]), f"{line(call)}, forwarded.body {name}")


@check("TOK-008")
def messages_and_tools_reach_the_engine_unchanged(evidence: Evidence) -> Iterator[Fault]:
    """As JSON values: the order of keys and the spaces are free."""
    for turn in answered(evidence):
        call, body = turn.call, turn.forwarded
        for name in ("messages", "tools"):
            if not identical(turn.request.get(name), body.get(name)):
                yield Fault(
                    call.index,
                    f"the {name} that the harness sent",
                    _difference(turn.request.get(name), body.get(name)),
                    f"{line(call)}, forwarded.body {name}",
                )


@check("TOK-009")
def what_else_the_harness_asked_reaches_the_engine(evidence: Evidence) -> Iterator[Fault]:
    """Its messages, tools and model, and what would distort the prompt, have checks of their own; a field may be left out if noted.

    A field that is recorded as a constraint may be added: such a call is not trained on, and a session steers an engine with it.
    """
    for turn in answered(evidence):
        left_out = names_not_passed_on(turn.call.notes) - turn.forwarded.keys()
        steered = set(turn.call.constraints) - turn.request.keys()
        for name in sorted({*turn.request, *turn.forwarded} - ELSEWHERE - left_out - neutralised(turn) - steered):
            sent, forwarded = turn.request.get(name), turn.forwarded.get(name)
            if not identical(sent, forwarded):
                where = f"{line(turn.call)}, forwarded.body {name}"
                yield Fault(turn.call.index, short(json.dumps(sent)), short(json.dumps(forwarded)), where)


@check("TOK-010")
def no_id_is_beyond_any_vocabulary(evidence: Evidence) -> Iterator[Fault]:
    """One fault for each list, naming the first."""
    lists = [(call, where, ids) for call in _calls_with_ids(evidence) for where, ids in _id_lists(call)]
    if not lists:
        raise NotExercised("no call carries ids")
    for call, where, ids in lists:
        numbers = ids if set(map(type, ids)) <= {int} else tuple(value for value in ids if type(value) is int)
        if max(numbers, default=0) >= BEYOND:
            yield Fault(call.index, f"ids below {BEYOND}", repr(max(numbers)), f"{line(call)}, {where}")


@check("TOK-011")
def the_engine_answers_as_the_model_that_was_asked(evidence: Evidence) -> Iterator[Fault]:
    """Where the reply names a model."""
    named = [turn for turn in answered(evidence) if turn.engine.model]
    if not named:
        raise NotExercised("no reply of the engine names a model")
    for turn in named:
        if turn.engine.model != turn.forwarded.get("model"):
            expected = repr(turn.forwarded.get("model"))
            yield Fault(turn.call.index, expected, repr(turn.engine.model), f"{line(turn.call)}, replied.body model")


@check("TOK-012")
def a_prompt_grows_with_its_conversation(evidence: Evidence) -> Iterator[Fault]:
    """Only where turns of the model and results were added and nobody reasoned: templates drop old reasoning, by rules of their own."""
    compared = False
    seen: list[Turn] = []
    for turn in (turn for turn in answered(evidence) if turn.engine.prompt_ids):
        before = next((earlier for earlier in seen[: -NEAR - 1 : -1] if _goes_on(earlier.forwarded, turn.forwarded)), None)
        seen.append(turn)
        if before is None:
            continue
        compared = True
        shorter, longer = len(before.engine.prompt_ids or ()), len(turn.engine.prompt_ids or ())
        if longer <= shorter:
            expected = f"more ids than the {shorter} of call {before.call.index}, which this request goes on from"
            yield Fault(turn.call.index, expected, str(longer), f"{line(turn.call)}, prompt_ids")
    if not compared:
        raise NotExercised("no request goes on from an earlier one")


@check("TOK-013")
def the_template_is_used_in_one_way(evidence: Evidence) -> Iterator[Fault]:
    """By the agent's turns; the first one sets the way."""
    first, *rest = of_the_agent(evidence)
    for turn in rest:
        for name in TEMPLATE:
            if not identical(first.forwarded.get(name), turn.forwarded.get(name)):
                expected = f"{short(json.dumps(first.forwarded.get(name)))}, as in call {first.call.index}"
                where = f"{line(turn.call)}, forwarded.body {name}"
                yield Fault(turn.call.index, expected, short(json.dumps(turn.forwarded.get(name))), where)


@check("TOK-014")
def one_engine_answers(evidence: Evidence) -> Iterator[Fault]:
    """By the fingerprint of its version and settings."""
    known = [turn for turn in answered(evidence) if isinstance(turn.engine.fingerprint, str)]
    if len(known) < 2:
        raise NotExercised("fewer than two replies carry the fingerprint of the engine")
    for turn in known[1:]:
        if turn.engine.fingerprint != known[0].engine.fingerprint:
            expected = f"{known[0].engine.fingerprint}, as in call {known[0].call.index}"
            yield Fault(turn.call.index, expected, turn.engine.fingerprint, f"{line(turn.call)}, replied.body system_fingerprint")


@check("TOK-015")
def no_choice_is_sent_without_tools(evidence: Evidence) -> Iterator[Fault]:
    """In any request, as engines differ in refusing it."""
    everything = asked(evidence)
    if not everything:
        raise NotExercised("no model call was sent to the engine")
    for turn in everything:
        tools, choice = turn.forwarded.get("tools"), turn.forwarded.get("tool_choice")
        where = f"{line(turn.call)}, forwarded.body"
        if tools == []:
            yield Fault(turn.call.index, "tools, or no list of them", "an empty list", f"{where} tools")
        elif not tools and choice not in (None, "none"):
            yield Fault(turn.call.index, "no tool_choice, as there are no tools", short(repr(choice)), f"{where} tool_choice")


def of_the_agent(evidence: Evidence) -> tuple[Turn, ...]:
    """The agent's turns, of which there must be one for a check to say anything."""
    found = conversation(evidence)
    if not found:
        raise NotExercised("no model call of the agent was answered")
    return found


def neutralised(turn: Turn) -> frozenset[str]:
    """The fields by which a session that trains made the sampling neutral; the temperature is one if there are others."""
    sent, forwarded = turn.request, turn.forwarded
    names = {name for name, value in NEUTRAL.items() if not identical(sent.get(name), forwarded.get(name)) and forwarded.get(name) == value}
    return frozenset(names | {"temperature"} if names else ())


def _goes_on(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> bool:
    """Whether only turns of the model and results were added, and the template is asked for the same."""
    one, other = earlier.get("messages"), later.get("messages")
    if not isinstance(one, list) or not isinstance(other, list) or not len(one) < len(other) or other[: len(one)] != one:
        return False
    if any(not isinstance(message, dict) or _reasons(message) for message in one):
        return False
    added = [message.get("role") if isinstance(message, dict) else None for message in other[len(one) :]]
    return all(role in ("assistant", "tool") for role in added) and all(
        earlier.get(name) == later.get(name) for name in ("tools", *TEMPLATE)
    )


def _reasons(message: Mapping[str, Any]) -> bool:
    return bool(message.get("reasoning_content") or message.get("reasoning")) or "</think>" in plain_text(message)


def answered(evidence: Evidence) -> tuple[Turn, ...]:
    """The turns, of which there must be one for a check to say anything."""
    found = turns(evidence)
    if not found:
        raise NotExercised("no model call was answered")
    return found


def prompt_length(call: Call) -> int | None:
    """The number of prompt ids, None where they are missing."""
    return None if call.prompt_ids is None else len(call.prompt_ids)


def completion_length(call: Call) -> int | None:
    """The number of sampled ids over all choices, None where any are missing."""
    if not call.samples or any(sample.token_ids is None for sample in call.samples):
        return None
    return sum(len(sample.token_ids or ()) for sample in call.samples)


def _calls_with_ids(evidence: Evidence) -> Iterator[Call]:
    return (call for call in evidence.calls if call.outcome != "refused")


def _id_lists(call: Call) -> Iterator[tuple[str, tuple[Any, ...]]]:
    if call.prompt_ids is not None:
        yield "prompt_ids", call.prompt_ids
    for sample in call.samples:
        if sample.token_ids is not None:
            yield f"samples[{sample.index}].token_ids", sample.token_ids


def _difference(one: Any, other: Any) -> str:
    if isinstance(one, list) and isinstance(other, list):
        for position, (left, right) in enumerate(zip(one, other, strict=False)):
            if not identical(left, right):
                return f"entry {position} is {short(right)}"
        return f"{len(other)} entries, not {len(one)}"
    return short(other)
