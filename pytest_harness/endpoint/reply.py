"""A reply of an engine, whole or streamed, read into one form. Raises Broken for what is no chat completion."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_harness.wire.outcome import Broken

DONE = "[DONE]"


@dataclass
class ToolCall:
    """One call as the engine tells it, its arguments as text."""

    id: Any = None
    type: Any = None
    name: str = ""
    arguments: str = ""

    @property
    def value(self) -> Any:
        """The arguments as JSON. Raises Broken."""
        try:
            return json.loads(self.arguments)
        except ValueError:
            raise Broken("arguments that are JSON", self.arguments) from None


@dataclass
class Choice:
    """One choice. ``ids`` and ``entries`` are None where the engine told none."""

    ids: list[Any] | None = None
    entries: list[Any] | None = None
    content: str = ""
    reasoning: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    finishes: list[Any] = field(default_factory=list)
    stop_reason: Any = None
    pieces: int = 0
    """The chunks of a stream that carried something of it."""

    @property
    def finish(self) -> Any:
        """Why it ended; the last reason if there are several."""
        return self.finishes[-1] if self.finishes else None

    @property
    def said(self) -> tuple[str, str, tuple[tuple[str, str], ...], Any]:
        """All that a client can tell from another reply, less what is always its own."""
        return self.content, self.reasoning, tuple((call.name, call.arguments) for call in self.calls), self.finish

    @property
    def logprobs(self) -> list[Any]:
        """The logprob of each entry, None where there is none."""
        return [entry.get("logprob") if isinstance(entry, Mapping) else None for entry in self.entries or ()]

    def message(self) -> dict[str, Any]:
        """The same as a message of the next request's history, unchanged."""
        told: dict[str, Any] = {"role": "assistant", "content": self.content}
        if self.reasoning:
            told["reasoning"] = self.reasoning
        if self.calls:
            told["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}} for call in self.calls
            ]
        return told


@dataclass(frozen=True)
class Said:
    """One reply."""

    documents: tuple[dict[str, Any], ...]
    """The body, or the chunks."""
    prompt_ids: list[Any] | None
    choices: tuple[Choice, ...]
    usage: dict[str, Any] | None

    @property
    def only(self) -> Choice:
        """The one choice there is. Raises Broken."""
        if len(self.choices) != 1:
            raise Broken("one choice", f"{len(self.choices)} choices")
        return self.choices[0]


def read_whole(document: Any) -> Said:
    """A reply that was not streamed."""
    return _read([document], "message")


def read_stream(events: Sequence[Any]) -> Said:
    """A streamed reply, from the data of its events."""
    if not events or events[-1] != DONE:
        raise Broken(f"a stream that ends in {DONE}", events[-1] if events else "no events")
    return _read(events[:-1], "delta")


def _read(documents: Sequence[Any], part: str) -> Said:
    found: dict[int, Choice] = {}
    prompt_ids, usage = None, None
    for document in documents:
        if not isinstance(document, dict) or not isinstance(document.get("choices"), list):
            raise Broken("a chat completion with choices", document)
        prompt_ids = _prompt_ids(document) if prompt_ids is None else prompt_ids
        usage = document.get("usage") or usage
        for told in document["choices"]:
            message = told.get(part) if isinstance(told, dict) else None
            if not isinstance(message, dict) or not isinstance(told.get("index"), int):
                raise Broken(f"a choice with its index and its {part}", told)
            _add(found.setdefault(told["index"], Choice()), told, message)
    if sorted(found) != list(range(len(found))):
        raise Broken("choices numbered from 0 on", sorted(found))
    return Said(
        tuple(documents),
        prompt_ids if isinstance(prompt_ids, list) else None,
        tuple(found[number] for number in sorted(found)),
        usage if isinstance(usage, dict) else None,
    )


def _prompt_ids(document: Mapping[str, Any]) -> Any:
    """The ids of the prompt: beside the choices, as vLLM has it, or in each of them, as SGLang. Raises Broken where those differ."""
    told = [choice["prompt_token_ids"] for choice in document["choices"] if isinstance(choice, dict) and choice.get("prompt_token_ids")]
    if any(ids != told[0] for ids in told):
        raise Broken("one prompt for all choices", told)
    return document.get("prompt_token_ids") or (told[0] if told else None)


def _add(choice: Choice, told: Mapping[str, Any], message: Mapping[str, Any]) -> None:
    ids, logprobs = told.get("token_ids"), told.get("logprobs")
    entries = logprobs.get("content") if isinstance(logprobs, dict) else None
    if isinstance(ids, list):
        choice.ids = (choice.ids or []) + ids
    if isinstance(entries, list):
        choice.entries = (choice.entries or []) + entries
    choice.content += message.get("content") or ""
    choice.reasoning += message.get("reasoning") or message.get("reasoning_content") or ""
    for place, call in enumerate(message.get("tool_calls") or ()):
        if not isinstance(call, dict):
            raise Broken("a tool call that is an object", call)
        _add_call(choice.calls, call.get("index", place), call)
    if told.get("finish_reason") is not None:
        choice.finishes.append(told["finish_reason"])
    if told.get("stop_reason") is not None:
        choice.stop_reason = told["stop_reason"]
    choice.pieces += bool(message.get("content") or message.get("tool_calls") or message.get("reasoning"))


def _add_call(calls: list[ToolCall], index: Any, told: Mapping[str, Any]) -> None:
    if not isinstance(index, int) or not 0 <= index <= len(calls):
        raise Broken("the index of a call that was begun, or of the next", told)
    if index == len(calls):
        calls.append(ToolCall())
    call, function = calls[index], told.get("function") or {}
    call.id = told.get("id") if call.id is None else call.id
    call.type = told.get("type") if call.type is None else call.type
    call.name += function.get("name") or ""
    arguments = function.get("arguments")
    if arguments is not None and not isinstance(arguments, str):
        raise Broken("arguments that are a string of JSON", arguments)
    call.arguments += arguments or ""
