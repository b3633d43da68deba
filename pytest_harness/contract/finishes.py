"""FIN: every reply says why it ended, what was cut is told as cut, and a stop of the proxy's own is no turn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pytest_harness.contract.chat_wire import Choice, Turn, line, parse_json, short
from pytest_harness.contract.model import Fault, NotExercised, check
from pytest_harness.contract.tokens import answered, of_the_agent
from pytest_harness.evidence.model import Evidence
from pytest_harness.graph import is_model_call

CALLED = "tool_calls"
CUT = "length"
MOST_AFTER_STOP = 3
"""How many calls a harness may still make after it was told that its budget is used up: a title, a summary, a goodbye."""


@check("FIN-001")
def every_reply_says_why_it_ended(evidence: Evidence) -> Iterator[Fault]:
    """In a word that is not empty; which words there are is the engine's affair."""
    for turn, index, choice in _choices(evidence):
        if not isinstance(choice.finish_reason, str) or not choice.finish_reason:
            where = f"{line(turn.call)}, replied.body choices[{index}].finish_reason"
            yield Fault(turn.call.index, "a finish reason", repr(choice.finish_reason), where)


@check("FIN-002")
def the_recorded_finish_reason_is_the_engines(evidence: Evidence) -> Iterator[Fault]:
    """The record against the bytes of the reply."""
    for turn in answered(evidence):
        for sample in turn.call.samples:
            choice = turn.engine.choices.get(sample.index)
            if choice is not None and sample.finish_reason != choice.finish_reason:
                where = f"{line(turn.call)}, samples[{sample.index}].finish_reason"
                yield Fault(turn.call.index, repr(choice.finish_reason), repr(sample.finish_reason), where)


@check("FIN-003")
def a_reply_that_says_tool_calls_has_one(evidence: Evidence) -> Iterator[Fault]:
    """A harness that waits for a call that is not there hangs, or takes the turn for empty."""
    for turn, index, choice in _choices(evidence):
        if choice.finish_reason == CALLED and not choice.calls:
            where = f"{line(turn.call)}, replied.body choices[{index}]"
            yield Fault(turn.call.index, f"a tool call, as the finish reason is {CALLED}", "none", where)


@check("FIN-004")
def a_reply_with_calls_says_so(evidence: Evidence) -> Iterator[Fault]:
    """Engines say ``stop`` where the request named the tool; a cut reply says that it was cut."""
    with_calls = [(turn, index, choice) for turn, index, choice in _choices(evidence) if choice.calls]
    if not with_calls:
        raise NotExercised("the engine made no tool call")
    for turn, index, choice in with_calls:
        if choice.finish_reason == "stop" and not isinstance(turn.forwarded.get("tool_choice"), dict):
            where = f"{line(turn.call)}, replied.body choices[{index}].finish_reason"
            yield Fault(turn.call.index, f"{CALLED}, as there are {len(choice.calls)} of them", "stop", where)


@check("FIN-005")
def no_reply_is_longer_than_its_limit(evidence: Evidence) -> Iterator[Fault]:
    """By the ids, as usage is a count of the engine's own."""
    limited = [(turn, index, choice) for turn, index, choice in _choices(evidence) if limit(turn) is not None and choice.token_ids]
    if not limited:
        raise NotExercised("no answered request has a limit of tokens")
    for turn, index, choice in limited:
        if len(choice.token_ids or ()) > (limit(turn) or 0):
            where = f"{line(turn.call)}, replied.body choices[{index}].token_ids"
            yield Fault(turn.call.index, f"at most {limit(turn)} ids, as was asked", str(len(choice.token_ids or ())), where)


@check("FIN-006")
def a_cut_call_is_no_finished_call(evidence: Evidence) -> Iterator[Fault]:
    """Only at the limit: elsewhere broken arguments are what the model wrote."""
    for turn, index, choice in _choices(evidence):
        if choice.finish_reason != CALLED or limit(turn) is None or len(choice.token_ids or ()) < (limit(turn) or 0):
            continue
        for call in choice.calls:
            if parse_json(call.arguments) is None:
                where = f"{line(turn.call)}, replied.body choices[{index}].finish_reason"
                yield Fault(turn.call.index, f"{CUT}, as the arguments break off: {short(call.arguments)}", CALLED, where)


