"""Tools of the Responses dialect as functions of a chat request, and the calls of those functions as Responses items.

=============================== =========================================================================================================
tool                            what becomes of it
=============================== =========================================================================================================
function                        a function
function or custom in namespace a function named ``namespace__name``; its call names both again
custom (free text)              a function with the one string argument ``input``; a grammar is told in the description, and noted
web search, image generation,   withheld from the model, noted, and left out of the reply's ``tools``: the vendor's server would run it,
tool search                     harnesses send it unasked, and work without it
any other                       refused: the harness counts on a tool that nobody here can run or describe
=============================== =========================================================================================================
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_harness.capture.dialects.base import RefusalError
from pytest_harness.capture.dialects.neutral import Json, expect, function_tool, named_choice, object_of
from pytest_harness.capture.dialects.responses_opaque import carried_by

WITHHELD = ("web_search", "image_generation", "tool_search")
"""The tools that are withheld; web search has variants with a longer name (``web_search_preview``, dated ones)."""

_INPUT: Json = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"], "additionalProperties": False}
_CARRIED = frozenset({"type", "name", "description", "parameters", "strict", "format", "tools"})
_HARMLESS: Mapping[str, tuple[object, ...]] = {"allowed_callers": (["direct"],), "async": (False,), "defer_loading": (False,)}


@dataclass(frozen=True)
class Tool:
    """A tool that the model is offered: how the harness names it, and how the engine is told."""

    name: str
    namespace: str | None
    custom: bool
    function: Json


def flat_name(name: str, namespace: object) -> str:
    """The name under which the engine knows a tool; letters, digits, ``_`` and ``-`` are all that every engine takes."""
    return f"{namespace}__{name}" if isinstance(namespace, str) and namespace else name


def custom_arguments(item: Mapping[str, Any], text: str) -> str:
    """The arguments that the model wrote for a custom call: those that the item's id carries, else the input in its plainest form."""
    carried = carried_by(item.get("id"))
    return plain_arguments(text) if carried is None else carried


def plain_arguments(text: str) -> str:
    """The arguments of a custom call in their plainest form."""
    return json.dumps({"input": text}, ensure_ascii=False)


def custom_input(arguments: str) -> str:
    """The input of a custom call; arguments that are not of that form are the input as they are, for nothing is repaired."""
    value = object_of(arguments)
    text = value.get("input") if value is not None and len(value) == 1 else None
    return text if isinstance(text, str) else arguments


