"""Holds what the harness's own bytes say against the engine's side, and tells it in the words of chat completions.

Dialects say the same in different forms: a list of texts or one text, arguments as text or as a value, four finish reasons or six. Where
both sides mean the same, the engine's own form is given back, so that a check that compares the two finds them equal; where they do not,
the harness's side is given as it is, and the check finds the difference. Nothing is taken for the same that an engine could tell apart.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_harness.contract.chat_wire import Choice, Reply, ToolCall, call_objects, identical, parse_json
from pytest_harness.contract.dialects.neutral import (
    Asked,
    Entry,
    Given,
    Json,
    Made,
    Mention,
    Output,
    Part,
    Role,
    Said,
    Tool,
    fields,
    objects,
    text,
)

_USUAL: Mapping[str, Any] = {"tool_choice": "auto", "parallel_tool_calls": True, "stream": False}
"""Fields that say the same as their absence."""
_ROLES: Mapping[str, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
_LIMITS = ("max_tokens", "max_completion_tokens")
"""Two names of one field."""
_SCHEMAS_BY_NAME = ("properties", "$defs", "definitions")
_NOT_COMPARED = frozenset({"nullable", "propertyOrdering", "example", "examples", "format", "title"})
"""Keywords that dialects of JSON Schema write in different forms."""
_ABSENT = object()


# --- the request -------------------------------------------------------------------------------------------------------------------------


def chat_request(asked: Asked, forwarded: Json) -> Json:
    """The request in the words of chat completions."""
    theirs = objects(forwarded.get("messages"))
    request: Json = {"messages": _messages(asked, theirs)}
    if tools := _tools(asked, objects(forwarded.get("tools"))):
        request["tools"] = tools
    own = {**asked.fields, "stream": asked.streamed}
    if asked.streamed:
        request["stream_options"] = {"include_usage": True}  # what these dialects always have
    if (limit := next((own.pop(name) for name in _LIMITS if name in own), None)) is not None:
        own[next((name for name in _LIMITS if name in forwarded), _LIMITS[0])] = limit
    for name in {*own, *_USUAL}:
        value = own.get(name, _USUAL.get(name))
        told = forwarded.get(name, _USUAL.get(name))
        if same_value(value, told):
            if name in forwarded:
                request[name] = forwarded[name]
        elif name in own:
            request[name] = value
    request |= {name: forwarded.get(name, "asked for") for name in asked.demands}
    return request | {name: forwarded[name] for name in asked.allows & forwarded.keys()}


def _messages(asked: Asked, theirs: list[Json]) -> list[Json]:
    if asked.own_ids:
        _adopt_ids(asked.entries, theirs)
    same = [_same(entry, message) for entry, message in zip(asked.entries, theirs, strict=False)]
    if asked.itemised and not (all(same) and len(asked.entries) == len(theirs)):
        both = gathered(asked.entries), gathered([_entry(message) for message in theirs])
        if len(both[0]) == len(both[1]) and all(_same(mine, _message(other)) for mine, other in zip(*both, strict=True)):
            return theirs
    mine = [_message(entry) for entry in asked.entries]
    return [other if fits else own for own, other, fits in zip(mine, theirs, same, strict=False)] + mine[len(same) :]


def gathered(entries: Sequence[Entry]) -> list[Entry]:
    """The conversation with the calls that bear nothing else put to those of the message before, in front of what answers them.

    Items of one turn may stand between the results of its calls, and nothing in them says that they are of one turn.
    """
    found: list[Entry] = []
    last: Entry | None = None
    for entry in entries:
        if entry.role == "tool":
            found.append(entry)
        elif entry.role != "assistant":
            last = None
            found.append(entry)
        elif last is not None and not entry.parts and entry.reasoning in (None, frozenset({""})):
            last.calls += entry.calls
        else:
            last = Entry("assistant", entry.parts, entry.reasoning, list(entry.calls))
            found.append(last)
    return found


def _adopt_ids(entries: Sequence[Entry], theirs: Sequence[Json]) -> None:
    """Name the calls as the engine does, which knows them in the same order, and the results after them."""
    made = [call for entry in entries for call in entry.calls]
    known = [call.id for message in theirs for call in call_objects(message)]
    ids = {json.dumps(call.id): name for call, name in zip(made, known, strict=False)}
    for call in made:
        call.id = ids.get(json.dumps(call.id), call.id)
    for entry in entries:
        entry.answers = ids.get(json.dumps(entry.answers), entry.answers)


def _same(entry: Entry, message: Json) -> bool:
    """Whether a chat message says what the entry does."""
    if entry.role != _ROLES.get(text(message.get("role"))) or not _same_content(entry, message.get("content")):
        return False
    if entry.role == "tool":
        return identical(entry.answers, message.get("tool_call_id"))
    reasoning = text(message.get("reasoning_content")) or text(message.get("reasoning"))
    calls = call_objects(message)
    return (
        (entry.reasoning is None or reasoning in entry.reasoning)
        and len(calls) == len(entry.calls)
        and all(
            identical(made.id, call.id) and call.name in made.names and same_arguments(made, call.arguments)
            for made, call in zip(entry.calls, calls, strict=True)
        )
    )


def _same_content(entry: Entry, content: Any) -> bool:
    mine, theirs = _runs(entry.parts), _runs([content] if isinstance(content, str) else [_part(part) for part in objects(content)])
    if entry.marked and theirs and isinstance(theirs[0], list) and not (mine and isinstance(mine[0], list)):
        theirs = theirs[1:]
    if len(mine) != len(theirs):
        return False
    for place, (own, other) in enumerate(zip(mine, theirs, strict=True)):
        if isinstance(own, list) and isinstance(other, list):
            said = "".join(map(str, other))
            if not _fits(own, said, marked=entry.marked and place == 0):
                return False
        elif isinstance(own, list) or isinstance(other, list) or not _same_part(own, other):
            return False
    return True


def _runs(parts: Sequence[Part]) -> list[list[str | Mention | Output] | Json]:
    """Neighbouring texts as one run each: how a text is cut into parts says nothing."""
    runs: list[list[str | Mention | Output] | Json] = []
    for part in parts:
        if isinstance(part, dict):
            runs.append(part)
        elif part != "":
            if not runs or isinstance(runs[-1], dict):
                runs.append([])
            run = runs[-1]
            if isinstance(run, list):
                run.append(part)
    return runs


def _fits(pieces: Sequence[str | Mention | Output], said: str, *, marked: bool) -> bool:
    if all(isinstance(piece, str) for piece in pieces):
        own = "".join(map(str, pieces))
        return said == own or (marked and said.endswith(own))
    if len(pieces) == 1 and isinstance(pieces[0], Output):
        value = pieces[0].value
        return (len(value) == 1 and value.get("output") == said) or same_value(parse_json(said), value)
    pattern = "".join(re.escape(piece) if isinstance(piece, str) else f".*?{re.escape(_name(piece))}" for piece in pieces)
    return re.fullmatch(("(?s).*?" if marked else "(?s)") + pattern, said) is not None


def _name(piece: Mention | Output) -> str:
    return piece.name if isinstance(piece, Mention) else text(piece.value.get("output"))


def _same_part(own: Json, other: Json) -> bool:
    """Of an image only what it is: how closely to look at it is no content."""
    if own.get("type") == other.get("type") == "image_url":
        return identical(fields(own.get("image_url")).get("url"), fields(other.get("image_url")).get("url"))
    return identical(own, other)


def _part(part: Json) -> Part:
    return text(part.get("text")) if part.get("type") == "text" else part


def _entry(message: Json) -> Entry:
    content = message.get("content")
    role = _ROLES.get(text(message.get("role")), "user")
    parts: list[Part] = [content] if isinstance(content, str) else [_part(part) for part in objects(content)]
    return Entry(
        role=role,
        parts=[part for part in parts if part != ""],
        reasoning=frozenset({text(message.get("reasoning_content")) or text(message.get("reasoning"))}),
        calls=[Made(call.id, (call.name,), call.arguments) for call in call_objects(message)],
        answers=message.get("tool_call_id"),
    )


def _message(entry: Entry) -> Json:
    """The entry as a chat message."""
    parts = [_written(part) for part in entry.parts]
    only_text = all(part.get("type") == "text" for part in parts)
    message: Json = {"role": entry.role, "content": "".join(part["text"] for part in parts) if only_text else parts}
    if entry.role == "tool":
        message["tool_call_id"] = entry.answers
    if reasoning := "".join(sorted(entry.reasoning or ())):
        message["reasoning_content"] = reasoning
    if entry.calls:
        message["tool_calls"] = [
            {"id": made.id, "type": "function", "function": {"name": made.names[0], "arguments": made.arguments}} for made in entry.calls
        ]
    return message


def _written(part: Part) -> Json:
    if isinstance(part, dict):
        return part
    if isinstance(part, Output):
        output = part.value.get("output")
        return {"type": "text", "text": output if isinstance(output, str) and len(part.value) == 1 else json.dumps(part.value)}
    return {"type": "text", "text": part if isinstance(part, str) else part.name}


# --- tools -------------------------------------------------------------------------------------------------------------------------------


def _tools(asked: Asked, theirs: list[Json]) -> list[Json]:
    """The tools; the engine's own where it was offered these, in this order, less those that need not be."""
    names = [fields(tool.get("function")).get("name") for tool in theirs]
    wanted = [tool for tool in asked.tools if any(name in names for name in tool.names) or not _optional(tool, asked)]
    same = [_same_tool(tool, other) for tool, other in zip(wanted, theirs, strict=False)]
    mine = [
        {"type": "function", "function": {"name": tool.names[0], "description": tool.description, "parameters": tool.schema}}
        for tool in wanted
    ]
    return [other if fits else own for own, other, fits in zip(mine, theirs, same, strict=False)] + mine[len(same) :]


