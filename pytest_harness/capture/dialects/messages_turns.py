"""The turns of an Anthropic request as chat messages. What becomes of what is in the table of ``messages_request``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pytest_harness.capture.dialects import neutral
from pytest_harness.capture.dialects.base import RefusalError
from pytest_harness.capture.dialects.neutral import Json, expect

INVALID_JSON = "INVALID_JSON"
"""Under this name the vendor's documentation wraps arguments that are no JSON object:
https://docs.claude.com/en/docs/agents-and-tools/tool-use/fine-grained-tool-streaming"""
ERROR_MARK = "[tool error]"
_BILLING_LINE = "x-anthropic-billing-header:"
_SYSTEM_FIELDS = frozenset({"role", "content", "clear_at", "output_config"})


def messages_of(request: Mapping[str, Any]) -> list[Json]:
    """The system prompt and the turns. Raises RefusalError."""
    messages: list[Json] = []
    if system := request.get("system"):
        _add_system(messages, system, "system")
    turns = expect(request.get("messages"), list, "messages")
    for at, turn in enumerate(turns):
        where = f"messages.{at}"
        role, content = expect(turn, dict, where).get("role"), turn.get("content")
        only(turn, _SYSTEM_FIELDS if role == "system" else {"role", "content"}, f"{where}.")
        if role == "user":
            _add_user(messages, content, f"{where}.content")
        elif role == "assistant":
            messages.append(_assistant(content, f"{where}.content"))
        elif role == "system":
            if not _is_cleared(turn, turns[at:], where):
                _add_system(messages, [] if content is None else content, f"{where}.content")
        else:
            raise RefusalError(f"{where}.role: {role!r} is none of 'user', 'assistant' and 'system'", f"{where}.role")
    if turns and turns[-1].get("role") == "assistant":
        raise RefusalError(
            "This model does not support assistant message prefill. The conversation must end with a user message.",
            f"messages.{len(turns) - 1}",
        )
    return messages


def _add_system(messages: list[Json], content: object, where: str) -> None:
    parts = [_part(block, _kind(block, place), place, "system") for block, place in _blocks(content, where)]
    parts = [part for part in parts if not is_billing_line(part.get("text", ""))]
    if parts:
        messages.append({"role": "system", "content": neutral.content_of(parts)})


def _is_cleared(turn: Json, rest: list[Json], where: str) -> bool:
    """Whether a system message is one that the model sees only until the next user message, and that has come."""
    clear_at = turn.get("clear_at")
    if clear_at not in (None, "never", "next_user_message"):
        raise RefusalError(f"{where}.clear_at: {clear_at!r} is none of 'never' and 'next_user_message'", f"{where}.clear_at")
    return clear_at == "next_user_message" and any(isinstance(later, dict) and later.get("role") == "user" for later in rest)


def is_billing_line(text: str) -> bool:
    """Whether a block of system text is what Claude Code tells the vendor about itself."""
    return text.startswith(_BILLING_LINE) and "\n" not in text.rstrip()


def _add_user(messages: list[Json], content: object, where: str) -> None:
    parts: list[Json] = []
    blocks = _blocks(content, where)
    results = 0
    for block, place in blocks:
        kind = _kind(block, place)
        if kind == "tool_result":
            if parts:
                raise RefusalError(
                    f"{place}: tool_result blocks must come first in the content of a user message, right after the tool_use blocks they "
                    "answer; any text must come after all of them",
                    place,
                )
            messages.append(_tool_result(block, place))
            results += 1
        else:
            parts.append(_part(block, kind, place, "user"))
    if parts or not results:
        messages.append({"role": "user", "content": neutral.content_of(parts)})


def _assistant(content: object, where: str) -> Json:
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[Json] = []
    for block, place in _blocks(content, where):
        match _kind(block, place):
            case "text":
                texts.append(_text(block, place)["text"])
            case "thinking":
                only(block, {"type", "thinking", "signature", "cache_control"}, f"{place}.")
                thoughts.append(expect(block.get("thinking"), str, f"{place}.thinking"))
            case "tool_use":
                calls.append(_tool_use(block, place))
            case "redacted_thinking":
                raise RefusalError(
                    f"{place}: redacted_thinking can only be read by the vendor that sent it, and that was not this engine", place
                )
            case _:
                _refuse_block(block, place, "assistant")
    text = neutral.join(texts)
    return neutral.assistant_message(text if text or calls else "", neutral.join(thoughts), calls)


