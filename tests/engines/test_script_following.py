"""Which turn a request gets, and which scripts and requests are refused."""

import json
from dataclasses import replace

import pytest

from pytest_harness.engines.scripted import OtherCall, Script, ScriptError, ShellTool, Step
from pytest_harness.engines.scripted.script import SIDE_ANSWER, ScriptMismatchError, Turn
from pytest_harness.engines.scripted.tokenizer import ChatTokenizer

STEPS = [("Look.", ["ls", "pwd"]), ("", ["make"]), ("Done.", [])]
USER = {"role": "user", "content": "Make it."}
ASSISTANT = {"role": "assistant", "content": None}
TOOL = {"role": "tool", "content": "x"}


def script(*, sums_up=False, **options):
    return replace(Script.for_seam(STEPS, **{"shell_tool": "bash", **options}), sums_up=sums_up)


def user(*texts):
    return {"role": "user", "content": [{"type": "text", "text": text} for text in texts]}


def conversation(turns):
    return [USER] + [ASSISTANT, TOOL] * turns


@pytest.mark.parametrize(
    ("done", "turn"),
    [
        (0, Turn("Look.", (("bash", {"command": "ls"}), ("bash", {"command": "pwd"})))),
        (1, Turn("", (("bash", {"command": "make"}),))),
        (2, Turn("Done.")),
        (3, Turn("Done.")),
        (9, Turn("Done.")),
    ],
)
def test_the_number_of_assistant_messages_is_the_number_of_the_step(done, turn):
    assert script().turn(conversation(done), dict.fromkeys(["read", "bash"]), None) == turn


def test_a_finish_command_comes_with_the_last_step_and_every_one_after_it():
    finish = Turn("Done.", (("bash", {"command": "echo END"}),))
    turns = [script(finish_command="echo END").turn(conversation(done), dict.fromkeys(["bash"]), "auto") for done in range(5)]
    assert [len(turn.calls) for turn in turns] == [2, 1, 1, 1, 1]
    assert turns[2] == turns[3] == turns[4] == finish


def test_the_seams_names_and_extra_arguments_are_used_in_order():
    turn = script(shell_tool="run", shell_argument="cmd", extra={"timeout": 5, "background": False}).turn(
        conversation(1), dict.fromkeys(["run"]), None
    )
    ((name, arguments),) = turn.calls
    assert (name, list(arguments.items())) == ("run", [("cmd", "make"), ("timeout", 5), ("background", False)])


@pytest.mark.parametrize(("offered", "choice"), [([], None), (["bash"], "none")])
def test_a_request_that_cannot_call_tools_is_a_side_call(offered, choice):
    assert script().turn([USER], dict.fromkeys(offered), choice) == Turn(SIDE_ANSWER)


def test_an_instruction_is_known_where_the_harness_escapes_its_quotation_marks():
    with_instruction = script(instruction='Write the word "left".\n')
    told = {"role": "user", "content": '"Write the word \\"left\\".\n"'}
    assert with_instruction.turn([told], dict.fromkeys(["bash"]), None).calls


def test_a_conversation_without_the_instruction_is_a_side_call():
    with_instruction = script(instruction="Make it.\n")
    parts = {"role": "user", "content": [{"type": "text", "text": "<task>Make it.</task>"}]}
    assert with_instruction.turn([parts], dict.fromkeys(["bash"]), None).calls
    assert with_instruction.turn([{"role": "user", "content": "Give this a title."}], dict.fromkeys(["bash"]), None) == Turn(SIDE_ANSWER)


def test_a_side_call_that_asks_for_json_of_a_shape_gets_the_least_of_that_shape():
    """As gemini-cli asks whether its agent goes round in circles."""
    properties = {
        "analysis": {"type": "string"},
        "confidence": {"type": "number"},
        "kind": {"enum": ["one", "other"]},
        "either": {"anyOf": [{"type": ["boolean", "null"]}]},
        "rest": {"type": "array", "items": {"type": "string"}},
        "least": {"type": "integer", "minimum": 3},
        "more": {"type": "object"},
        "nothing": {"type": "null"},
        "any": True,
    }
    told = script().turn([USER], {}, None, {"type": "object", "properties": properties}).text
    values = [SIDE_ANSWER, 0, "one", False, [], 3, {}, None, SIDE_ANSWER]
    assert json.loads(told) == dict(zip(properties, values, strict=True))


def test_what_the_model_thinks_and_says_behind_its_calls_is_sampled_too():
    step = Step("I look.", ("ls",), reasoning="Where am I?", then="That was it.")
    turn = Script((step, Step("Done.")), ShellTool("bash", "command")).turn([USER], {"bash": None}, None)
    said = turn.said(ChatTokenizer.bundled())
    assert said.startswith("<think>\nWhere am I?\n</think>\n\nI look.\n<tool_call>")
    assert said.endswith("</tool_call>\nThat was it.")


