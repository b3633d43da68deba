"""PAR: what the model samples as a tool call is told as one, with an id of its own, whatever is asked by tool_choice."""

import pytest

from pytest_harness.endpoint.abilities import STRICT_TOOLS, TOOLS
from pytest_harness.endpoint.asking import PROMPT
from pytest_harness.session.case_marks import requirement
from pytest_harness.session.wire_marks import both_modes
from pytest_harness.wire.outcome import NotExercised, expect, same

NAMED = {"type": "function", "function": {"name": "look"}}


@requirement("PAR-201")
@both_modes
@pytest.mark.parametrize("choice", [None, "auto"], ids=["unsaid", "auto"])
def test_tools_are_taken(case, choice, streamed):
    reply = case.asking.post(tools=TOOLS, tool_choice=choice, max_tokens=1, stream=streamed)
    expect(
        reply.status == 200,
        "status 200 to a request with tools (vLLM: start it with --enable-auto-tool-choice and --tool-call-parser NAME)",
        f"status {reply.status}: {reply.body.decode(errors='replace')}",
    )


TRIES = 32
"""So often a forced call is sampled until its marks are whole."""


def called(case, count, streamed):
    """A reply in which so many calls were sampled, which must then be told as calls, and the calls if they are known."""
    if case.can.refusal is not None:
        raise NotExercised(case.can.refusal)
    way = case.can.forced_calls(count) or case.can.calling(min(count, 2))
    choice = case.ask(way, streamed=streamed).only
    for seed in range(TRIES):
        if choice.calls or not way.calls or case.can.marked(way, choice.ids or ()):
            return choice, way.calls
        choice = case.ask(way, streamed=streamed, seed=seed).only
    raise NotExercised("the forced call came in other pieces than the model's own, and as such it is told as text")


@requirement("PAR-202")
@both_modes
def test_a_sampled_call_is_told_as_a_call(case, streamed):
    choice, _ = called(case, 1, streamed)
    remedy = "as the model's template writes it (vLLM: start it with the --tool-call-parser of this model)"
    expect(choice.calls, f"one tool call, {remedy}", f"no call, the text {choice.content!r}")
    for call in choice.calls:
        expect(isinstance(call.id, str) and call.id, "an id for the call", call)
        same(call.type, "function", "the type of the call")
        same(call.name, "bash", "the name of the tool")
        expect(call.name not in choice.content, "nothing of the call in the text", choice.content)


@requirement("PAR-203")
@both_modes
def test_the_arguments_arrive_as_they_were_sampled(case, streamed):
    way = case.can.calling()
    choice = case.ask(way, streamed=streamed).only
    expect(choice.calls, "a tool call", choice.content)
    for call in choice.calls:
        expect(isinstance(call.value, dict) and call.value, "an object with the arguments", call.arguments)
    same(
        [call.value for call in choice.calls],
        [dict(arguments) for _, arguments in way.calls] or [call.value for call in choice.calls],
        "the arguments",
    )


@requirement("PAR-204")
@both_modes
def test_every_call_of_a_conversation_has_an_id_of_its_own(case, streamed):
    way = case.can.calling()
    messages = [{"role": "user", "content": PROMPT}]
    ids = []
    for _ in range(3):
        choice = case.ask(streamed=streamed, **{**way.fields, "messages": messages}).only
        ids += [call.id for call in choice.calls]
        results = [{"role": "tool", "tool_call_id": call.id, "content": "pear"} for call in choice.calls]
        messages = [*messages, choice.message(), *results]
    if len(ids) < 2:
        raise NotExercised("the model made fewer than two calls in a conversation")
    expect(all(isinstance(each, str) and each for each in ids), "an id for every call", ids)
    same(len(set(ids)), len(ids), f"ids of their own among {ids}")


@requirement("PAR-205")
@both_modes
def test_parallel_calls_are_all_told_in_their_order(case, streamed):
    choice, calls = called(case, 3, streamed)
    expected = len(calls) or 2
    expect(len(choice.calls) >= expected, f"{expected} calls", f"{len(choice.calls)} calls, the text {choice.content!r}")
    if calls:
        same([(call.name, call.value) for call in choice.calls], [(name, dict(value)) for name, value in calls], "the calls")
    ids = [call.id for call in choice.calls]
    same(len(set(ids)), len(ids), f"ids of their own among {ids}")


@requirement("PAR-206")
@both_modes
def test_tool_choice_none_gives_no_call(case, streamed):
    way = case.can.calling()
    choice = case.ask(way, streamed=streamed, tool_choice="none").only
    same([call.name for call in choice.calls], [], "calls although tool_choice is none")


def chosen(case, streamed, choice):
    if case.can.refusal is not None:
        raise NotExercised(case.can.refusal)
    reply = case.asking.post(tools=STRICT_TOOLS, tool_choice=choice, max_tokens=1)
    if reply.status == 400 and "tool_choice asks for" in reply.body.decode(errors="replace"):
        raise NotExercised("the engine follows a script that has no such call")
    said = case.ask(
        streamed=streamed,
        tools=STRICT_TOOLS,
        tool_choice=choice,
        max_tokens=400,
        temperature=0.0,
        messages=[{"role": "user", "content": PROMPT}],
    )
    if not said.only.calls and said.only.finish == "length":
        raise NotExercised("the model did not come to the end of its call within 400 tokens")
    return said.only


@requirement("PAR-207")
@both_modes
def test_tool_choice_required_gives_a_call(case, streamed):
    choice = chosen(case, streamed, "required")
    expect(choice.calls, "a call", choice.content)
    same([call.name for call in choice.calls if call.name not in ("bash", "look")], [], "calls of tools that were not offered")


@requirement("PAR-208")
@both_modes
def test_a_named_tool_is_the_one_that_is_called(case, streamed):
    choice = chosen(case, streamed, NAMED)
    expect(choice.calls, "a call", choice.content)
    same({call.name for call in choice.calls}, {"look"}, "the tools that were called")


@requirement("PAR-209")
@both_modes
def test_parallel_tool_calls_false_gives_at_most_one(case, streamed):
    way = case.can.calling(2)
    choice = case.ask(way, streamed=streamed, parallel_tool_calls=False).only
    expect(len(choice.calls) <= 1, "at most one call", [call.name for call in choice.calls])
