"""Harnesses with one habit each are found out, without a row, by running them in the sandbox."""

from __future__ import annotations

import io
import tomllib
from pathlib import Path

import pytest
from rich.console import Console

from pytest_harness.discovery.command import Asked, new_row
from pytest_harness.seams import SeamError, SeamTable

FAKE = "#!/usr/bin/python3\n" + Path(__file__).with_name("fake_harness.py").read_text()
ACME = ["ACME_BASE_URL", "ACME_API_KEY", "ACME_MODEL"]


@pytest.fixture
def discovered(tmp_path):
    """Runs ``new-seam fake --discover`` on a fake harness with these traits; gives the row, its text, and what was said meanwhile."""

    def run(tries: int = 4, line: str = "", limit_sec: float = 30.0, **traits):
        program = tmp_path / "fake-harness" / "bin" / "fake"
        program.parent.mkdir(parents=True)
        program.write_text(FAKE.replace("TRAITS = {}", f"TRAITS = {traits!r}"))
        program.chmod(0o755)
        said = io.StringIO()
        asked = Asked("fake", command=f"{program}{line}", discover=True, tries=tries, limit_sec=limit_sec)
        text = new_row(asked, Console(file=said, width=200))
        (tmp_path / "seams").mkdir()
        (tmp_path / "seams" / "fake.toml").write_text(text)
        return SeamTable.load(tmp_path / "seams")["fake"], text, said.getvalue()

    return run


def test_variables_of_its_own_are_found_by_their_names_in_its_files(discovered):
    seam, text, said = discovered(variables=ACME)
    assert seam.agent.env == {"ACME_BASE_URL": "{url}/v1", "ACME_API_KEY": "{key}", "ACME_MODEL": "{model}"}
    assert seam.agent.command == "fake exec --yolo --prompt {instruction}"
    assert (seam.dialect, seam.streams) == ("chat", False)
    assert "2 model calls, not streamed, on /v1/chat/completions, key in authorization; 0 side calls" in text
    assert "Not moved by OPENAI_BASE_URL" in text
    assert said.count("\n") == 4


def test_the_shell_is_chosen_with_what_its_schema_requires(discovered):
    seam, text, _ = discovered(variables=ACME, tries=2)
    assert (seam.shell.tool, seam.shell.argument, seam.shell.extra) == ("execute_shell", "cmd", {"risk": "LOW"})
    assert "the scripted command ran, and its result came back" in text


def test_its_log_and_its_end_are_found(discovered):
    seam, text, _ = discovered(variables=ACME, tries=2)
    assert seam.native.log == "~/.fake/sessions"
    assert "it ended by itself after a reply without a tool call, with exit code 0" in text
    assert seam.finish.command is None


def test_another_dialect_is_known_by_what_it_asks_for(discovered):
    variables = ["ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_MODEL"]
    seam, text, _ = discovered(variables=variables, anthropic=True, tries=2)
    assert seam.dialect == "messages"
    assert seam.agent.env["ANTHROPIC_BASE_URL"] == "{url}"
    assert "key in x-api-key" in text


def test_a_config_file_is_tried_where_its_files_speak_of_one(discovered):
    seam, _, _ = discovered(file="models.json openai-completions baseUrl", tries=6)
    assert list(seam.agent.files) == ["~/.fake/agent/models.json"]
    assert '"baseUrl": "{url}/v1"' in seam.agent.files["~/.fake/agent/models.json"]


def test_hosts_that_it_looks_for_are_named(discovered):
    _, text, _ = discovered(variables=ACME, hosts=["telemetry.example.org"], tries=2)
    assert "It asked for telemetry.example.org" in text


def test_side_calls_are_counted(discovered):
    _, text, _ = discovered(variables=ACME, title=True, tries=2)
    assert "3 model calls, not streamed" in text
    assert "1 side call" in text


def test_a_switch_that_it_needs_is_kept_and_no_other(discovered):
    seam, _, _ = discovered(variables=ACME, switch="FAKE_CONFIGURED", unused="FAKE_OFFLINE", tries=6)
    assert seam.agent.env["FAKE_CONFIGURED"] == "true"
    assert "FAKE_OFFLINE" not in seam.agent.env


@pytest.mark.parametrize("gives_up", [0, 1])
def test_a_command_that_ends_it_is_taken_from_its_prompt(discovered, gives_up):
    seam, text, _ = discovered(variables=ACME, finish="ALL_IS_DONE", gives_up=gives_up, tries=3)
    assert seam.finish.command == "echo ALL_IS_DONE"
    assert "ended by itself by echo ALL_IS_DONE, which its prompt names" in text


def test_the_user_may_say_how_it_is_started(discovered):
    seam, _, said = discovered(
        variables=["OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL"], line=" exec --prompt {instruction}", tries=2
    )
    assert seam.agent.command == "fake exec --prompt {instruction}"
    assert "--yolo" not in said


def test_where_nothing_moves_it_one_sentence_says_what_was_tried_and_what_to_do(discovered):
    with pytest.raises(
        SeamError, match=r"^nothing moved the traffic of fake to the proxy in \d+ tries; it says: No API key was found\.; .*--command"
    ) as error:
        discovered(variables=["NOWHERE", "TO_BE", "SEEN"], tries=9)
    assert "\n" not in str(error.value)


def test_one_that_hangs_is_ended_at_its_limit(discovered):
    with pytest.raises(SeamError, match=r"in 2 tries; it says: nothing"):
        discovered(hangs=True, tries=2, limit_sec=1.0)


def test_the_number_of_tries_bounds_all_of_it(discovered):
    _, _, said = discovered(variables=ACME, tries=3)
    assert [line.partition(":")[0] for line in said.splitlines()] == ["try 1", "try 2", "try 3"]


def test_many_switches_are_told_as_a_number(discovered):
    _, _, said = discovered(variables=ACME, tries=1, mentioned=[f"ACME_{letter}_OFFLINE" for letter in "ABCDE"])
    assert " channels and 5 switches for a run without a person: " in said


def test_the_row_is_plain_toml_that_says_the_same(discovered):
    seam, text, _ = discovered(variables=ACME, tries=2)
    assert tomllib.loads(text)["agent"]["env"] == seam.agent.env