def _optional(tool: Tool, asked: Asked) -> bool:
    return any(name in asked.optional_tools for name in tool.names)


def _same_tool(tool: Tool, other: Json) -> bool:
    function = fields(other.get("function"))
    told = text(function.get("description"))
    return (
        function.get("name") in tool.names
        and (tool.description == told or (tool.within and tool.description in told))
        and (tool.schema is None or same_value(shape(tool.schema), shape(function.get("parameters"))))
    )


def shape(schema: Any, *, names: bool = False) -> Any:
    """A schema in a form in which Google's dialect and JSON Schema are alike. ``names``: the keys are names and no keywords."""
    if isinstance(schema, list):
        return [shape(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    if names:
        return {key: shape(value) for key, value in schema.items()}
    told = {key: value for key, value in schema.items() if key not in _NOT_COMPARED}
    found: Json = {}
    for key, value in told.items():
        if key == "type":
            kinds = [text(kind).lower() for kind in (value if isinstance(value, list) else [value])]
            found[key] = sorted(kind for kind in kinds if kind != "null")
        elif key == "enum" and isinstance(value, list):
            found[key] = [entry for entry in value if entry is not None]
        elif isinstance(value, str) and re.fullmatch(r"\d+", value) and key.startswith(("min", "max")):
            found[key] = int(value)
        else:
            found[key] = shape(value, names=key in _SCHEMAS_BY_NAME)
    return found


# --- the reply ---------------------------------------------------------------------------------------------------------------------------


def chat_reply(given: Given, engine: Reply) -> Reply:
    """The reply in the words of chat completions."""
    choices = {index: _choice(said, engine.choices.get(index, Choice())) for index, said in given.choices.items()}
    return Reply(id=given.id, choices=choices, usage=_usage(given.usage, engine.usage))


def _choice(said: Said, engine: Choice) -> Choice:
    reasoning = engine.reasoning if said.hides_reasoning and not said.reasoning else said.reasoning
    calls = [ToolCall(made.id, made.names[0], made.arguments) for made in said.calls]
    for place, (made, call) in enumerate(zip(said.calls, engine.calls, strict=False)):
        if call.name in made.names and same_arguments(made, call.arguments):
            calls[place] = ToolCall(made.id, call.name, call.arguments)
    means = said.means
    withheld = bool(said.untold) and not calls and any(not call.name or not is_object(call.arguments) for call in engine.calls)
    if withheld:
        calls, means = engine.calls, said.untold
    finish = engine.finish_reason if engine.finish_reason in means else said.finish
    return Choice(text=said.text, reasoning=reasoning, by_index=dict(enumerate(calls)), finish_reason=finish, withheld=withheld)


def _usage(given: Json | None, engine: Json | None) -> Json | None:
    """What the engine did not count may be told in any way."""
    if given is None or engine is None:
        return given
    told = {name: value if engine.get(name) is not None else engine.get(name) for name, value in given.items()}
    if cached_tokens(engine) is None:
        told["prompt_tokens_details"] = engine.get("prompt_tokens_details")
    return told


def cached_tokens(usage: Json | None) -> Any:
    """How many tokens of the prompt were cached, None where the usage does not say."""
    return fields((usage or {}).get("prompt_tokens_details")).get("cached_tokens")


def same_arguments(made: Made, arguments: str) -> bool:
    """Whether these are the arguments that the call has in its dialect."""
    if made.writing == "text" or made.arguments == arguments:
        return made.arguments == arguments
    value = parse_json(arguments if arguments.strip() else "{}")
    if made.writing == "free":
        return isinstance(value, dict) and len(value) == 1 and value.get("input") == made.arguments
    return value is not None and same_value(parse_json(made.arguments), value)


def same_value(one: Any, other: Any) -> bool:
    """Whether two JSON values are one to a reader that has but one kind of number."""
    waiting = [(one, other)]  # a list and no recursion, which a body that can be read may be too deep for
    while waiting:
        left, right = waiting.pop()
        if isinstance(left, dict) and isinstance(right, dict):
            if left.keys() != right.keys():
                return False
            waiting += ((value, right[key]) for key, value in left.items())
        elif isinstance(left, list) and isinstance(right, list):
            if len(left) != len(right):
                return False
            waiting += zip(left, right, strict=True)
        elif not _same_scalar(left, right):
            return False
    return True


def _same_scalar(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return _double(one) == _double(other)
    return type(one) is type(other) and bool(one == other)


def is_object(arguments: str) -> bool:
    """Whether arguments are one JSON object that every reader takes: with no number beyond doubles, and no half of a character."""
    try:
        value = json.loads(arguments if arguments.strip() else "{}", parse_constant=float)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict)


def _double(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf
