"""A Responses request as a chat-completions request: every field is carried, echoed, noted or refused.

===================================== ===================================================================================================
field                                 what becomes of it
===================================== ===================================================================================================
instructions, input                   messages; instructions are the first, of role system
tools, tool_choice, max_output_tokens carried under chat's names
text.format, reasoning.effort         carried as response_format and reasoning_effort
sampling fields chat has too          carried under the same name
previous_response_id, conversation,   refused: nothing is stored, and no part of a conversation may be missing unseen
prompt, background, moderation,
context_management
store                                 accepted, for it is the API's default; the reply says false, a ``true`` is noted
truncation auto                       accepted and noted: a prompt that is too long is the engine's error
bookkeeping (metadata, cache keys, …) has no effect on what is sampled; the reply echoes what the API echoes
any other                             noted
===================================== ===================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_harness.capture.dialects.base import Prepared, RefusalError
from pytest_harness.capture.dialects.neutral import Json, expect, read_object
from pytest_harness.capture.dialects.responses_input import read_input
from pytest_harness.capture.dialects.responses_tools import Tool, Toolbox

Note = Callable[[str], None]

_NUMBERS: Mapping[str, str] = {
    "temperature": "temperature",
    "top_p": "top_p",
    "max_output_tokens": "max_completion_tokens",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "repetition_penalty": "repetition_penalty",
    "min_p": "min_p",
}
_AS_THEY_ARE = ("seed", "stop", "top_k", "logit_bias")
"""No fields of OpenAI's, but vLLM's Responses route takes them too, and chat completions under the same name."""

_STATEFUL = ("previous_response_id", "conversation", "prompt", "background", "context_management", "moderation")
_ECHOED = ("max_output_tokens", "max_tool_calls", "metadata", "prompt_cache_key", "safety_identifier", "temperature", "top_p", "user")
_READ = frozenset({"model", "input", "instructions", "stream", "store", "tools", "tool_choice", "parallel_tool_calls"}) | {
    "text",
    "reasoning",
    "truncation",
    "include",
    "top_logprobs",
}
_WITHOUT_EFFECT = frozenset({"stream_options", "client_metadata", "service_tier", "prompt_cache_retention", "prompt_cache_options"})
_KNOWN = _READ | _WITHOUT_EFFECT | set(_NUMBERS) | set(_AS_THEY_ARE) | set(_STATEFUL) | set(_ECHOED)

_SEALED = "reasoning.encrypted_content"
_LOGPROBS = "message.output_text.logprobs"
_OF_SERVER_TOOLS = ("web_search_call.", "file_search_call.", "code_interpreter_call.", "computer_call_output.", "message.input_image.")
"""What can be included only of tools that run on the vendor's server, or of stored input."""


@dataclass(frozen=True)
class ResponsesRequest:
    """What of a request its reply needs. ``echo`` are the fields of the response that repeat the request."""

    echo: Json
    tools: Mapping[str, Tool]
    wants_sealed: bool
    wants_logprobs: bool


def read_request(body: bytes, *, counted: bool = False) -> tuple[Prepared, ResponsesRequest]:
    """Read a request; one whose tokens are only counted needs no model. Raises RefusalError."""
    document = read_object(body)
    notes: list[str] = []
    note = notes.append
    _refuse_stateful(document)
    model = "" if counted and document.get("model") is None else document.get("model")
    chat: Json = {"model": _required(model, "model", str)}
    toolbox = Toolbox(note)
    told_tools = toolbox.add(_flagged(document, "tools", list) or [], "tools")
    chat["messages"] = _instructions(document) + read_input(_required(document.get("input"), "input", None), toolbox, note)
    if not chat["messages"]:
        raise RefusalError("input is empty; send at least one item", "input")
    _carry_sampling(document, chat)
    _carry_tools(document, toolbox, chat)
    wants = _included(document, note)
    if _LOGPROBS in wants:
        chat |= {"logprobs": True, "top_logprobs": _flagged(document, "top_logprobs", int) or 0}
    elif document.get("top_logprobs"):
        note(f"top_logprobs has no effect: include does not name {_LOGPROBS}")
    text = _carry_text(document, chat, note)
    reasoning = _carry_reasoning(document, chat, note)
    if document.get("store") is True:
        note("store: nothing is stored here, the reply says so")
    if document.get("truncation") not in (None, "disabled"):
        note(f"truncation {document['truncation']}: nothing is cut off here, a prompt that is too long is the engine's error")
    for name in document.keys() - _KNOWN:
        if document[name] is not None:
            note(f"{name} is not a field of the Responses API, so the engine is not told")
    echo = {name: document.get(name) for name in _ECHOED}
    echo |= {
        "background": False,
        "instructions": document.get("instructions"),
        "metadata": document.get("metadata") or {},
        "model": chat["model"],
        "parallel_tool_calls": document.get("parallel_tool_calls") is not False,
        "previous_response_id": None,
        "reasoning": reasoning,
        "service_tier": "default",
        "store": False,
        "text": text,
        "tool_choice": document.get("tool_choice") or "auto",
        "tools": told_tools,
        "top_logprobs": document.get("top_logprobs") or 0,
        "truncation": "disabled",
    }
    prepared = Prepared(chat, streamed=_flagged(document, "stream", bool) is True, notes=tuple(sorted(notes)))
    return prepared, ResponsesRequest(echo, toolbox.tools, _SEALED in wants, _LOGPROBS in wants)


