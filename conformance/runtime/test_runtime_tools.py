"""RUN: whatever the model writes is answered to the model, and only what the environment offers is called."""

import pytest

from pytest_harness.runtimes.adapter import Result, Tool, ToolCall
from pytest_harness.runtimes.pairing import turns
from pytest_harness.runtimes.script import TOOLS, call, say, seen_of
from pytest_harness.runtimes.subject import GRADED
from pytest_harness.session.case_marks import requirement
from pytest_harness.wire.outcome import expect, same

RESERVED = ("reset", "step", "state", "close")
each_reserved = pytest.mark.parametrize("name", RESERVED)


@requirement("RUN-008")
def test_an_unknown_tool_is_told_and_the_episode_goes_on(case):
    played = case.play(say("", call("a", "one", "no_such_tool"), call("b", "two")))
    played.goes_on(2)
    expect(played.answer(0).strip(), "a word about the unknown tool", repr(played.answer(0)))
    expect(seen_of("two") in played.answer(0, 1), "the result of the call beside it", played.answer(0, 1))
    case.reward_is(played, GRADED)


@requirement("RUN-009")
@pytest.mark.parametrize("arguments", ['{"text": "on', "not json", '[{"text": "one"}]', '"one"', "3"])
def test_arguments_that_are_no_object_are_told_and_never_repaired(case, arguments):
    played = case.play(say("", ToolCall("a", "look", arguments), call("b", "two")))
    played.goes_on(2)
    expect(played.answer(0).strip(), "a word about the arguments", repr(played.answer(0)))
    same([dict(made.arguments) for made in played.made], [{"text": "two"}], "arguments that reached the environment")


@requirement("RUN-010")
def test_what_a_tool_says_of_its_failure_is_told(case):
    played = case.play(say("", call("a", "one")), results=[Result(error="the lamp is out")])
    played.goes_on(2)
    expect("the lamp is out" in played.answer(0), "the tool's own words: the lamp is out", played.answer(0))


@requirement("RUN-011")
@pytest.mark.parametrize(
    "error", [RuntimeError("the lamp is out"), TimeoutError("no answer"), ValueError("no such place")], ids=lambda e: type(e).__name__
)
def test_a_tool_that_raises_is_told_and_the_episode_goes_on(case, error):
    played = case.play(say("", call("a", "one"), call("b", "two")), results=[error])
    played.goes_on(2)
    expect(played.answer(0).strip(), "a word about the failure", repr(played.answer(0)))
    expect(seen_of("two") in played.answer(0, 1), "the result of the call beside it", played.answer(0, 1))


@requirement("RUN-012")
@each_reserved
def test_a_reserved_name_is_never_offered_to_the_agent(case, name):
    played = case.play(say("", call("a", "one")), tools=[*TOOLS, Tool(name)])
    offered = sorted({tool.name for asked in played.asked for tool in asked.tools})
    expect(name not in offered, f"no tool {name} among those that the model was shown", offered)


@requirement("RUN-013")
@each_reserved
@pytest.mark.parametrize("offered", [False, True], ids=["not-offered", "offered"])
def test_a_reserved_name_that_the_model_calls_never_reaches_the_environment(case, name, offered):
    played = case.play(say("", call("a", "one", name)), tools=[*TOOLS, Tool(name)] if offered else TOOLS)
    expect(all(made.name != name for made in played.made), f"no call of {name}", [made.name for made in played.made])


@requirement("RUN-014")
def test_the_model_is_offered_what_the_environment_offers(case):
    played = case.play(say("", call("a", "one")))
    expect(played.asked, "a model that is asked", played.told)
    for number, asked in enumerate(played.asked, start=1):
        same([tool.name for tool in asked.tools], [tool.name for tool in TOOLS], f"tools at step {number}")


@requirement("RUN-015")
def test_the_model_is_shown_what_it_said_and_what_came_of_it(case):
    steps = [say("I look.", call("a", "one")), say("", call("b", "two", "write"), call("c", "three")), say("I stop.")]
    played = case.play(*steps)
    played.goes_on(3)
    for messages in (played.asked[2].messages, played.episode.messages):
        said = turns(messages)
        for seen, step in zip(said, steps, strict=False):
            same(
                (seen.text, [each.name for each in seen.calls]), (step.text, [each.name for each in step.calls]), "text and calls of a step"
            )
    same(len(turns(played.asked[2].messages)), 2, "steps that the model is shown before its third")
    same(len(turns(played.episode.messages)), 3, "steps in the record")


@requirement("RUN-016")
@pytest.mark.parametrize(
    "arguments",
    ['{"text":"one"}', '{ "text" : "one" }', '{"text": "caf\u00e9"}', '{"text": "caf\\u00e9"}', '{"b": 1.0, "a": 1e2}'],
    ids=["compact", "spaced", "utf-8", "escaped", "numbers"],
)
def test_arguments_come_back_as_the_model_wrote_them(case, arguments):
    played = case.play(say("", ToolCall("a", "look", arguments)))
    played.goes_on(2)
    same(
        [each.arguments for message in turns(played.asked[1].messages) for each in message.calls],
        [arguments],
        "arguments in the next prompt",
    )
