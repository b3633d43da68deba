"""Reads a chat-completions request as vLLM does: what it refuses, in which words, and what it ignores.

Unknown fields and roles are accepted, tool messages need no call and calls need no result: vLLM checks none of that, so neither does this.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_harness.engines.scripted.errors import RequestError, malformed, unknown_model

MAX_LOGPROBS = 20
_NUMBERS: dict[str, type | tuple[type, ...]] = {
    "n": int,
    "max_tokens": int,
    "max_completion_tokens": int,
    "top_logprobs": int,
    "seed": int,
    "temperature": (int, float),
    "top_p": (int, float),
}
_FLAGS = ("stream", "logprobs", "return_token_ids", "return_tokens_as_token_ids", "include_stop_str_in_output", "parallel_tool_calls")
_TEXT_PARTS = ("text", "refusal", "thinking", "input_text", "output_text")


@dataclass(frozen=True)
class ChatRequest:
    """A valid request. ``tool_choice`` is None, ``auto``, ``none``, ``required``, or the name of a tool."""

    model: str
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None
    tool_choice: str | None
    named_tool: bool
    parallel_tool_calls: bool
    n: int
    max_tokens: int | None
    temperature: float
    stop: tuple[str, ...]
    include_stop: bool
    stream: bool
    include_usage: bool
    continuous_usage: bool
    logprobs: bool
    top_logprobs: int
    return_token_ids: bool
    tokens_as_ids: bool
    seed: int | None = None
    forced: str | None = None
    """The first text that ``structured_outputs`` allows as a choice. A script takes no notice of it."""

    @property
    def offered(self) -> dict[str, tuple[str, ...] | None]:
        """The tools by name, each with the names of its arguments; None where its schema names none."""
        return {tool["function"]["name"]: _arguments(tool["function"]) for tool in self.tools or ()}


def read_json(raw: bytes, content_type: str | None) -> dict[str, Any]:
    """The request's body. Raises RequestError if it is not a JSON object."""
    if (content_type or "").partition(";")[0].strip().lower() != "application/json":
        raise malformed("Unsupported Media Type: Only 'application/json' is allowed")
    try:
        body = json.loads(raw)
    except ValueError as error:
        raise malformed(
            f"[{{'type': 'json_invalid', 'loc': ('body',), 'msg': 'JSON decode error', 'ctx': {{'error': '{error}'}}}}]"
        ) from None
    if not isinstance(body, dict):
        raise malformed("Input should be a valid dictionary", "body")
    return body


def read_chat(
    body: Mapping[str, Any], *, model: str, tokens_as_ids: bool, max_logprobs: int = MAX_LOGPROBS, auto_tools: bool = True
) -> ChatRequest:
    """Check a chat-completions body. Raises RequestError with vLLM's answer if it is refused.

    The last three are vLLM's ``--return-tokens-as-token-ids``, ``--max-logprobs`` and ``--enable-auto-tool-choice``.
    """
    asked = body.get("model")
    if asked is not None and not isinstance(asked, str):
        raise malformed("Input should be a valid string", "body.model")
    _check_types(body)
    messages = read_messages(body, model)
    tools = read_tools(body)
    tool_choice, named = _tool_choice(body, tools)
    if tools is not None and not auto_tools and tool_choice in (None, "auto"):
        raise RequestError('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set')
    if asked and asked != model:
        raise unknown_model(asked, model)
    temperature = _sampling(body)
    logprobs, top_logprobs = _logprobs(body, max_logprobs)
    options = _stream_options(body)
    return ChatRequest(
        model=asked or model,
        messages=messages,
        tools=tools,
        tool_choice=tool_choice,
        named_tool=named,
        parallel_tool_calls=body.get("parallel_tool_calls") is not False,
        n=_or(body.get("n"), 1),
        max_tokens=_or(body.get("max_completion_tokens"), body.get("max_tokens")),
        temperature=temperature,
        stop=_stop(body),
        include_stop=bool(body.get("include_stop_str_in_output")),
        stream=bool(body.get("stream")),
        include_usage=bool(options.get("include_usage")),
        continuous_usage=bool(options.get("include_usage") and options.get("continuous_usage_stats")),
        logprobs=logprobs,
        top_logprobs=top_logprobs,
        return_token_ids=bool(body.get("return_token_ids")),
        tokens_as_ids=bool(_or(body.get("return_tokens_as_token_ids"), tokens_as_ids)),
        seed=body.get("seed"),
        forced=_forced(body),
    )


def read_messages(body: Mapping[str, Any], model: str) -> list[dict[str, Any]]:
    """The request's messages. Raises RequestError for what vLLM's schema and its preprocessing refuse."""
    messages = body.get("messages")
    if messages is None:
        raise malformed("Field required", "body.messages")
    if not isinstance(messages, list):
        raise malformed("Input should be a valid list", "body.messages")
    if not messages:
        raise RequestError("Cannot apply chat template to an empty conversation. Please add at least one message.")
    for index, message in enumerate(messages):
        where = f"body.messages.{index}"
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise malformed("Field required", f"{where}.role")
        content = message.get("content")
        if content is None and message["role"] not in ("assistant", "tool"):
            raise malformed("Input should be a valid string or a list of content parts", f"{where}.content")
        _check_content(content, where, model)
        _check_calls(message.get("tool_calls"), where)
    return messages


