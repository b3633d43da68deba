"""What the graph must know of a call beside its ids: its route, what the request offers and opens with, the text of the reply.

The form that went to the engine is read, which is chat completions whatever dialect the harness speaks. Nothing here raises on bad bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pytest_harness.evidence.model import Call, Message

ROUTES = {"chat": "/chat/completions", "responses": "/responses", "messages": "/messages", "gemini": "enerateContent"}
"""How the path of a model call ends in each dialect."""

OPENING = ("system", "developer")
"""The roles of the messages that tell the agent who it is."""

_SEEN_AND_HEARD = re.compile(r"^(input_)?(image|audio|video|file|document)(_url)?$")


def is_model_call(call: Call) -> bool:
    """Whether this is a request for a completion, by its method and route."""
    return call.method == "POST" and call.path.split("?")[0].rstrip("/").endswith(ROUTES[call.dialect])


@dataclass(frozen=True, slots=True)
class Request:
    """What a request says of the conversation that it belongs to."""

    tools: frozenset[str]
    """The names of the tools that it offers."""
    system: str
    """The text of the messages of the system that it opens with; empty where there are none."""
    user: str
    """The text of the first message of the user."""
    assistants: int
    """How many messages of the assistant it repeats."""
    words: str
    """The text of the first of these; empty where there is none, or it only calls tools."""
    media: bool
    """Whether it holds images, sound or files, which no ids carry."""


def read_request(call: Call) -> Request:
    """What the request of this call says; as good as nothing where it is no JSON object."""
    body = _document(call.forwarded) or _document(call.received)
    messages = messages_of(body)
    spoken = [message for message in messages if message.get("role") == "assistant"]
    return Request(
        tools=frozenset(_tools(body.get("tools"))) or frozenset(_tools(_document(call.received).get("tools"))),
        system=next(_texts(messages, OPENING), ""),
        user=next(_texts(messages, ("user",)), ""),
        assistants=len(spoken),
        words=text_of(spoken[0]) if spoken else "",
        media=any(map(_has_media, messages)),
    )


def told(call: Call) -> tuple[str, ...]:
    """The texts of the request that are neither the model's own words nor the results of tools."""
    messages = messages_of(_document(call.forwarded) or _document(call.received))
    return tuple(text_of(message) for message in messages if message.get("role") in (*OPENING, "user"))


def answer(call: Call) -> str:
    """The text of the engine's first choice; empty where it said none."""
    if call.replied is None:
        return ""
    if call.replied.body.lstrip().startswith("{"):
        parts: Iterator[dict[str, Any]] = iter([_document(call.replied)])
    else:
        parts = (_object(line[5:]) for line in call.replied.body.splitlines() if line.startswith("data:"))
    return "".join(text for part in parts for text in _spoken(part))


def messages_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The messages of a request in chat completions."""
    messages = body.get("messages")
    return [message for message in messages if isinstance(message, dict)] if isinstance(messages, list) else []


def text_of(message: dict[str, Any]) -> str:
    """The text of a message, its white space made plain."""
    content = message.get("content")
    parts = [content] if isinstance(content, str) else [part.get("text") for part in _parts(message)]
    return " ".join(" ".join(part for part in parts if isinstance(part, str)).split())


def _texts(messages: list[dict[str, Any]], roles: tuple[str, ...]) -> Iterator[str]:
    return (text for message in messages if message.get("role") in roles and (text := text_of(message)))


def _parts(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _has_media(message: dict[str, Any]) -> bool:
    return any(_SEEN_AND_HEARD.match(str(part.get("type"))) for part in _parts(message))


def _tools(tools: Any) -> Iterator[str]:
    """Each dialect names a tool in its own place; what has no name is known by its kind, or else by its whole self."""
    for tool in tools if isinstance(tools, list) else ():
        if isinstance(tool, dict):
            function = tool.get("function")
            name = function.get("name") if isinstance(function, dict) else tool.get("name") or tool.get("type")
            yield name if isinstance(name, str) else json.dumps(tool, sort_keys=True)


def _spoken(part: dict[str, Any]) -> Iterator[str]:
    choices = part.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict) and choice.get("index", 0) == 0:
            message = choice.get("message") or choice.get("delta")
            if isinstance(message, dict) and isinstance(message.get("content"), str):
                yield message["content"]


def _document(message: Message | None) -> dict[str, Any]:
    return _object(message.body) if message is not None else {}


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
