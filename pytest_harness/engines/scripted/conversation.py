"""Messages and tools as vLLM reads them: what it refuses, and what of the rest its chat template gets to see.

A client's spacing of arguments, keys that vLLM does not know and the order of a tool's keys are gone before the template sees them, so
they do not change the prompt. The words of refusals are those of vLLM 0.32 where they are short.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from pytest_harness.engines.scripted.errors import RequestError, malformed

_KNOWN_ROLES = ("system", "developer", "user", "assistant", "tool")
_TEXT_OF = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal", "thinking": "thinking"}
_MEDIA = (
    *("image_url", "input_image", "image_pil", "image_embeds", "audio_url", "input_audio", "audio_embeds"),
    *("video_url", "video_embeds", "prompt_embeds"),
)
_REFERENCE = "tool_reference"
_BILLING = "x-anthropic-billing-header"
"""A line of Claude Code that is another in every request, so vLLM drops it from the system prompt."""
_FUNCTION_FIELDS = {"description": str, "parameters": dict, "strict": bool, "defer_loading": bool}


def check_messages(messages: Sequence[Any]) -> None:
    """Raises RequestError for what vLLM's schema refuses."""
    for index, message in enumerate(messages):
        where = f"body.messages.{index}"
        if not isinstance(message, dict):
            raise malformed("Input should be a valid dictionary", where)
        role = message.get("role")
        if not isinstance(role, str):
            raise malformed("Field required" if role is None else "Input should be a valid string", f"{where}.role")
        content = message.get("content", "")
        if content is None and role not in ("assistant", "function"):
            raise malformed("Input should be a valid string", f"{where}.content")
        if content is not None and not isinstance(content, str | list | dict):
            raise malformed("Input should be a valid string", f"{where}.content")
        if role not in _KNOWN_ROLES and not _fits_any_role(content):
            raise malformed("Input should be a valid message", f"{where}.role")
        if role == "tool" and not isinstance(message.get("tool_call_id", ""), str):
            raise malformed("Input should be a valid string", f"{where}.role")
        if role != "tool" and not isinstance(message.get("name", ""), str):
            raise malformed("Input should be a valid string", f"{where}.role")
        if role == "assistant":
            _check_calls(message.get("tool_calls"))


def check_conversation(messages: Sequence[Mapping[str, Any]], model: str) -> None:
    """Raises RequestError for what vLLM refuses only when it makes the prompt."""
    for message in messages:
        content = message.get("content")
        if isinstance(content, dict) and content:
            raise RequestError("1 validation error for ValidatorIterator: Input should be a valid dictionary")
        for part in content if isinstance(content, list) else ():
            _check_part(part, model, alone=len(content or ()) == 1 and message["role"] in _KNOWN_ROLES)
        calls = message.get("tool_calls") if message["role"] == "assistant" else None
        if any(call.get("type") != "function" for call in calls or ()):
            raise RequestError(
                "chat completions only support assistant tool_calls of type 'function'. (parameter=tool_calls)", param="tool_calls"
            )
    if not messages:
        raise RequestError("Cannot apply chat template to an empty conversation. Please add at least one message.")


def check_tools(tools: Any) -> None:
    """Raises RequestError for what vLLM's schema refuses."""
    if not isinstance(tools, list):
        raise malformed("Input should be a valid list", "body.tools")
    for number, tool in enumerate(tools):
        where = f"body.tools.{number}"
        if not isinstance(tool, dict):
            raise malformed("Input should be a valid dictionary or object to extract fields from", where)
        if tool.get("type", "function") != "function":
            raise malformed("Input should be 'function'", f"{where}.type")
        function = tool.get("function")
        if not isinstance(function, dict):
            raise malformed("Field required", f"{where}.function")
        if not isinstance(function.get("name"), str):
            raise malformed("Field required", f"{where}.function.name")
        for key, kind in _FUNCTION_FIELDS.items():
            if not isinstance(function.get(key), kind | None):
                raise malformed(f"Input should be a valid {kind.__name__}", f"{where}.function.{key}")


