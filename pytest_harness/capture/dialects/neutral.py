"""What the translating dialects share: JSON in and out, the parts of a chat request, and what the engine's chat reply says.

Pure functions and one small state machine. Nothing here knows a vendor's dialect; nothing here repairs what a model wrote. A request that
cannot be read raises RefusalError, a reply that cannot be read raises MalformedReplyError, both of ``base``.
"""

from __future__ import annotations

import json
import math
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_harness.capture.dialects.base import MalformedReplyError, RefusalError

Json = dict[str, Any]

_NAMES = {str: "a string", bool: "true or false", int: "a whole number", float: "a number", list: "a list", dict: "an object"}


# --- JSON and events ---------------------------------------------------------------------------------------------------------------------


def read_object(body: bytes) -> Json:
    """The request's body, one JSON object in UTF-8. Raises RefusalError."""
    try:
        document: Any = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise RefusalError(f"the request's body is not JSON ({error}); send one JSON object in UTF-8") from None
    if not isinstance(document, dict):
        raise RefusalError(f"the request's body is {told(document)}; send one JSON object")
    return document


def expect[T](value: object, kind: type[T], where: str) -> T:
    """The value, if it is of that JSON type; ``float`` takes whole numbers too. Raises RefusalError naming the place."""
    fits = isinstance(value, int | float) if kind is float else isinstance(value, kind)
    if not fits or (isinstance(value, bool) and kind is not bool):
        raise RefusalError(f"{where} is {told(value)}; it must be {_NAMES.get(kind, kind.__name__)}", where)
    return value  # type: ignore[return-value]


def told(value: object) -> str:
    """A JSON value's type in words, for messages."""
    return "null" if value is None else _NAMES.get(type(value), type(value).__name__)


def dump(document: object) -> bytes:
    """Compact JSON in UTF-8."""
    try:
        return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    except UnicodeEncodeError:  # a lone surrogate can only be written as an escape
        return json.dumps(document, separators=(",", ":")).encode("ascii")


def event(document: object, name: str | None = None) -> bytes:
    """One server-sent event, with an ``event:`` line if it has a name."""
    head = b"" if name is None else b"event: " + name.encode() + b"\n"
    return head + b"data: " + dump(document) + b"\n\n"


def make_id(prefix: str) -> str:
    """A new id, unique for every call of this function."""
    return f"{prefix}{uuid.uuid4().hex}"


# --- the parts of a chat request ---------------------------------------------------------------------------------------------------------


def text_part(text: str) -> Json:
    """A content part of text."""
    return {"type": "text", "text": text}


def image_part(url: str, detail: str | None = None) -> Json:
    """A content part that is an image, by URL or as a data URL."""
    return {"type": "image_url", "image_url": {"url": url} if detail is None else {"url": url, "detail": detail}}


def data_url(media_type: str, data: str) -> str:
    """The data URL of base64 text."""
    return f"data:{media_type};base64,{data}"


def content_of(parts: Sequence[Json]) -> str | list[Json]:
    """Content in its plainest form: one text part is its text, no part is the empty string.

    A client that writes the same text once as a string and once as a list of one part says the same prompt, so it is told the same.
    """
    if not parts:
        return ""
    if len(parts) == 1 and parts[0]["type"] == "text":
        text: str = parts[0]["text"]
        return text
    return list(parts)


def assistant_message(text: str | None, reasoning: str | None = None, calls: Sequence[Json] = ()) -> Json:
    """An assistant turn. ``calls`` are made by ``tool_call``; reasoning goes under the name that chat templates read."""
    message: Json = {"role": "assistant", "content": text}
    if reasoning is not None:
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = list(calls)
    return message


