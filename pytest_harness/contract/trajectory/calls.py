"""ATF: the model calls that the trajectory tells are those on the wire: as many, in this order, with these calls, texts and results."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from pytest_harness.atif import Step
from pytest_harness.atif.document import text_of
from pytest_harness.contract.chat_wire import Turn, asked, conversation, identical, parse_json, short
from pytest_harness.contract.dialects import own_results
from pytest_harness.contract.model import Fault, NotExercised, Unverifiable, check
from pytest_harness.contract.trajectory.alignment import align, plain, reply_ids
from pytest_harness.contract.trajectory.expected import explained
from pytest_harness.contract.trajectory.reading import calls_by_id, own_steps
from pytest_harness.evidence.model import Evidence

HEAD = 200
"""Of a longer text that a log has cut, so many characters must be the same."""


@check("ATF-002")
def logged_calls_are_the_calls_on_the_wire(evidence: Evidence) -> Iterator[Fault]:
    """Steps that do not count stand for one call each. Where none counts, they must name what tells which call each is.

    The two sides are not alike: a call that was captured may be explained, one that was logged and not captured never is. The proxy's own
    stop replies may be logged as calls or not.
    """
    turns = _turns(evidence)
    steps = [step for step in own_steps(evidence) if step.calls_model]
    alignment = align(evidence)
    if any(step.count is not None for step in steps):
        logged = sum(1 if step.count is None else step.count for step in steps)
    elif any(pair.named for pair in alignment.pairs):  # several steps may tell one reply, such as one for each of its tool calls
        logged = sum(len(pair.turns) for pair in alignment.pairs) + len(alignment.uncaptured)
    else:
        raise Unverifiable("no step of the trajectory says how many model calls it is, or names anything that would tell which")
    stops = sum(call.outcome == "budget_stop" and call.delivery != "client_gone" for call in evidence.calls)
    stops -= sum(turn.call.outcome == "budget_stop" for turn in alignment.aside)
    least, most = len(turns) - len(explained(evidence)), len(turns) + len(alignment.aside) + stops
    if not least <= logged <= most:
        more = f", and up to {stops} stop replies" if stops else ""
        where = f"{own_steps(evidence)[0].document.path} steps[].llm_call_count"
        yield Fault(None, f"{len(turns)} model calls, as on the wire{more}", str(logged), where)


@check("ATF-004")
def logged_tool_calls_are_the_models(evidence: Evidence) -> Iterator[Fault]:
    """In order, over all steps: how steps cut the conversation is free. What a call is named and what it is given are told apart, so that
    a known deviation in one excuses nothing in the other. A call that broke off with its reply is none yet: a log may tell it or not. One
    that its dialect cannot hold was never given."""
    alignment = align(evidence)
    silent = {turn.call.index for turn in explained(evidence)}
    told = {turn.call.index for pair in alignment.pairs for turn in pair.turns if any(step.calls for step in pair.steps)}
    turns = [turn for turn in _turns(evidence) if turn.call.index not in silent]
    turns += [turn for turn in alignment.aside if turn.call.outcome != "cut_upstream" or turn.call.index in told]
    turns.sort(key=lambda turn: turn.call.index)
    delivered = [call for turn in turns for choice in turn.harness.choices.values() if not choice.withheld for call in choice.calls]
    logged = [(step, call) for step in _in_order(evidence) for call in step.calls]
    if not delivered and not logged:
        raise NotExercised("no tool call was delivered or logged")
    if len(delivered) != len(logged):
        path = own_steps(evidence)[0].document.path
        yield Fault(None, f"{len(delivered)} tool calls, as delivered", str(len(logged)), f"{path} steps[].tool_calls")
        return
    for made, (step, call) in zip(delivered, logged, strict=True):
        name, function, where = call.get("tool_call_id"), call.get("function_name"), step.at("tool_calls")
        if (made.id, made.name) != (name, function):
            yield Fault(None, short(f"{made.id} {made.name}(…)", 300), short(f"{name} {function}(…)", 300), where)
        arguments = parse_json(made.arguments)
        if isinstance(arguments, dict) and not identical(arguments, call.get("arguments")):
            expected, seen = f"the arguments {made.arguments}", f"{call.get('arguments')}"
            yield Fault(None, short(expected, 300), short(seen, 300), where)


@check("ATF-021")
def logged_replies_were_captured(evidence: Evidence) -> Iterator[Fault]:
    """Where a step names the id of its reply: each is one of the wire's, once, and in its order."""
    _turns(evidence)
    owners: dict[str, list[int]] = defaultdict(list)
    for call in evidence.calls:
        for name in reply_ids(call):
            owners[name].append(call.index)
    steps = [(step, name) for step in own_steps(evidence) if isinstance(name := _extra(step, "response_id"), str) and name]
    if any(len(set(owners[name])) > 1 for _, name in steps if name in owners):
        raise Unverifiable("the engine gave several replies one id")
    latest: dict[Any, tuple[int, str]] = {}
    for step, name in steps:
        where = step.at("extra.response_id")
        before, known = latest.get(step.document), owners.get(name)
        if known is None:
            yield Fault(None, "the id of a reply that was captured", name, where)
            continue
        if before is not None and before[0] >= known[0]:
            expected = "another reply" if before[1] == name else f"a reply after {before[1]}"
            yield Fault(known[0], expected, name, where)
        latest[step.document] = (known[0], name)


