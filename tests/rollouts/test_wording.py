"""What the engine says to a harness that takes its commands from text."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pytest_harness.rollouts.wording import worded, worded_facts
from pytest_harness.scenarios import Scenario, ScenarioStep
from pytest_harness.seams import AgentTable, Edit, Finish, NpmInstall, Seam, Shell

KEYS = '{"think": "{text_in_json}", "keys": "{command_in_json}\\n"}'


def seam(shell: Shell | None, finish: Finish = Finish()) -> Seam:  # noqa: B008 - frozen
    return Seam(
        name="mine",
        title="my agent",
        homepage="https://example.org",
        dialect="chat",
        streams=True,
        scenarios=("edit_file",),
        install=NpmInstall(kind="npm", package="mine", version="1", node="24.19.0", commands={"mine": "x"}),
        agent=AgentTable(command="mine {instruction}"),
        shell=shell,
        finish=finish,
    )


def scenario(*steps: ScenarioStep) -> Scenario:
    return Scenario(name="it", title="It", task=Path("it"), steps=(*steps, ScenarioStep("Done.", (), ())), reward=1.0)


def texts(played: Scenario) -> list[str]:
    assert not any(step.shell for step in played.steps)
    return [step.text for step in played.steps]


def test_a_harness_with_a_shell_tool_is_told_the_scenario_as_it_is():
    told = scenario(ScenarioStep("I look.", ("ls",), ("",)))
    row = seam(Shell(tool="bash"), Finish(command="echo END"))
    assert worded(told, row) is told
    assert worded_facts(told, row) == told.facts


def test_a_command_stands_in_the_text_with_what_is_said_besides():
    told = scenario(ScenarioStep("I look.", ("ls",), ("",)))
    assert texts(worded(told, seam(Shell(text="{text} Run: {command}")))) == ["I look. Run: ls", "Done."]


def test_several_commands_of_a_step_are_several_texts():
    told = scenario(ScenarioStep("", ("left", "right"), ("", "")))
    assert texts(worded(told, seam(Shell(text="Run: {command}"))))[0] == "Run: left\n\nRun: right"


def test_the_command_that_ends_a_run_is_said_in_text_too():
    row = seam(Shell(text="{text} Run: {command}"), Finish(command="echo END"))
    assert texts(worded(scenario(), row)) == ["Done. Run: echo END"]


def test_an_end_that_has_to_be_confirmed_is_a_turn_more_of_the_script():
    told = scenario(ScenarioStep("", ("ls",), ("",)))
    row = seam(Shell(text=KEYS), Finish(text='{"done": true, "why": "{text_in_json}"}', times=2))
    assert texts(worded(told, row))[1:] == ['{"done": true, "why": "Done."}'] * 2
    assert worded_facts(told, row).steps == 3
    assert worded_facts(told, row).shell_commands == told.facts.shell_commands
    assert (worded_facts(told, row).turns, worded_facts(replace(told, turns=(1, 4)), row).turns) == (None, (1, 5))


def test_a_file_stands_in_the_text_below_its_name():
    told = scenario(ScenarioStep("I write.", files=(("a.txt", "42\n"), ("b.txt", "43\n"))))
    row = seam(None).model_copy(update={"edit": Edit(text="{path}\n```\n{content}```")})
    assert texts(worded(told, row)) == ["a.txt\n```\n42\n```\n\nb.txt\n```\n43\n```", "Done."]


@given(st.text(min_size=1), st.text())
def test_for_every_command_and_text_a_template_of_json_gives_json_that_says_both(command: str, text: str):
    said = texts(worded(scenario(ScenarioStep(text, (command,), ("",))), seam(Shell(text=KEYS))))[0]
    assert json.loads(said) == {"think": text, "keys": f"{command}\n"}


@given(st.text(min_size=1))
def test_for_every_command_a_plain_template_says_it_as_it_is(command: str):
    told = scenario(ScenarioStep("", (command,), ("",)))
    assert texts(worded(told, seam(Shell(text="Run: {command}"))))[0] == f"Run: {command}"


def test_a_text_that_a_variant_lays_over_the_rows_tool_is_what_is_said():
    told = scenario(ScenarioStep("", ("ls",), ("",)))
    assert texts(worded(told, seam(Shell(tool="bash", text="Run: {command}"), Finish(command="echo END")))) == ["Run: ls", "Run: echo END"]


def test_a_shell_that_can_be_run_in_no_way_is_refused():
    with pytest.raises(ValidationError, match="neither of tool and text"):
        Shell(argument="command")
