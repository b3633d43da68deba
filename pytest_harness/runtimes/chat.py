"""Messages, tools and model steps as chat completions write them, which is how most runtimes keep a conversation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_harness.runtimes.adapter import Message, ModelStep, Tool, ToolCall


def to_message(message: Message) -> dict[str, Any]:
    """A message of ours as chat writes it."""
    document: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.calls:
        document["tool_calls"] = [_to_call(call) for call in message.calls]
    if message.call_id is not None:
        document["tool_call_id"] = message.call_id
    return document


def message_of(document: Mapping[str, Any]) -> Message:
    """A message of chat as ours; nothing is filled in."""
    calls = tuple(
        ToolCall(call.get("id"), call["function"]["name"], call["function"]["arguments"]) for call in document.get("tool_calls") or ()
    )
    return Message(document["role"], document.get("content") or "", calls, document.get("tool_call_id"))


def tool_of(document: Mapping[str, Any]) -> Tool:
    """A tool as chat offers it."""
    function = document["function"]
    return Tool(function["name"], function.get("description") or "", function.get("parameters") or {})


def step_to_document(step: ModelStep) -> dict[str, Any]:
    """A step of the model as plain JSON, its calls as chat writes them."""
    return {
        "text": step.text,
        "calls": [_to_call(call) for call in step.calls],
        "prompt_ids": step.prompt_ids,
        "sampled_ids": step.sampled_ids,
        "logprobs": step.logprobs,
    }


def _to_call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
