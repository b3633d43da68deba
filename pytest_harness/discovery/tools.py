"""Which of the tools that a harness offers runs a shell command, by its name and its schema."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_harness.evidence import Call
from pytest_harness.seams.rows import Shell

_ARGUMENTS = ("command", "cmd", "command_line", "commandline", "line", "script", "shell_command", "code", "input")
"""Names of the argument that takes the command line, the likeliest first."""
_SHELL_WORDS = frozenset({"bash", "shell", "terminal", "sh", "console"})
_RUN_WORDS = frozenset({"execute", "exec", "run", "command", "cmd", "commands"})
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_PLAIN: Mapping[str, Any] = {"string": "", "integer": 60, "number": 60, "boolean": False, "array": [], "object": {}}


@dataclass(frozen=True)
class Offered:
    """One tool of a request: its name, what it says of itself, and the JSON Schema of its arguments."""

    name: str
    description: str
    properties: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    required: Sequence[str] = ()


def offered(calls: Sequence[Call]) -> tuple[Offered, ...]:
    """The tools of the call that offers the most of them, as the engine was told."""
    return max((tuple(_read(call)) for call in calls), key=len, default=())


def shells(tools: Sequence[Offered]) -> tuple[Shell, ...]:
    """Those that may run a shell command, the likeliest first; none where no name or argument speaks for it."""
    rated = [(points, tool, argument) for tool in tools for points, argument in [_rate(tool)] if points]
    rated.sort(key=lambda each: -each[0])
    return tuple(Shell(tool=tool.name, argument=argument, extra=_extra(tool, argument)) for _, tool, argument in rated)


def _rate(tool: Offered) -> tuple[int, str]:
    texts = [name for name, schema in tool.properties.items() if _takes_text(schema)]
    argument = next((name for name in _ARGUMENTS if name in texts), "")
    words = {word.lower() for word in _WORDS.findall(tool.name)}
    if not argument and len(texts) == 1 and words & _SHELL_WORDS:
        argument = texts[0]
    if not argument:
        return 0, ""
    points = 4 * bool(words & _SHELL_WORDS) + 2 * bool(words & _RUN_WORDS) + 2 * (argument in _ARGUMENTS[:4])
    told = tool.description.lower()
    points += ("bash" in told or "shell" in told) + ("command" in told)
    return (points, argument) if points >= 4 else (0, "")


def _takes_text(schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    return (kind == "string" or (isinstance(kind, list) and "string" in kind)) and "enum" not in schema


def _extra(tool: Offered, argument: str) -> dict[str, Any]:
    """A plain value for each further argument that the schema requires."""
    return {name: _plain(name, tool.properties.get(name, {})) for name in tool.required if name != argument}


def _plain(name: str, schema: Mapping[str, Any]) -> Any:
    for key in ("const", "default"):
        if schema.get(key) is not None:
            return schema[key]
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    return name if kind == "string" else _PLAIN.get(str(kind), "")


def _read(call: Call) -> Iterator[Offered]:
    try:
        body = json.loads(call.forwarded.body) if call.forwarded else {}
    except ValueError:
        return
    for tool in body.get("tools") or ():
        function = tool.get("function") or {}
        parameters = function.get("parameters") or {}
        properties = {name: schema for name, schema in (parameters.get("properties") or {}).items() if isinstance(schema, dict)}
        yield Offered(
            str(function.get("name")), str(function.get("description") or ""), properties, tuple(parameters.get("required") or ())
        )