def test_a_subagent_follows_a_script_of_its_own():
    """Its conversation is known by what it is asked; what is nobody's is still answered in words."""
    shell = ShellTool("bash", "command")
    errand = Script((Step("", ("expr 6 + 1",)), Step("It is seven.")), shell, instruction="Add them.")
    delegating = Step("Ask.", calls=(OtherCall("Task", {"prompt": "Add them."}),))
    agent = Script((delegating, Step("Done.")), shell, instruction="Make it.", others=(errand,), side_answer="So far: Make it.")
    tools = {"bash": None, "Task": None}
    assert agent.turn([USER], tools, None) == Turn("Ask.", (("Task", {"prompt": "Add them."}),))
    asked = {"role": "user", "content": "Add them."}
    assert agent.turn([asked], tools, None) == Turn("", (("bash", {"command": "expr 6 + 1"}),))
    assert agent.turn([asked, ASSISTANT, TOOL], tools, None) == Turn("It is seven.")
    assert (agent.position([USER, ASSISTANT], tools, None), agent.position([asked], tools, None)) == (1, None)
    assert agent.turn([{"role": "user", "content": "Name it."}], tools, None) == Turn("So far: Make it.")
    with pytest.raises(ScriptMismatchError, match="calls the tool `Task`, but the request offers only: bash"):
        agent.turn([USER], {"bash": None}, None)


@pytest.mark.parametrize(
    ("sums_up", "messages", "aside"),
    [
        (True, [USER, ASSISTANT, TOOL, {"role": "user", "content": "Summarize it."}], True),
        (True, [USER, ASSISTANT, TOOL, user("Write a handoff summary.")], True),
        (True, [{"role": "user", "content": "So far: Make it."}, {"role": "user", "content": "Summarize it."}], True),
        (True, [user("Make it.", "Summarize it.")], True),
        (True, [user("A summary.", "Make it.")], False),
        (True, [user("Make it.", "This was a summary.", "Go on.")], False),
        (True, [], False),
        (False, [USER, ASSISTANT, TOOL, {"role": "user", "content": "Summarize it."}], False),
        (True, [USER, ASSISTANT, TOOL, {"role": "user", "content": "Go on."}], False),
        (True, [USER, ASSISTANT, {"role": "tool", "content": "a summary"}], False),
        (True, [{"role": "user", "content": "Make it. Then write a summary."}], False),
    ],
)
def test_a_user_who_asks_for_a_summary_gets_it_though_tools_are_offered(sums_up, messages, aside):
    """Where histories are summed up. On the messages' wire what the user says in a row is one message, of several texts."""
    turn = script(sums_up=sums_up, instruction="Make it." if messages else None).turn(messages, {"bash": None}, None)
    assert (turn == Turn(SIDE_ANSWER), bool(turn.calls)) == (aside, not aside)


def test_a_script_without_commands_needs_no_tools():
    assert Script.for_seam([("Hello.", [])]).turn([USER], dict.fromkeys([]), None) == Turn("Hello.")


def test_a_request_for_a_call_of_its_own_tool_is_a_side_call_that_gets_it():
    title = {"role": "user", "content": "Make it. Give this a title."}
    assert script().turn([title], {"title": ("title",)}, "title") == Turn("", (("title", {"title": SIDE_ANSWER}),))
    assert script().position([title], {"title": ("title",)}, "title") is None


@pytest.mark.parametrize(
    ("done", "offered", "choice", "said"),
    [
        (0, ["read", "edit"], None, "calls the tool `bash`, but the request offers only: read, edit"),
        (0, ["bash", "title"], "title", "asks for `title`"),
        (2, ["bash"], "required", "turn 3 of the script has none"),
    ],
)
def test_a_request_without_an_answer_is_refused_in_a_sentence(done, offered, choice, said):
    with pytest.raises(ScriptMismatchError, match=said):
        script().turn(conversation(done), dict.fromkeys(offered), choice)


def test_a_tool_without_the_seams_argument_is_refused_in_a_sentence():
    with pytest.raises(ScriptMismatchError, match="with the argument `command`, but it takes only: script, timeout"):
        script().turn(conversation(0), {"bash": ("script", "timeout")}, None)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Script.for_seam([]), "no steps"),
        (lambda: Script.for_seam([("", [])]), "step 1 of the script has neither text nor a command"),
        (lambda: Script.for_seam([("", ["ls"])]), "no shell tool was named"),
        (lambda: Script.for_seam([("x", [])], finish_command="exit"), "no shell tool was named"),
        (lambda: Script.for_seam([("a <tool_call> b", [])]), "the text of step 1 contains <tool_call>"),
        (lambda: script(finish_command="echo '<|im_end|>'"), "the finish command contains <|im_end|>"),
        (lambda: script(extra={"why": "</think>"}), "the shell tool contains </think>"),
        (lambda: Script.for_seam([("x", ["echo \ud800"])], shell_tool="bash"), "a command of step 1 is not valid Unicode"),
    ],
)
def test_a_script_that_cannot_be_played_is_refused_in_a_sentence(make, said):
    with pytest.raises(ScriptError) as error:
        make()
    assert said in str(error.value)


def test_white_space_around_a_text_is_not_sampled():
    assert Script((Step(" \n Done. \n"),)).steps[0].text == "Done."
    assert ShellTool("bash", "command").arguments(" ls ") == {"command": " ls "}
