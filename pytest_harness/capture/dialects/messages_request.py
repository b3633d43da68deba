"""An Anthropic Messages request as a chat-completions request.

============================ ===========================================================================================
Anthropic                    chat completions
============================ ===========================================================================================
system                       the first message, role system. Claude Code's billing line, a block of its own that is meant for the
                             vendor and changes from call to call, is no part of a prompt and is left out
messages                     in their order; a ``system`` message stays where it is. Assistant text blocks become one text, thinking
                             blocks ``reasoning_content``, tool_use blocks ``tool_calls``; tool_result blocks become ``tool`` messages
text before a tool_result    refused, as the vendor does: chat could only say it by putting a user turn between call and result
a last assistant message     refused, as newer models of the vendor do: the reply would not be a turn of its own
image                        ``image_url``: the URL, or a data URL
tool_result.is_error         ``[tool error]`` before the content, so that the model sees it
tool_reference               its name as text: tools with ``defer_loading`` are on offer from the start
tool_use.input               JSON text; ``{"INVALID_JSON": text}`` is turned back into that text (see ``messages_reply``)
tools                        functions; the vendor's own tools (web_search and the like, bash, computer) are refused
tool_choice                  auto, required, the named function, none; ``disable_parallel_tool_use`` is ``parallel_tool_calls: false``
max_tokens, temperature,     the same, ``stop_sequences`` as ``stop``
top_p, top_k
thinking                     ``chat_template_kwargs`` ``enable_thinking`` and ``thinking``, the two names that templates read. The prompt
                             ids show what came of it. A budget is a target, no limit, and is left out, as is ``display``
output_config                ``reasoning_effort`` and ``response_format``
metadata.user_id             ``user``
context_management           only edits that change nothing (keep all thinking); others are refused
cache_control and the like   left out: they are about caches, tiers and transport, not about prompt or reply
anything else                refused, naming it, unless it is null or empty
============================ ===========================================================================================
"""

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

_TOLERATED = frozenset(
    {"anthropic_beta", "anthropic_version", "betas", "cache_control", "inference_geo", "service_tier", "speed"},
)
_KNOWN = _TOLERATED | {
    "context_management",
    "max_tokens",
    "messages",
    "metadata",
    "model",
    "output_config",
    "output_format",
    "stop_sequences",
    "stream",
    "system",
    "temperature",
    "thinking",
    "tool_choice",
    "tools",
    "top_k",
    "top_p",
}
_TOOL_FIELDS = frozenset(
    {"type", "name", "description", "input_schema", "strict", "cache_control", "defer_loading", "eager_input_streaming"}
)


def to_chat(request: Mapping[str, Any], *, count: bool = False) -> Json:
    """The chat request; with ``count`` only what is counted is needed. Raises RefusalError in the vendor's manner: place, then what."""
    _only(request, _KNOWN, "")
    chat: Json = {"messages": _messages(request)}
    limit = request.get("max_tokens")
    if limit is not None:
        chat["max_tokens"] = expect(limit, int, "max_tokens")
    elif not count:
        raise RefusalError("max_tokens: Field required", "max_tokens")
    for name, kind in (("temperature", float), ("top_p", float), ("top_k", int)):
        if (value := request.get(name)) is not None:
            chat[name] = expect(value, kind, name)
    if stop := request.get("stop_sequences"):
        chat["stop"] = [expect(text, str, f"stop_sequences.{at}") for at, text in enumerate(expect(stop, list, "stop_sequences"))]
    _carry_tools(request, chat)
    _carry_thinking(request, chat)
    _carry_output(request, chat)
    _check_context_management(request)
    metadata = expect(request.get("metadata") or {}, dict, "metadata")
    _only(metadata, {"user_id"}, "metadata.")
    if (user := metadata.get("user_id")) is not None:
        chat["user"] = expect(user, str, "metadata.user_id")
    return chat


