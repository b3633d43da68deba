"""A harness that ends by a call of a tool of its own gets that call with the last words, and with every answer after them."""

import pytest

from pytest_harness.engines.scripted import OtherCall, Script, ScriptError, ShellTool, Step
from pytest_harness.engines.scripted.script import ScriptMismatchError
from pytest_harness.rollouts.rollout import script_of
from pytest_harness.rollouts.spec import RolloutSpec
from pytest_harness.scenarios import ScenarioTable
from pytest_harness.seams import Finish, SeamTable

STEPS = (Step("", ("make",)), Step("Done."))
SUBMIT = OtherCall("submit", {"summary": "Done."})
USER = {"role": "user", "content": "Make it."}
TURN = [{"role": "assistant", "content": None}, {"role": "tool", "content": "x"}]
OFFERED = {"bash": None, "submit": None}


def script(steps=STEPS) -> Script:
    return Script(steps, ShellTool("bash", "command"), finish_call=SUBMIT)


def test_the_call_comes_with_the_last_step_and_every_one_after_it():
    turns = [script().turn([USER] + TURN * done, OFFERED, None) for done in range(4)]
    assert turns[0].calls == (("bash", {"command": "make"}),)
    assert [(turn.text, turn.calls) for turn in turns[1:]] == [("Done.", (("submit", {"summary": "Done."}),))] * 3


def test_a_harness_that_does_not_offer_the_tool_is_told_so():
    with pytest.raises(ScriptMismatchError, match="The script calls the tool `submit`, but the request offers only: bash"):
        script().turn([USER, *TURN], {"bash": None}, None)


def test_a_last_step_may_be_the_call_alone():
    assert script((Step("", ("make",)), Step(""))).turn([USER, *TURN], OFFERED, None).calls == (("submit", {"summary": "Done."}),)


def test_what_no_tokenizer_may_see_is_refused_in_the_call_too():
    with pytest.raises(ScriptError, match="the finish call"):
        Script(STEPS, ShellTool("bash", "command"), finish_call=OtherCall("submit", {"summary": "\ud800"}))


def test_the_rows_arguments_hold_what_is_said_last():
    row = SeamTable.load()["pi"].model_copy(update={"finish": Finish(tool="submit", arguments={"summary": "So: {text}", "sure": True})})
    scenario = ScenarioTable.load()["edit_file"]
    made = script_of(RolloutSpec(row, "local", "scripted", scenario, 1))
    assert made.finish_call == OtherCall("submit", {"summary": f"So: {scenario.steps[-1].text}", "sure": True})


@pytest.mark.parametrize(("scenario", "sums_up"), [("context_overflow", True), ("compaction", True), ("edit_file", False)])
def test_only_where_histories_are_summed_up_is_a_summary_written(scenario, sums_up):
    made = script_of(RolloutSpec(SeamTable.load()["claude-code"], "local", "scripted", ScenarioTable.load()[scenario], 1))
    assert (made.sums_up, "still this one" in made.side_answer) == (sums_up, sums_up)