def _check_content(content: Any, where: str, model: str) -> None:
    if content is None or isinstance(content, str):
        return
    if not isinstance(content, list):
        raise malformed("Input should be a valid string or a list of content parts", f"{where}.content")
    for number, part in enumerate(content):
        if isinstance(part, str):
            continue
        kind = part.get("type") if isinstance(part, dict) else None
        if not isinstance(kind, str):
            raise malformed("Input should be a valid content part", f"{where}.content.{number}")
        if kind not in _TEXT_PARTS:
            raise RequestError(f"{model} is not a multimodal model")
        text = part.get("refusal" if kind == "refusal" else "text", "")
        if not isinstance(text, str):
            raise malformed("Input should be a valid string", f"{where}.content.{number}.text")


def _check_calls(calls: Any, where: str) -> None:
    if calls is None:
        return
    if not isinstance(calls, list):
        raise malformed("Input should be a valid list", f"{where}.tool_calls")
    for number, call in enumerate(calls):
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise malformed("Field required", f"{where}.tool_calls.{number}.function.name")


def read_tools(body: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """The request's tools, or None. Raises RequestError for an empty list or a tool without a name."""
    tools = body.get("tools")
    if tools is None:
        return None
    if not isinstance(tools, list):
        raise malformed("Input should be a valid list", "body.tools")
    if not tools:
        raise RequestError(
            "`tools` must not be an empty array. Either provide at least one tool or omit the field entirely. (parameter=tools)",
            param="tools",
        )
    for number, tool in enumerate(tools):
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise malformed("Field required", f"body.tools.{number}.function.name")
    return tools


def _arguments(function: Mapping[str, Any]) -> tuple[str, ...] | None:
    parameters = function.get("parameters")
    properties = parameters.get("properties") if isinstance(parameters, dict) else None
    return tuple(properties) if isinstance(properties, dict) and properties else None


def _tool_choice(body: Mapping[str, Any], tools: list[dict[str, Any]] | None) -> tuple[str | None, bool]:
    choice = body.get("tool_choice")
    if choice is None or (choice == "none" and tools is None):
        return choice, False
    if tools is None:
        raise RequestError("When using `tool_choice`, `tools` must be set.", param="tool_choice")
    if choice in ("none", "auto", "required"):
        return choice, False
    function = choice.get("function") if isinstance(choice, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(name, str):
        raise malformed("Input should be 'none', 'auto', 'required' or a named tool", "body.tool_choice")
    if name not in [tool["function"]["name"] for tool in tools]:
        raise RequestError("The tool specified in `tool_choice` does not match any of the specified `tools`", param="tool_choice")
    return name, True


def _sampling(body: Mapping[str, Any]) -> float:
    temperature = _or(body.get("temperature"), 1.0)
    if temperature < 0:
        raise RequestError(f"temperature must be non-negative, got {temperature}.", param="temperature")
    if not temperature <= 2:
        raise RequestError(f"temperature must be in [0, 2], got {temperature}.", param="temperature")
    top_p = _or(body.get("top_p"), 1.0)
    if not 0 < top_p <= 1:
        raise RequestError(f"top_p must be in (0, 1], got {top_p}.", param="top_p")
    n = _or(body.get("n"), 1)
    if n < 1:
        raise RequestError(f"n must be at least 1, got {n}.", param="n")
    if n > 1 and temperature == 0:
        raise RequestError(f"n must be 1 when using greedy sampling, got {n}.", param="n")
    limit = _or(body.get("max_completion_tokens"), body.get("max_tokens"))
    if limit is not None and limit < 1:
        raise RequestError(f"max_tokens must be at least 1, got {limit}.", param="max_tokens")
    return float(temperature)


def _logprobs(body: Mapping[str, Any], most: int) -> tuple[bool, int]:
    top = body.get("top_logprobs")
    if top is None:
        return bool(body.get("logprobs")), 0
    if top < 0:
        raise RequestError("`top_logprobs` must be a positive value.", param="top_logprobs")
    if top > 0 and not body.get("logprobs"):
        raise RequestError("when using `top_logprobs`, `logprobs` must be set to true.", param="top_logprobs")
    if top > most:
        raise RequestError(f"Requested sample logprobs of {top}, which is greater than max allowed: {most}", param="logprobs")
    return bool(body.get("logprobs")), top


def _forced(body: Mapping[str, Any]) -> str | None:
    constraint = body.get("structured_outputs")
    choice = constraint.get("choice") if isinstance(constraint, dict) else None
    return choice[0] if isinstance(choice, list) and choice and isinstance(choice[0], str) else None


def _stream_options(body: Mapping[str, Any]) -> Mapping[str, Any]:
    options = body.get("stream_options")
    if options is None:
        return {}
    if not isinstance(options, dict):
        raise malformed("Input should be a valid dictionary", "body.stream_options")
    if not body.get("stream"):
        raise RequestError("Stream options can only be defined when `stream=True`.", param="stream_options")
    return options


def _stop(body: Mapping[str, Any]) -> tuple[str, ...]:
    stop = body.get("stop")
    if stop is None:
        return ()
    strings = [stop] if isinstance(stop, str) else stop
    if not isinstance(strings, list) or not all(isinstance(string, str) for string in strings):
        raise malformed("Input should be a valid string or a list of strings", "body.stop")
    if "" in strings:
        raise RequestError("stop cannot contain an empty string.", param="stop")
    return tuple(strings)


def _check_types(body: Mapping[str, Any]) -> None:
    for name, kind in _NUMBERS.items():
        value = body.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, kind)):
            raise malformed(f"Input should be a valid {'integer' if kind is int else 'number'}", f"body.{name}")
    for name in _FLAGS:
        if not isinstance(body.get(name), bool | None):
            raise malformed("Input should be a valid boolean", f"body.{name}")


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value