def notes_of(request: Mapping[str, Any]) -> tuple[str, ...]:
    """What a request that ``to_chat`` took says and the chat request does not, though it might matter: a sentence each."""
    notes = []
    if (budget := (request.get("thinking") or {}).get("budget_tokens")) is not None:
        notes.append(f"thinking.budget_tokens, {budget}, is left out: the engine sets no bound to thinking alone")
    if deferred := [tool["name"] for tool in request.get("tools") or () if tool.get("defer_loading")]:
        notes.append(f"tools with defer_loading are on offer from the start: {', '.join(deferred)}")
    system = request.get("system")
    if isinstance(system, list) and any(_is_billing_line(block.get("text", "")) for block in system):
        notes.append("Claude Code's billing line in the system prompt is left out")
    return tuple(notes)


# --- messages ----------------------------------------------------------------------------------------------------------------------------


def _messages(request: Mapping[str, Any]) -> list[Json]:
    messages: list[Json] = []
    if system := request.get("system"):
        _add_system(messages, system, "system")
    turns = expect(request.get("messages"), list, "messages")
    for at, turn in enumerate(turns):
        where = f"messages.{at}"
        _only(expect(turn, dict, where), {"role", "content"}, f"{where}.")
        role, content = turn.get("role"), turn.get("content")
        if role == "user":
            _add_user(messages, content, f"{where}.content")
        elif role == "assistant":
            messages.append(_assistant(content, f"{where}.content"))
        elif role == "system":
            _add_system(messages, content, f"{where}.content")
        else:
            raise RefusalError(f"{where}.role: {role!r} is none of 'user', 'assistant' and 'system'", f"{where}.role")
    if turns and turns[-1].get("role") == "assistant":
        raise RefusalError(
            "This model does not support assistant message prefill. The conversation must end with a user message.",
            f"messages.{len(turns) - 1}",
        )
    return messages


def _add_system(messages: list[Json], content: object, where: str) -> None:
    parts = [
        _text(block, place) if _kind(block, place) == "text" else _refuse_block(block, place, "system")
        for block, place in _blocks(content, where)
    ]
    parts = [part for part in parts if not _is_billing_line(part["text"])]
    if parts:
        messages.append({"role": "system", "content": neutral.content_of(parts)})


def _is_billing_line(text: str) -> bool:
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
                _only(block, {"type", "thinking", "signature", "cache_control"}, f"{place}.")
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
    _only(block, {"type", "id", "name", "input", "cache_control"}, f"{where}.", {"caller": {"type": "direct"}})
    arguments = expect(block.get("input"), dict, f"{where}.input")
    wrapped = arguments.get(INVALID_JSON)
    text = wrapped if len(arguments) == 1 and isinstance(wrapped, str) else json.dumps(arguments, ensure_ascii=False)
    return neutral.tool_call(expect(block.get("id"), str, f"{where}.id"), expect(block.get("name"), str, f"{where}.name"), text)


def _tool_result(block: Json, where: str) -> Json:
    _only(block, {"type", "tool_use_id", "content", "is_error", "cache_control"}, f"{where}.")
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
    if kind == "image":
        _only(block, {"type", "source", "cache_control"}, f"{where}.")
        return neutral.image_part(_image_url(expect(block.get("source"), dict, f"{where}.source"), f"{where}.source"))
    if kind == "tool_reference" and within == "tool_result":
        _only(block, {"type", "tool_name", "cache_control"}, f"{where}.")
        return neutral.text_part(f"[tool reference] {expect(block.get('tool_name'), str, f'{where}.tool_name')}")
    return _refuse_block(block, where, within)


def _text(block: Json, where: str) -> Json:
    _only(block, {"type", "text", "cache_control"}, f"{where}.")
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


# --- tools and settings ------------------------------------------------------------------------------------------------------------------