def _refuse_stateful(document: Json) -> None:
    for name in _STATEFUL:
        if document.get(name) not in (None, False, []):
            raise RefusalError(f"{name} is not supported here: nothing is kept or run besides this call; send all of the input", name)


def _required(value: Any, name: str, kind: type | None) -> Any:
    if value is None:
        raise RefusalError(f"Missing required parameter: '{name}'.", name)
    return value if kind is None else expect(value, kind, name)


def _flagged[T](document: Json, name: str, kind: type[T]) -> T | None:
    """An optional field of that type; null is as good as absent."""
    value = document.get(name)
    return None if value is None else expect(value, kind, name)


def _instructions(document: Json) -> list[Json]:
    text = _flagged(document, "instructions", str)
    return [{"role": "system", "content": text}] if text else []


def _carry_sampling(document: Json, chat: Json) -> None:
    for name, told in _NUMBERS.items():
        value = _flagged(document, name, int if name == "max_output_tokens" else float)
        if value is not None:
            chat[told] = value
    for name in _AS_THEY_ARE:
        if document.get(name) is not None:
            chat[name] = document[name]


def _carry_tools(document: Json, toolbox: Toolbox, chat: Json) -> None:
    choice = toolbox.choose(document.get("tool_choice"))
    parallel = _flagged(document, "parallel_tool_calls", bool)
    if not toolbox.tools:
        return
    chat["tools"] = [tool.function for tool in toolbox.tools.values()]
    if choice is not None:
        chat["tool_choice"] = choice
    if parallel is not None:
        chat["parallel_tool_calls"] = parallel


def _included(document: Json, note: Note) -> frozenset[str]:
    wanted = frozenset(expect(name, str, "include") for name in _flagged(document, "include", list) or ())
    for name in wanted - {_SEALED, _LOGPROBS}:
        if not name.startswith(_OF_SERVER_TOOLS):
            note(f"include names {name}, which is unknown here")
    return wanted


def _carry_text(document: Json, chat: Json, note: Note) -> Json:
    """Carries the format; gives back the response's ``text``."""
    text = _flagged(document, "text", dict) or {}
    if text.get("verbosity") is not None:
        note("text.verbosity is unknown to chat completions, so the engine is not told")
    form = text.get("format")
    if form is None:
        return {"format": {"type": "text"}, "verbosity": text.get("verbosity") or "medium"}
    kind = expect(form, dict, "text.format").get("type")
    if kind == "json_schema":
        fields = {name: form[name] for name in ("name", "description", "schema", "strict") if form.get(name) is not None}
        chat["response_format"] = {"type": "json_schema", "json_schema": fields}
    elif kind == "json_object":
        chat["response_format"] = {"type": "json_object"}
    elif kind != "text":
        raise RefusalError(f"text.format is of type {kind}; it must be text, json_object or json_schema", "text.format")
    return {"format": form, "verbosity": text.get("verbosity") or "medium"}


def _carry_reasoning(document: Json, chat: Json, note: Note) -> Json:
    """Carries the effort; gives back the response's ``reasoning``."""
    reasoning = _flagged(document, "reasoning", dict) or {}
    effort = reasoning.get("effort")
    if effort is not None:
        chat["reasoning_effort"] = expect(effort, str, "reasoning.effort")
    for name in reasoning.keys() - {"effort"}:
        if name in ("summary", "generate_summary") and reasoning[name] is not None:
            note(f"reasoning.{name}: no summary is written here; reasoning items hold the reasoning itself")
        elif reasoning[name] is not None:
            note(f"reasoning.{name} is not told to the engine")
    return {"effort": effort, "summary": None}
