"""An Anthropic Messages request as a chat-completions request.

============================ ===========================================================================================
Anthropic                    chat completions
============================ ===========================================================================================
system                       the first message, role system. Claude Code's billing line, a block of its own that is meant for the
                             vendor and changes from call to call, is no part of a prompt and is left out
messages                     in their order; a ``system`` message stays where it is, but with ``clear_at: next_user_message`` it is left
                             out once a user message follows. Assistant text blocks become one text, thinking blocks
                             ``reasoning_content``, tool_use blocks ``tool_calls``; tool_result blocks become ``tool`` messages
text before a tool_result    refused, as the vendor does: chat could only say it by putting a user turn between call and result
a last assistant message     refused, as newer models of the vendor do: the reply would not be a turn of its own
image                        ``image_url``: the URL, or a data URL
tool_result.is_error         ``[tool error]`` before the content, so that the model sees it
tool_reference,              the tool's name as text: tools with ``defer_loading`` are on offer from the start
tool_addition
tool_use.input               JSON text; ``{"INVALID_JSON": text}`` is turned back into that text (see ``messages_reply``)
tools                        functions; the vendor's own tools (web_search and the like, bash, computer) are refused
tool_choice                  auto, required, the named function, none; ``disable_parallel_tool_use`` is ``parallel_tool_calls: false``
max_tokens, temperature,     the same, ``stop_sequences`` as ``stop``
top_p, top_k
thinking                     ``chat_template_kwargs`` ``enable_thinking`` and ``thinking``, the two names that templates read. The prompt
                             ids show what came of it. A budget is a target, no limit, and is left out, as is ``display``
output_config                ``reasoning_effort`` (a system message's own is the last word) and ``response_format``
metadata.user_id             ``user``
context_management           only edits that change nothing (keep all thinking); others are refused
cache_control and the like   left out: they are about caches, tiers and transport, not about prompt or reply
anything else                refused, naming it, unless it is null or empty
============================ ===========================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_harness.capture.dialects import neutral
from pytest_harness.capture.dialects.base import RefusalError
from pytest_harness.capture.dialects.messages_turns import is_billing_line, messages_of, only
from pytest_harness.capture.dialects.neutral import Json, expect

_TOLERATED = frozenset(
    {
        "anthropic_beta",
        "anthropic_version",
        "betas",
        "billing_policy",
        "cache_control",
        "diagnostics",
        "inference_geo",
        "service_tier",
        "speed",
        "user_profile_id",
        "workspace_id",
    },
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
    only(request, _KNOWN, "")
    chat: Json = {"messages": messages_of(request)}
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
    only(metadata, {"user_id"}, "metadata.")
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
    if isinstance(system, list) and any(is_billing_line(block.get("text", "")) for block in system):
        notes.append("Claude Code's billing line in the system prompt is left out")
    return tuple(notes)


def _carry_tools(request: Mapping[str, Any], chat: Json) -> None:
    tools = [_tool(tool, f"tools.{at}") for at, tool in enumerate(expect(request.get("tools") or [], list, "tools"))]
    if tools:
        chat["tools"] = tools
    if (choice := request.get("tool_choice")) is None:
        return
    only(expect(choice, dict, "tool_choice"), {"type", "name", "disable_parallel_tool_use"}, "tool_choice.")
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
    only(fields, _TOOL_FIELDS, f"{where}.", {"allowed_callers": ["direct"]})
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
    only(expect(thinking, dict, "thinking"), {"type", "budget_tokens", "display"}, "thinking.")
    kind = thinking.get("type")
    if kind not in ("enabled", "adaptive", "between_tools", "disabled"):
        raise RefusalError(f"thinking.type: {kind!r} is none of 'enabled', 'adaptive', 'between_tools' and 'disabled'", "thinking.type")
    on = kind != "disabled"
    chat["chat_template_kwargs"] = {"enable_thinking": on, "thinking": on}


def _carry_output(request: Mapping[str, Any], chat: Json) -> None:
    config = expect(request.get("output_config") or {}, dict, "output_config")
    only(config, {"effort", "format"}, "output_config.")
    efforts = [(config.get("effort"), "output_config.effort")]
    for at, turn in enumerate(request["messages"]):
        where = f"messages.{at}.output_config"
        own = expect(turn.get("output_config") or {}, dict, where)
        only(own, {"effort"}, f"{where}.")
        efforts.append((own.get("effort"), f"{where}.effort"))
    for effort, where in efforts:
        if effort is not None:
            chat["reasoning_effort"] = expect(effort, str, where)
    where, form = "output_config.format", config.get("format")
    if form is None:
        where, form = "output_format", request.get("output_format")
    if form is None:
        return
    only(expect(form, dict, where), {"type", "schema"}, f"{where}.")
    if form.get("type") != "json_schema":
        raise RefusalError(f"{where}.type: {form.get('type')!r} is not 'json_schema'", f"{where}.type")
    schema = {"name": "output", "schema": expect(form.get("schema"), dict, f"{where}.schema"), "strict": True}
    chat["response_format"] = {"type": "json_schema", "json_schema": schema}


def _check_context_management(request: Mapping[str, Any]) -> None:
    settings = expect(request.get("context_management") or {}, dict, "context_management")
    only(settings, {"edits"}, "context_management.")
    for at, edit in enumerate(expect(settings.get("edits") or [], list, "context_management.edits")):
        if edit != {"type": "clear_thinking_20251015", "keep": "all"}:
            where = f"context_management.edits.{at}"
            kind = edit.get("type") if isinstance(edit, dict) else edit
            raise RefusalError(f"{where}: {kind!r} would rewrite the conversation, and this proxy never does that; leave it out", where)
