"""Reads a chat-completions request as vLLM does: what it refuses, in which order and words, and what it ignores.

Unknown fields and roles are accepted, tool messages need no call and calls need no result: vLLM checks none of that, so neither does this.
vLLM refuses in four steps, and the first fault is told: by a look at the raw body, by its schema, by the name of the model and the prompt
that the messages make, and last, when the prompt was found to fit, by the sampling parameters.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_harness.engines.scripted import fields
from pytest_harness.engines.scripted.conversation import check_conversation, check_messages, check_tools
from pytest_harness.engines.scripted.errors import RequestError, malformed, unknown_model

MAX_LOGPROBS = 20
MAX_CHOICES = 16384
"""vLLM's VLLM_MAX_N_SEQUENCES."""
_USAGE = '`{"type": "function", "function": {"name": "my_function"}}`'


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
    """The first text that ``structured_outputs`` allows as a choice."""
    schema: Mapping[str, Any] | None = None
    """The JSON Schema that ``response_format`` holds the reply to. Only a script takes notice of it, and only beside its own turns."""
    max_tokens_name: str = "max_tokens"
    """The field that said ``max_tokens``."""
    prompt_text: bool = False
    hides: bool = False
    """Whether ids and logprobs are kept back, because the client wants to see no reasoning."""
    refusal: RequestError | None = None
    """What is wrong with its sampling parameters: vLLM says so only when the prompt was found to fit."""

    @property
    def must_call(self) -> bool:
        """Whether the choice of tools leaves no other way."""
        return self.named_tool or self.tool_choice == "required"

    @property
    def offered(self) -> dict[str, tuple[str, ...] | None]:
        """The tools by name, each with the names of its arguments; None where its schema names none."""
        return {tool["function"]["name"]: _arguments(tool["function"]) for tool in self.tools or ()}


def read_json(raw: bytes, content_type: str | None) -> dict[str, Any]:
    """The request's body. Raises RequestError if it is not a JSON object."""
    if (content_type or "").partition(";")[0].strip().lower() != "application/json":
        raise malformed("Unsupported Media Type: Only 'application/json' is allowed")
    if not raw:
        raise malformed("Field required", "body")
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise RequestError.plain("There was an error parsing the body") from None
    try:
        body = json.loads(text)
    except json.JSONDecodeError as error:
        raise malformed(f"JSON decode error: {error.msg}", f"body.{error.pos}") from None
    if not isinstance(body, dict):
        raise malformed("Input should be a valid dictionary or object to extract fields from", "body")
    return body


def read_chat(
    body: Mapping[str, Any], *, model: str, tokens_as_ids: bool, max_logprobs: int = MAX_LOGPROBS, auto_tools: bool = True
) -> ChatRequest:
    """Check a chat-completions body. Raises RequestError with vLLM's answer if it is refused.

    The last three are vLLM's ``--return-tokens-as-token-ids``, ``--max-logprobs`` and ``--enable-auto-tool-choice``.
    """
    _check_raw(body)
    if "messages" not in body:
        raise malformed("Field required", "body.messages")
    messages = body["messages"]
    if not isinstance(messages, list):
        raise malformed("Input should be a valid list", "body.messages")
    check_messages(messages)
    given = fields.read(body, fields.BEFORE_TOOLS)
    tools, choice = body.get("tools"), _tool_choice(body)
    if tools is not None:
        check_tools(tools)
    given |= fields.read(body, fields.AFTER_TOOLS)
    asked = given.get("model")
    if asked and asked != model:
        raise unknown_model(asked, model)
    if tools is not None and not auto_tools and choice in (None, "auto"):
        raise RequestError('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set')
    check_conversation(messages, model)
    options = given.get("stream_options", {})
    return ChatRequest(
        model=asked or model,
        messages=messages,
        tools=tools,
        tool_choice=choice,
        named_tool=isinstance(body.get("tool_choice"), dict),
        parallel_tool_calls=given.get("parallel_tool_calls") is not False,
        n=given.get("n", 1),
        max_tokens=given.get("max_completion_tokens", given.get("max_tokens")),
        temperature=given.get("temperature", 1.0),
        stop=given.get("stop", ()),
        include_stop=given.get("include_stop_str_in_output", False),
        stream=given.get("stream", False),
        include_usage=bool(options.get("include_usage")),
        continuous_usage=bool(options.get("include_usage") and options.get("continuous_usage_stats")),
        logprobs=given.get("logprobs", False),
        top_logprobs=given.get("top_logprobs", 0),
        return_token_ids=given.get("return_token_ids", False),
        tokens_as_ids=given.get("return_tokens_as_token_ids", tokens_as_ids),
        seed=given.get("seed"),
        forced=_forced(body),
        schema=_schema(body),
        max_tokens_name="max_completion_tokens" if "max_completion_tokens" in given else "max_tokens",
        prompt_text=given.get("return_prompt_text", False),
        hides=not given.get("include_reasoning", True),
        refusal=_refusal(given, max_logprobs),
    )