def message_for_template(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """A message as the chat template gets it."""
    role, content = message.get("role"), message.get("content")
    if isinstance(content, str):
        content = [content]
    texts = [text for part in content or () if (text := _text(part)) is not None]
    if role == "system":
        texts = [text for text in map(_without_billing, texts) if text is not None]
    told = {**message, "content": "\n".join(texts) if role == "tool" else [{"type": "text", "text": text} for text in texts]}
    if role == "assistant" and message.get("tool_calls"):
        told["tool_calls"] = [_call_for_template(call) for call in message["tool_calls"]]
    else:
        told.pop("tool_calls", None)
    return told


def tool_for_template(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """A tool as the chat template gets it: with the fields that vLLM knows, in its order."""
    function = tool["function"]
    deferred = function.get("defer_loading") if function.get("defer_loading") is not None else tool.get("defer_loading")
    told = {"name": function["name"], "description": function.get("description"), "parameters": function.get("parameters")}
    told |= {key: value for key, value in (("strict", function.get("strict")), ("defer_loading", deferred)) if value is not None}
    whole = {"type": "function", "function": told}
    return whole if tool.get("defer_loading") is None else {**whole, "defer_loading": tool["defer_loading"]}


def _fits_any_role(content: Any) -> bool:
    if isinstance(content, list):
        return all(isinstance(part, str | dict) for part in content)
    return content is None or isinstance(content, str)


def _check_calls(calls: Any) -> None:
    if calls is None:
        return
    for number, call in enumerate(calls):
        where = f"body.{number}"
        if not isinstance(call, dict):
            raise malformed("Input should be a valid dictionary", where)
        if not isinstance(call.get("id"), str):
            raise malformed("Field required", f"{where}.id")
        if call.get("type") == "custom" and isinstance(call.get("custom"), dict):
            continue
        function = call.get("function")
        if not isinstance(function, dict):
            raise malformed("Field required", f"{where}.function")
        if not isinstance(function.get("arguments"), str):
            raise malformed("Field required", f"{where}.function")
        if not isinstance(function.get("name"), str):
            raise malformed("Field required", f"{where}.function.name")
        if call.get("type") != "function":
            raise malformed("Field required", f"{where}.type")


def _check_part(part: Any, model: str, *, alone: bool) -> None:
    """vLLM holds the only part of a message to a stricter schema than one of several."""
    kind = part.get("type") if isinstance(part, dict) else None
    if kind in _MEDIA:
        raise RequestError(f"{model} is not a multimodal model")
    if isinstance(part, str) and not alone:
        return
    odd = not isinstance(part, dict) or (kind == "text" and not isinstance(part.get("text"), str if alone else str | None))
    if odd or (alone and kind not in ("text", "refusal", "thinking", _REFERENCE, "file")):
        raise RequestError("1 validation error for ValidatorIterator: Input should be a valid part")
    if kind is None:
        raise RequestError("Missing 'type' field in multimodal part. (parameter=type)", param="type")
    if kind not in _TEXT_OF and kind != _REFERENCE:
        raise RequestError(f"Unsupported chat content part type: {kind!r}. (parameter=type, value={kind})", param="type")


def _text(part: Any) -> str | None:
    """The text of a part; None of one that has none and is left out."""
    if isinstance(part, str):
        return part
    text = part.get(_TEXT_OF.get(str(part.get("type")), "")) if isinstance(part, Mapping) else None
    return text if isinstance(text, str) else None


def _without_billing(text: str) -> str | None:
    if not text.startswith(_BILLING):
        return text
    return text.partition("\n")[2] or None


def _call_for_template(call: Any) -> Any:
    """A call whose arguments are an object; vLLM makes of arguments that are none an empty one, so that the conversation can go on."""
    function = call["function"]
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        with suppress(ValueError):
            arguments = json.loads(arguments)
    return {**call, "function": {**function, "arguments": arguments if isinstance(arguments, Mapping) else {}}}