def _carry_tools(request: Mapping[str, Any], chat: Json) -> None:
    tools = [_tool(tool, f"tools.{at}") for at, tool in enumerate(expect(request.get("tools") or [], list, "tools"))]
    if tools:
        chat["tools"] = tools
    if (choice := request.get("tool_choice")) is None:
        return
    _only(expect(choice, dict, "tool_choice"), {"type", "name", "disable_parallel_tool_use"}, "tool_choice.")
    kind = choice.get("type")
    if not tools:
        if kind in ("any", "tool"):
            raise RefusalError("tool_choice: it may only be specified while providing tools", "tool_choice")
        return
    if kind == "tool":
        chat["tool_choice"] = neutral.named_choice(expect(choice.get("name"), str, "tool_choice.name"))
    elif kind in _CHOICES:
        chat["tool_choice"] = _CHOICES[kind]
    else:
        raise RefusalError(f"tool_choice.type: {kind!r} is none of 'auto', 'any', 'tool' and 'none'", "tool_choice.type")
    if expect(choice.get("disable_parallel_tool_use") or False, bool, "tool_choice.disable_parallel_tool_use"):
        chat["parallel_tool_calls"] = False


_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def _tool(tool: object, where: str) -> Json:
    fields = expect(tool, dict, where)
    kind = fields.get("type") or "custom"
    if kind != "custom":
        raise RefusalError(
            f"{where}: the tool type {kind!r} is the vendor's own, and the engine behind this proxy has none such; leave it out, or "
            "offer a tool with an input_schema",
            where,
        )
    _only(fields, _TOOL_FIELDS, f"{where}.", {"allowed_callers": ["direct"]})
    description, strict = fields.get("description"), fields.get("strict")
    return neutral.function_tool(
        expect(fields.get("name"), str, f"{where}.name"),
        None if description is None else expect(description, str, f"{where}.description"),
        expect(fields.get("input_schema"), dict, f"{where}.input_schema"),
        None if strict is None else expect(strict, bool, f"{where}.strict"),
    )


def _carry_thinking(request: Mapping[str, Any], chat: Json) -> None:
    if (thinking := request.get("thinking")) is None:
        return
    _only(expect(thinking, dict, "thinking"), {"type", "budget_tokens", "display"}, "thinking.")
    kind = thinking.get("type")
    if kind not in ("enabled", "adaptive", "disabled"):
        raise RefusalError(f"thinking.type: {kind!r} is none of 'enabled', 'adaptive' and 'disabled'", "thinking.type")
    on = kind != "disabled"
    chat["chat_template_kwargs"] = {"enable_thinking": on, "thinking": on}


def _carry_output(request: Mapping[str, Any], chat: Json) -> None:
    config = expect(request.get("output_config") or {}, dict, "output_config")
    _only(config, {"effort", "format"}, "output_config.")
    if (effort := config.get("effort")) is not None:
        chat["reasoning_effort"] = expect(effort, str, "output_config.effort")
    where, form = "output_config.format", config.get("format")
    if form is None:
        where, form = "output_format", request.get("output_format")
    if form is None:
        return
    _only(expect(form, dict, where), {"type", "schema"}, f"{where}.")
    if form.get("type") != "json_schema":
        raise RefusalError(f"{where}.type: {form.get('type')!r} is not 'json_schema'", f"{where}.type")
    schema = {"name": "output", "schema": expect(form.get("schema"), dict, f"{where}.schema"), "strict": True}
    chat["response_format"] = {"type": "json_schema", "json_schema": schema}


def _check_context_management(request: Mapping[str, Any]) -> None:
    settings = expect(request.get("context_management") or {}, dict, "context_management")
    _only(settings, {"edits"}, "context_management.")
    for at, edit in enumerate(expect(settings.get("edits") or [], list, "context_management.edits")):
        if edit != {"type": "clear_thinking_20251015", "keep": "all"}:
            where = f"context_management.edits.{at}"
            kind = edit.get("type") if isinstance(edit, dict) else edit
            raise RefusalError(f"{where}: {kind!r} would rewrite the conversation, and this proxy never does that; leave it out", where)


def _only(
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