def tool_call(call_id: str, name: str, arguments: str) -> Json:
    """A call in an assistant message; ``arguments`` is the text the model wrote."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def tool_message(call_id: str, content: str | list[Json]) -> Json:
    """The result of a call."""
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def function_tool(name: str, description: str | None = None, parameters: Json | None = None, strict: bool | None = None) -> Json:
    """A tool on offer. ``parameters`` is a JSON Schema."""
    function: Json = {"name": name}
    if description is not None:
        function["description"] = description
    if parameters is not None:
        function["parameters"] = parameters
    if strict is not None:
        function["strict"] = strict
    return {"type": "function", "function": function}


def named_choice(name: str) -> Json:
    """A tool choice that forces one tool."""
    return {"type": "function", "function": {"name": name}}


# --- what the engine's reply says --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Usage:
    """Tokens as the engine counted them; None is what it did not say. ``prompt`` includes ``cached``."""

    prompt: int | None = None
    completion: int | None = None
    cached: int | None = None
    reasoning: int | None = None


def usage_of(document: Mapping[str, Any]) -> Usage | None:
    """The usage of a completion or a chunk; None if it says none."""
    usage = document.get("usage")
    if not isinstance(usage, dict):
        return None
    return Usage(
        prompt=_count(usage.get("prompt_tokens")),
        completion=_count(usage.get("completion_tokens")),
        cached=_count(_within(usage, "prompt_tokens_details", "cached_tokens")),
        reasoning=_count(_within(usage, "completion_tokens_details", "reasoning_tokens")),
    )


@dataclass(frozen=True)
class ToolCall:
    """A call as the model wrote it; the id is the engine's, or made where the engine gave none or one twice."""

    id: str
    name: str
    arguments: str

    @property
    def input(self) -> Json | None:
        """The arguments as an object, no text being an empty one; None if they are no JSON object that can be written down again."""
        return object_of(self.arguments)


def object_of(arguments: str) -> Json | None:
    """Arguments as an object, no text being an empty one; None if they are not one JSON object that every JSON reader takes."""
    if not arguments.strip():
        return {}
    try:
        value: Any = json.loads(arguments, parse_constant=_no_constant, parse_float=_finite)
        json.dumps(value, ensure_ascii=False).encode("utf-8")  # a lone surrogate cannot be written down
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


@dataclass(frozen=True)
class CallPiece:
    """What one chunk adds to one call. ``position`` counts the calls of the reply in the order in which they begin."""

    position: int
    id: str
    name: str
    arguments: str
    begins: bool