@check("FIN-007")
def only_a_limit_cuts(evidence: Evidence) -> Iterator[Fault]:
    """A reply may also fill the context, which is at least as long as the longest turn that was seen."""
    cut = [(turn, index, choice) for turn, index, choice in _choices(evidence) if choice.finish_reason == CUT and choice.token_ids]
    if not cut:
        raise NotExercised("no reply was cut")
    longest = max(_total(turn, choice) for turn, _, choice in _choices(evidence))
    for turn, index, choice in cut:
        asked, sampled = limit(turn), len(choice.token_ids or ())
        if sampled in _played(evidence):
            continue
        if (asked is None or sampled < asked) and _total(turn, choice) < longest:
            where = f"{line(turn.call)}, replied.body choices[{index}].finish_reason"
            expected = f"no cut before {'a limit, as none was asked' if asked is None else f'the limit of {asked}'}"
            yield Fault(turn.call.index, expected, f"{CUT} after {sampled} ids, though the context holds {longest}", where)


@check("FIN-008")
def no_turn_of_the_agent_is_cut(evidence: Evidence) -> Iterator[Fault]:
    """Each is named, so that they can be counted over many rollouts."""
    for turn in of_the_agent(evidence):
        for index, choice in turn.engine.choices.items():
            if choice.finish_reason == CUT and len(choice.token_ids or ()) not in _played(evidence):
                where = f"{line(turn.call)}, replied.body choices[{index}].finish_reason"
                yield Fault(turn.call.index, "a turn that ended by itself", f"{CUT} after {len(choice.token_ids or ())} ids", where)


@check("FIN-009")
def a_stop_string_that_was_met_is_told(evidence: Evidence) -> Iterator[Fault]:
    """A number is the id of a token that ended the reply; engines differ in telling it."""
    met = [(turn, index, choice) for turn, index, choice in _choices(evidence) if isinstance(choice.stop_reason, str)]
    if not met:
        raise NotExercised("no reply ended in a stop string")
    for turn, index, choice in met:
        told = turn.harness.choices.get(index, Choice()).stop_reason
        if told != choice.stop_reason:
            where = f"{line(turn.call)}, delivered.body choices[{index}].stop_reason"
            yield Fault(turn.call.index, repr(choice.stop_reason), repr(told), where)


@check("FIN-010")
def a_stop_of_the_proxy_is_no_turn(evidence: Evidence) -> Iterator[Fault]:
    """It was never asked of the engine."""
    stopped = [call for call in evidence.calls if call.outcome == "budget_stop"]
    if not stopped:
        raise NotExercised("no budget was used up")
    for call in stopped:
        for name in ("forwarded", "replied", "prompt_ids", "samples"):
            if getattr(call, name):
                yield Fault(call.index, f"no {name}, as the proxy answered by itself", "it is there", f"{line(call)}, {name}")


@check("FIN-011")
def a_stop_ends_the_agent(evidence: Evidence) -> Iterator[Fault]:
    """Soon: some harnesses still write a title or a summary."""
    outcomes = [call.outcome for call in evidence.calls]
    if "budget_stop" not in outcomes:
        raise NotExercised("no budget was used up")
    after = [call for call in evidence.calls[outcomes.index("budget_stop") + 1 :] if is_model_call(call)]
    if len(after) > MOST_AFTER_STOP:
        expected = f"at most {MOST_AFTER_STOP} calls after the agent was told that the end has come"
        yield Fault(after[MOST_AFTER_STOP].index, expected, str(len(after)), line(after[MOST_AFTER_STOP]))


def limit(turn: Turn) -> int | None:
    """How many tokens the engine was allowed to sample; the newer name counts where both are there."""
    for name in ("max_completion_tokens", "max_tokens"):
        value: Any = turn.forwarded.get(name)
        if type(value) is int:
            return value
    return None


def _played(evidence: Evidence) -> set[int | None]:
    """After how many tokens the scenario has the engine cut a reply."""
    return {fault.after for fault in evidence.manifest.scenario.faults if fault.kind == "length"}


def _choices(evidence: Evidence) -> list[tuple[Turn, int, Choice]]:
    return [(turn, index, choice) for turn in answered(evidence) for index, choice in turn.engine.choices.items()]


def _total(turn: Turn, choice: Choice) -> int:
    return len(turn.engine.prompt_ids or ()) + len(choice.token_ids or ())
