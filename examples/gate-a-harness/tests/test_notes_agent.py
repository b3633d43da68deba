"""Tests of the agent's own code, as any repository has them."""

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[1] / "bin" / "notes-agent"


@pytest.fixture
def agent():
    loader = SourceFileLoader("notes_agent", str(PROGRAM))
    module = module_from_spec(spec_from_loader("notes_agent", loader))
    loader.exec_module(module)
    return module


def test_a_result_names_the_use_that_it_answers(agent):
    told = agent.result({"id": "toolu_1", "input": {"command": "echo hello"}})
    assert told == {"type": "tool_result", "tool_use_id": "toolu_1", "content": "hello\n", "is_error": False}


def test_a_command_that_fails_is_told_as_an_error(agent):
    assert agent.result({"id": "toolu_1", "input": {"command": "exit 3"}})["content"] == "exit code 3"


def test_it_goes_on_until_a_reply_uses_no_tool(agent, monkeypatch):
    use = {"type": "tool_use", "id": "toolu_1", "name": "shell", "input": {"command": "true"}}
    replies = iter([[use], [{"type": "text", "text": "Done."}]])
    monkeypatch.setattr(agent, "ask", lambda _: next(replies))
    assert [message["role"] for message in agent.work("Do it.")] == ["user", "assistant", "user", "assistant"]