class ToolCallAssembler:
    """Puts calls together from the ``tool_calls`` of chat deltas (or of a whole message, which is one large delta).

    A call begins when its name is known. A repeated id or name adds nothing; another id under the same index is another call, as
    some engines count every call 0.
    """

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._begun = 0
        self._ids: set[str] = set()

    def feed(self, deltas: object) -> list[CallPiece]:
        """What a delta's ``tool_calls`` add, in order; nothing for null or an empty list. Raises MalformedReplyError."""
        if not deltas:
            return []
        if not isinstance(deltas, list):
            raise MalformedReplyError(f"the engine's tool_calls are {told(deltas)} instead of a list")
        return [piece for place, delta in enumerate(deltas) if (piece := self._feed(delta, place)) is not None]

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls begun so far, in order."""
        begun = sorted((call for call in self._calls if call.position is not None), key=lambda call: call.position or 0)
        return tuple(ToolCall(call.id or "", call.name, "".join(call.arguments)) for call in begun)

    @property
    def nameless(self) -> tuple[str, ...]:
        """The arguments of calls for which no name has come: no dialect can say them."""
        return tuple("".join(call.arguments) for call in self._calls if call.position is None)

    def _feed(self, delta: object, place: int) -> CallPiece | None:
        if not isinstance(delta, dict):
            raise MalformedReplyError(f"a tool call of the engine's is {told(delta)} instead of an object")
        function = delta.get("function")
        function = function if isinstance(function, dict) else {}
        index = delta.get("index")
        index = index if isinstance(index, int) else place
        given, name, arguments = _text(delta.get("id")), _text(function.get("name")), _arguments(function.get("arguments"))
        call = self._by_index.get(index)
        if call is None or (given and name and call.given and given != call.given):
            call = self._by_index[index] = _Call()
            self._calls.append(call)
        call.given = call.given or given
        call.name = call.name or name
        call.arguments.append(arguments)
        if call.position is None:
            if not call.name:
                return None
            call.position = self._begun
            self._begun += 1
            call.id = call.given if call.given and call.given not in self._ids else make_id("call_")
            self._ids.add(call.id)
            return CallPiece(call.position, call.id, call.name, "".join(call.arguments), begins=True)
        return CallPiece(call.position, call.id or "", call.name, arguments, begins=False)


@dataclass
class _Call:
    given: str = ""
    id: str | None = None
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    position: int | None = None


@dataclass(frozen=True)
class Spoken:
    """What one choice says: a whole message, or what a chunk adds to it. Texts are empty where nothing is said."""

    reasoning: str = ""
    text: str = ""
    refusal: str = ""
    tool_calls: object = None
    """For a ToolCallAssembler."""
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    """vLLM: the stop string (or the id of the stop token) that ended the reply."""


def spoken(document: Mapping[str, Any], index: int = 0) -> Spoken | None:
    """What a completion or a chunk says in the choice of that index; None if it has no such choice. Raises MalformedReplyError."""
    choices = document.get("choices")
    if not isinstance(choices, list):
        raise MalformedReplyError("the engine's reply has no list of choices")
    for place, choice in enumerate(choices):
        if not isinstance(choice, dict):
            raise MalformedReplyError(f"a choice of the engine's is {told(choice)} instead of an object")
        if choice.get("index", place) != index:
            continue
        message = choice.get("message", choice.get("delta"))
        message = message if isinstance(message, dict) else {}
        return Spoken(
            reasoning=_text(message.get("reasoning_content")) or _text(message.get("reasoning")),
            text=_text(message.get("content")),
            refusal=_text(message.get("refusal")),
            tool_calls=message.get("tool_calls"),
            finish_reason=_text(choice.get("finish_reason")) or None,
            stop_reason=choice.get("stop_reason"),
        )
    return None


def error_of(body: bytes) -> tuple[str, str | None, str | None]:
    """Message, type and code of an engine's error: OpenAI's shape, FastAPI's ``detail``, or the text as it is."""
    text = body.decode("utf-8", "replace")
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError):
        return text.strip(), None, None
    error = document.get("error", document) if isinstance(document, dict) else document
    if not isinstance(error, dict):
        return error if isinstance(error, str) else text.strip(), None, None
    message = error.get("message", error.get("detail"))
    kind, code = error.get("type"), error.get("code")
    return (
        message if isinstance(message, str) else text.strip(),
        kind if isinstance(kind, str) else None,
        None if code is None else str(code),
    )


@dataclass(frozen=True)
class Overflow:
    """A prompt too long for the engine, in tokens. vLLM stops counting at the limit: ``prompt`` may be a lower bound."""

    prompt: int
    limit: int


def overflow_of(message: str) -> Overflow | None:
    """What an engine's error message says of a context overflow; None if it is about something else."""
    if (limit := _LIMIT.search(message)) is None:
        return None
    prompt = _PROMPT.search(message)
    most = int(limit.group(1))
    return Overflow(max(int(prompt.group(1)), most + 1) if prompt else most + 1, most)


_LIMIT = re.compile(r"maximum (?:context|model) length (?:is|of) (\d+)")
_PROMPT = re.compile(r"(?:contains at least|contains|requested|\(length) (\d+)")


def join(texts: Iterable[str]) -> str | None:
    """The texts as one; None if there are none."""
    joined = list(texts)
    return "".join(joined) if joined else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _arguments(value: object) -> str:
    """Arguments are text on the wire; an engine that sends the value itself is read as having written that JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _within(fields: Mapping[str, Any], *names: str) -> object:
    value: object = fields
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _no_constant(name: str) -> float:
    raise ValueError(name)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number