def read_messages(body: Mapping[str, Any], model: str) -> list[dict[str, Any]]:
    """The request's messages. Raises RequestError for what vLLM's schema and its preprocessing refuse."""
    messages = body.get("messages")
    if not isinstance(messages, list):
        raise malformed("Input should be a valid list", "body.messages")
    check_messages(messages)
    check_conversation(messages, model)
    return messages


def read_tools(body: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """The request's tools, or None. Raises RequestError for what vLLM's schema refuses."""
    tools: list[dict[str, Any]] | None = body.get("tools")
    if tools is not None:
        check_tools(tools)
    return tools


def _arguments(function: Mapping[str, Any]) -> tuple[str, ...] | None:
    parameters = function.get("parameters")
    properties = parameters.get("properties") if isinstance(parameters, dict) else None
    return tuple(properties) if isinstance(properties, dict) and properties else None


def _check_raw(body: Mapping[str, Any]) -> None:
    """What vLLM looks at before its schema, in its order."""
    messages = body.get("messages", ())
    if messages is None or isinstance(messages, bool | int | float):
        raise RequestError(f"'{type(messages).__name__}' object is not iterable")
    tools, choice = body.get("tools"), body.get("tool_choice")
    if tools == []:
        raise RequestError(
            "`tools` must not be an empty array. Either provide at least one tool or omit the field entirely. (parameter=tools)",
            param="tools",
        )
    if choice is not None and choice != "none":
        _check_choice(choice, tools)
    _check_logprobs(body)
    if body.get("stream_options") and not body.get("stream"):
        raise RequestError("Stream options can only be defined when `stream=True`.", param="stream_options")
    form = body.get("response_format")
    if isinstance(form, dict) and form.get("type") == "json_schema" and form.get("json_schema") is None:
        raise RequestError(
            "When response_format type is 'json_schema', the 'json_schema' field must be provided. (parameter=response_format)",
            param="response_format",
        )
    for message in messages if isinstance(messages, list) else ():
        calls = message.get("tool_calls") if isinstance(message, dict) else None
        if isinstance(calls, bool | int | float):
            raise RequestError(f"'{type(calls).__name__}' object is not iterable")


def _check_choice(choice: Any, tools: Any) -> None:
    if tools is None:
        raise RequestError("When using `tool_choice`, `tools` must be set.", param="tool_choice")
    if isinstance(choice, dict):
        function = choice.get("function")
        if not isinstance(function, dict):
            raise RequestError(
                f"Invalid value for `function`: `{function}` in `tool_choice`! Correct usage: {_USAGE}", param="tool_choice.function"
            )
        name = function.get("name")
        if not isinstance(name, str) or not name:
            raise RequestError(
                f"Expected field `name` in `function` in `tool_choice`! Correct usage: {_USAGE}", param="tool_choice.function.name"
            )
        offered = [tool["function"].get("name") for tool in tools if isinstance(tool, dict) and isinstance(tool.get("function"), dict)]
        if name not in offered:
            raise RequestError("The tool specified in `tool_choice` does not match any of the specified `tools`", param="tool_choice")
    elif choice not in ("auto", "required"):
        raise RequestError(
            f'Invalid value for `tool_choice`: {choice}! Only named tools, "none", "auto" or "required" are supported.', param="tool_choice"
        )


def _check_logprobs(body: Mapping[str, Any]) -> None:
    top = body.get("top_logprobs")
    if top is None:
        return
    if not isinstance(top, int | float):
        raise RequestError("`top_logprobs` must be an integer.", param="top_logprobs")
    if top < 0 and top != -1:
        raise RequestError("`top_logprobs` must be a positive value or -1.", param="top_logprobs")
    if top != 0 and not body.get("logprobs"):
        raise RequestError("when using `top_logprobs`, `logprobs` must be set to true.", param="top_logprobs")


def _tool_choice(body: Mapping[str, Any]) -> str | None:
    """The choice, or the name of the tool that it names. Without a word of it, it is ``auto`` where there are tools."""
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        name: str = choice["function"]["name"]
        return name
    if "tool_choice" in body and choice is None and body.get("tools"):
        return "none"  # vLLM takes null for a choice: no calls are told
    return choice


def _refusal(given: Mapping[str, Any], max_logprobs: int) -> RequestError | None:
    """What is wrong with the sampling parameters."""
    n, temperature = given.get("n", 1), given.get("temperature", 1.0)
    limit = given.get("max_completion_tokens", given.get("max_tokens", 1))
    top_p, top_k, min_p = given.get("top_p", 1.0), given.get("top_k", 0), given.get("min_p", 0.0)
    presence, frequency = given.get("presence_penalty", 0.0), given.get("frequency_penalty", 0.0)
    repetition = given.get("repetition_penalty", 1.0)
    top = given.get("top_logprobs", 0)
    top = math.inf if top == -1 else top  # all of the vocabulary
    faults = (
        (n < 1, f"n must be at least 1, got {n}.", None),
        (n > MAX_CHOICES, f"n must be at most {MAX_CHOICES}, got {n}.", None),
        (not -2 <= presence <= 2, f"presence_penalty must be in [-2, 2], got {presence}.", None),
        (not -2 <= frequency <= 2, f"frequency_penalty must be in [-2, 2], got {frequency}.", None),
        (not 0 < repetition < math.inf, f"repetition_penalty must be greater than zero, got {repetition}.", None),
        (not math.isfinite(temperature), f"temperature must be a finite number, got {temperature}.", "temperature"),
        (temperature < 0, f"temperature must be non-negative, got {temperature}.", "temperature"),
        (temperature > 2, f"temperature must be in [0, 2], got {temperature}.", "temperature"),
        (not 0 < top_p <= 1, f"top_p must be in (0, 1], got {top_p}.", "top_p"),
        (top_k < -1, f"top_k must be 0 (disable), or at least 1, got {top_k}.", None),
        (not 0 <= min_p <= 1, f"min_p must be in [0, 1], got {min_p}.", None),
        (limit < 1, f"max_tokens must be at least 1, got {limit}.", "max_tokens"),
        ("" in given.get("stop", ()), "stop cannot contain an empty string.", None),
        (n > 1 and temperature == 0, f"n must be 1 when using greedy sampling, got {n}.", None),
        (top > max_logprobs, f"Requested sample logprobs of {top}, which is greater than max allowed: {max_logprobs}", "logprobs"),
    )
    return next((RequestError(said, param=param) for wrong, said, param in faults if wrong), None)


def _forced(body: Mapping[str, Any]) -> str | None:
    constraint = body.get("structured_outputs")
    choice = constraint.get("choice") if isinstance(constraint, dict) else None
    return choice[0] if isinstance(choice, list) and choice and isinstance(choice[0], str) else None


def _schema(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    form = body.get("response_format")
    wanted = form.get("json_schema") if isinstance(form, dict) and form.get("type") == "json_schema" else None
    schema = wanted.get("schema") if isinstance(wanted, dict) else None
    return schema if isinstance(schema, dict) else None