@check("ATF-022")
def logged_messages_are_the_models(evidence: Evidence) -> Iterator[Fault]:
    """Spaces and what stands around it are free, and a text that is cut is no other text."""
    _turns(evidence)
    own_steps(evidence)
    compared = False
    for pair in align(evidence).pairs:
        if len(pair.turns) != 1:
            continue
        turn, told = pair.turns[0], [step for step in pair.steps if plain(step.text)]
        texts = _texts(turn)
        for step in told if texts else ():
            compared = True
            if not any(_same_text(step.text, text) for text in texts):
                yield Fault(turn.call.index, short(texts[0]), short(step.text), step.at("message"))
    if not compared:
        raise NotExercised("no step tells a text of which the call is known")


@check("ATF-023")
def logged_results_are_what_the_model_was_told(evidence: Evidence) -> Iterator[Fault]:
    """A result that names no call belongs to that in its place, if there are as many."""
    _turns(evidence)
    told: dict[str, list[str]] = defaultdict(list)
    for turn in asked(evidence):
        messages = turn.forwarded.get("messages")
        for message in messages if isinstance(messages, list) else ():
            if isinstance(message, dict) and message.get("role") == "tool" and isinstance(message.get("tool_call_id"), str):
                told[message["tool_call_id"]].append(text_of(message.get("content")))
        for name, own in own_results(turn.call):
            told[name].append(own)
    compared = False
    for step in own_steps(evidence):
        for number, (name, text) in enumerate(_results(step)):
            texts = [each for each in told.get(name, told.get(name.rpartition("__")[2], [])) if plain(each)]
            if texts and plain(text) and calls_by_id(evidence)[name] < 2:
                compared = True
                if not any(_same_text(text, each) for each in texts):
                    yield Fault(None, short(texts[0]), short(text), step.at(f"observation.results[{number}].content"))
    if not compared:
        raise NotExercised("no result in the trajectory is one that a request has too")


def _turns(evidence: Evidence) -> tuple[Turn, ...]:
    turns = conversation(evidence)
    if not turns:
        raise NotExercised("no model call was answered")
    return turns


def _in_order(evidence: Evidence) -> list[Step]:
    """The steps as the calls came; a single document is taken as it is, as its order is what it says."""
    steps = [step for step in own_steps(evidence) if step.calls_model]
    if len({id(step.document) for step in steps}) < 2:
        return steps
    known = {step.at(): pair.turns[0].call.index for pair in align(evidence).pairs for step in pair.steps}
    return sorted(steps, key=lambda step: known.get(step.at(), len(evidence.calls)))


def _texts(turn: Turn) -> list[str]:
    """What the model said, as the engine sent it and as the harness got it."""
    choices = [*turn.engine.choices.values(), *turn.harness.choices.values()]
    spoken = [choice.text for choice in choices if plain(choice.text)]
    return [*spoken, *(choice.reasoning for choice in choices if plain(choice.reasoning))] if spoken else []


def _same_text(one: str, other: str) -> bool:
    one, other = plain(one), plain(other)
    return one in other or other in one or (len(one) > HEAD and one[:HEAD] == other[:HEAD])


def _results(step: Step) -> Iterator[tuple[str, str]]:
    results, calls = step.results, step.calls
    for number, result in enumerate(results):
        name = result.get("source_call_id")
        if name is None and len(results) == len(calls):
            name = calls[number].get("tool_call_id")
        yield name if isinstance(name, str) else "", text_of(result.get("content"))


def _extra(step: Step, name: str) -> Any:
    extra = step.raw.get("extra")
    return extra.get(name) if isinstance(extra, dict) else None