class Toolbox:
    """The tools of one request, by the name that the engine knows."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self.tools: dict[str, Tool] = {}
        self._note = note

    def add(self, tools: object, where: str) -> list[Json]:
        """Take a list of tools, and give back those that are not withheld. ``where`` is the list's place. Raises RefusalError."""
        places = [(tool, f"{where}[{number}]") for number, tool in enumerate(expect(tools, list, where))]
        return [tool for tool, place in places if self._take(expect(tool, dict, place), place)]

    def choose(self, choice: object) -> str | Json | None:
        """The chat request's tool choice; ``allowed_tools`` leaves only those. Raises RefusalError."""
        if choice is None or choice in ("auto", "none"):
            return choice if self.tools else None
        if choice == "required":
            return self._demand("required")
        if not isinstance(choice, dict):
            raise RefusalError("tool_choice must be auto, none, required, or an object that names tools", "tool_choice")
        kind = choice.get("type")
        if kind in ("function", "custom"):
            return named_choice(self._find(choice, "tool_choice"))
        if kind == "allowed_tools":
            return self._allow(choice)
        raise RefusalError(f"tool_choice asks for a tool of type {kind}, which cannot be run here", "tool_choice")

    def _allow(self, choice: Json) -> str | Json | None:
        where = "tool_choice.tools"
        named: list[str] = []
        for number, tool in enumerate(expect(choice.get("tools"), list, where)):
            if expect(tool, dict, f"{where}[{number}]").get("type") in ("function", "custom"):
                named.append(self._find(tool, f"{where}[{number}]"))
            else:
                self._note(f"{where}[{number}] allows a tool of type {tool.get('type')}, which the model is not offered")
        self.tools = {name: tool for name, tool in self.tools.items() if name in named}
        self._note(f"tool_choice allows only these tools, so only they are offered in this call: {', '.join(self.tools) or 'none'}")
        mode = choice.get("mode", "auto")
        if mode not in ("auto", "required"):
            raise RefusalError("tool_choice.mode must be auto or required", "tool_choice.mode")
        return self._demand(mode) if mode == "required" else ("auto" if self.tools else None)

    def _demand(self, choice: str) -> str:
        if not self.tools:
            raise RefusalError(f"tool_choice {choice} needs a tool that the model can be offered; tools has none", "tool_choice")
        return choice

    def _find(self, choice: Json, where: str) -> str:
        name = expect(choice.get("name"), str, f"{where}.name")
        flat = flat_name(name, choice.get("namespace"))
        if flat in self.tools:
            return flat
        flats = [flat for flat, tool in self.tools.items() if tool.name == name]
        if len(flats) != 1:
            raise RefusalError(f"Tool choice '{name}' not found in 'tools' parameter.", where)
        return flats[0]

    def _take(self, tool: Json, where: str, namespace: str | None = None, preface: str | None = None) -> bool:
        """Whether the model is offered the tool."""
        kind = tool.get("type")
        if kind in ("function", "custom"):
            self._offer(tool, where, namespace, preface)
        elif kind == "namespace" and namespace is None:
            name = expect(tool.get("name"), str, f"{where}.name")
            for number, inner in enumerate(expect(tool.get("tools"), list, f"{where}.tools")):
                place = f"{where}.tools[{number}]"
                self._take(expect(inner, dict, place), place, name, tool.get("description"))
        elif isinstance(kind, str) and kind.startswith(WITHHELD):
            self._note(f"{where} is of type {kind}: only the vendor's server runs it, so the model is not offered it")
            return False
        else:
            raise RefusalError(f"{where} is of type {kind}, which cannot be offered to this model; declare it as a function", where)
        return True

    def _offer(self, tool: Json, where: str, namespace: str | None, preface: str | None) -> None:
        name = expect(tool.get("name"), str, f"{where}.name")
        flat = flat_name(name, namespace)
        if flat in self.tools:
            raise RefusalError(f"{where} has the name of another tool, {flat}; rename one of them", f"{where}.name")
        custom = tool["type"] == "custom"
        text = tool.get("description")
        description = None if text is None else expect(text, str, f"{where}.description")
        parameters, strict = (_INPUT, None) if custom else (tool.get("parameters"), tool.get("strict"))
        if parameters is not None:
            expect(parameters, dict, f"{where}.parameters")
        if custom:
            description = self._told_format(tool, description, where)
        if isinstance(preface, str) and preface:
            description = f"{preface}\n\n{description}" if description else preface
        for field in tool.keys() - _CARRIED:
            if tool[field] is not None and tool[field] not in _HARMLESS.get(field, ()):
                self._note(f"{where}.{field} is not told to the engine")
        self.tools[flat] = Tool(name, namespace, custom, function_tool(flat, description, parameters, strict))

    def _told_format(self, tool: Json, description: str | None, where: str) -> str | None:
        form = tool.get("format")
        if not isinstance(form, dict) or form.get("type") == "text":
            return description
        if form.get("type") != "grammar":
            raise RefusalError(f"{where}.format is of type {form.get('type')}; it must be text or grammar", f"{where}.format")
        self._note(f"{where}.format: the grammar is told to the model, but the engine does not enforce it")
        grammar = f"The input follows this {form.get('syntax')} grammar:\n{form.get('definition')}"
        return f"{description}\n\n{grammar}" if description else grammar