def _tool_use(block: Json, where: str) -> Json:
    only(block, {"type", "id", "name", "input", "cache_control"}, f"{where}.", {"caller": {"type": "direct"}})
    arguments = expect(block.get("input"), dict, f"{where}.input")
    wrapped = arguments.get(INVALID_JSON)
    text = wrapped if len(arguments) == 1 and isinstance(wrapped, str) else json.dumps(arguments, ensure_ascii=False)
    return neutral.tool_call(expect(block.get("id"), str, f"{where}.id"), expect(block.get("name"), str, f"{where}.name"), text)


def _tool_result(block: Json, where: str) -> Json:
    only(block, {"type", "tool_use_id", "content", "is_error", "cache_control"}, f"{where}.")
    content = block.get("content")
    parts = (
        [] if content is None else [_part(part, _kind(part, at), at, "tool_result") for part, at in _blocks(content, f"{where}.content")]
    )
    if expect(block.get("is_error") or False, bool, f"{where}.is_error"):
        if parts and parts[0]["type"] == "text":
            parts[0] = neutral.text_part(f"{ERROR_MARK} {parts[0]['text']}")
        else:
            parts.insert(0, neutral.text_part(ERROR_MARK))
    return neutral.tool_message(expect(block.get("tool_use_id"), str, f"{where}.tool_use_id"), neutral.content_of(parts))


def _part(block: Json, kind: str, where: str, within: str) -> Json:
    if kind == "text":
        return _text(block, where)
    if kind == "image" and within != "system":
        only(block, {"type", "source", "cache_control"}, f"{where}.")
        return neutral.image_part(_image_url(expect(block.get("source"), dict, f"{where}.source"), f"{where}.source"))
    if kind == "tool_reference" and within == "tool_result":
        only(block, {"type", "tool_name", "cache_control"}, f"{where}.")
        return neutral.text_part(f"[tool reference] {expect(block.get('tool_name'), str, f'{where}.tool_name')}")
    if kind == "tool_addition" and within == "system":
        only(block, {"type", "tool", "cache_control"}, f"{where}.")
        tool = expect(block.get("tool"), dict, f"{where}.tool")
        if tool.get("type") == "tool_reference":
            return neutral.text_part(f"[tool addition] {expect(tool.get('name'), str, f'{where}.tool.name')}")
    return _refuse_block(block, where, within)


def _text(block: Json, where: str) -> Json:
    only(block, {"type", "text", "cache_control"}, f"{where}.")
    return neutral.text_part(expect(block.get("text"), str, f"{where}.text"))


def _image_url(source: Json, where: str) -> str:
    match source.get("type"):
        case "base64":
            media_type = expect(source.get("media_type"), str, f"{where}.media_type")
            return neutral.data_url(media_type, expect(source.get("data"), str, f"{where}.data"))
        case "url":
            return expect(source.get("url"), str, f"{where}.url")
        case other:
            raise RefusalError(
                f"{where}: an image of source type {other!r} cannot be given to this engine; send it as base64 or url", where
            )


def _blocks(content: object, where: str) -> Iterable[tuple[Json, str]]:
    """Blocks with their places; a string is one block of text."""
    if isinstance(content, str):
        return [({"type": "text", "text": content}, where)]
    return [(expect(block, dict, f"{where}.{at}"), f"{where}.{at}") for at, block in enumerate(expect(content, list, where))]


def _kind(block: Json, where: str) -> str:
    return expect(block.get("type"), str, f"{where}.type")


def _refuse_block(block: Json, where: str, within: str) -> Json:
    raise RefusalError(f"{where}: a block of type {block['type']!r} in {within} content cannot be given to this engine", where)


def only(
    fields: Mapping[str, Any],
    known: Iterable[str],
    where: str,
    allowed: Mapping[str, object] = {},
) -> None:
    """Refuse a field that is neither known nor null or empty, nor has the one value that is allowed for it."""
    for name in fields.keys() - known:
        value = fields[name]
        if value not in (None, [], {}) and (name not in allowed or value != allowed[name]):
            raise RefusalError(f"{where}{name}: it cannot be given to the engine behind this proxy; leave it out", f"{where}{name}")
