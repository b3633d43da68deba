"""Which tool is taken for the shell, by its name and schema."""

import pytest

from pytest_harness.discovery.tools import Offered, shells


def tool(name: str, description: str = "", required: tuple[str, ...] = (), **properties: dict) -> Offered:
    return Offered(name, description, properties, required)


TEXT = {"type": "string"}
READ = tool("read_file", "Read a file.", path=TEXT)


@pytest.mark.parametrize(
    ("offered", "argument"),
    [
        (tool("bash", command=TEXT), "command"),
        (tool("run_shell_command", command=TEXT, directory=TEXT), "command"),
        (tool("exec_command", "Runs a command in a PTY.", cmd=TEXT), "cmd"),
        (tool("Bash", command=TEXT), "command"),
        (tool("run", "Run a shell command.", line=TEXT), "line"),
        (tool("terminal", instruction=TEXT), "instruction"),
        (tool("execute", "", command={"type": ["string", "null"]}), "command"),
    ],
)
def test_tools_of_real_harnesses_are_known_as_shells(offered, argument):
    assert [(shell.tool, shell.argument) for shell in shells([READ, offered])] == [(offered.name, argument)]


@pytest.mark.parametrize(
    "offered",
    [
        READ,
        tool("edit", "Edit a file.", path=TEXT, old=TEXT, new=TEXT),
        tool("search", "Search the web.", input=TEXT),
        tool("shell", command={"type": "array"}),
        tool("slash_command", "Pick one.", command={"type": "string", "enum": ["/help"]}),
        tool("apply_patch", "Apply a patch.", input=TEXT),
    ],
)
def test_other_tools_are_not(offered):
    assert shells([offered]) == ()


def test_the_likeliest_comes_first():
    offered = [tool("run_command_later", command=TEXT), tool("bash", "Run bash.", command=TEXT), READ]
    assert [shell.tool for shell in shells(offered)] == ["bash", "run_command_later"]


def test_what_else_the_schema_requires_gets_a_plain_value():
    offered = tool(
        "bash",
        command=TEXT,
        risk={"type": "string", "enum": ["LOW", "HIGH"]},
        timeout={"type": "integer"},
        background={"type": "boolean", "default": True},
        why=TEXT,
        optional=TEXT,
        required=("command", "risk", "timeout", "background", "why"),
    )
    assert shells([offered])[0].extra == {"risk": "LOW", "timeout": 60, "background": True, "why": "why"}
