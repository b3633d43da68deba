"""Reads chat-completions bodies, streamed or not, on its own: a second witness beside the proxy that wrote the record.

Nothing here raises on bad bytes: what cannot be read is None or missing, and the checks say so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

from pytest_harness.contract.linked import graph_of
from pytest_harness.contract.memo import once_per_evidence
from pytest_harness.evidence.model import Call, Dialect, Evidence, Message
from pytest_harness.graph import is_model_call

DONE = "[DONE]"

LARGE = 2**16
"""A longer body is read anew each time: what was read of it is not worth the memory."""

_EXACT = frozenset({int, str, bool, type(None)})
"""Kinds of which equal values of one kind are identical."""


@dataclass(slots=True)
class ToolCall:
    """A tool call of the model: ``arguments`` is the text as it was written."""

    id: Any
    name: Any
    arguments: str


@dataclass(slots=True)
class Choice:
    """One choice of a reply, put together from its chunks if it was streamed."""

    text: str = ""
    reasoning: str = ""
    by_index: dict[Any, ToolCall] = field(default_factory=dict)
    finish_reason: Any = None
    stop_reason: Any = None
    """The stop string that was met, or the id of the token that ended the reply, where the engine says so."""
    token_ids: list[Any] | None = None
    logprobs: list[Any] | None = None
    """The ``logprob`` of each entry."""
    tokens: list[Any] | None = None
    """The ``token`` of each entry, e.g. ``token_id:17``."""
    top_logprobs: list[Any] | None = None
    """The ``top_logprobs`` of each entry."""
    withheld: bool = False
    """Whether the harness was not given the calls, as one of them is none in its dialect: they are the engine's."""

    @property
    def calls(self) -> list[ToolCall]:
        """The tool calls, in the order in which they began."""
        return list(self.by_index.values())


@dataclass(slots=True)
class Reply:
    """A whole reply. ``choices`` by index; ``usage`` None where the reply has none."""

    id: Any = None
    model: Any = None
    fingerprint: Any = None
    """The ``system_fingerprint``: which engine, in which version and setting, has answered."""
    choices: dict[int, Choice] = field(default_factory=dict)
    usage: dict[str, Any] | None = None
    prompt_ids: list[Any] | None = None

    @property
    def calls(self) -> list[ToolCall]:
        """The tool calls of all choices."""
        return [call for choice in self.choices.values() for call in choice.calls]


@dataclass(frozen=True, slots=True)
class Turn:
    """A model call with its bodies parsed; nearly always one that the engine answered in full and whose client stayed.

    The engine is always asked in chat completions. What the harness asked and got is read by the reader of its dialect. A dialect without
    one has what the translation made of its request and was given for its reply: a requirement on the harness's own bytes applies to
    chat alone.
    """

    call: Call
    request: dict[str, Any]
    """The request as the harness sent it."""
    forwarded: dict[str, Any]
    """The request as it was sent to the engine."""
    engine: Reply
    """What the engine said, from the bytes that came from it."""
    harness: Reply
    """What the harness was to get."""

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation as the harness sent it."""
        messages = self.request.get("messages")
        return [message for message in messages if isinstance(message, dict)] if isinstance(messages, list) else []

    @property
    def has_tools(self) -> bool:
        """Whether the harness offered any tool."""
        return bool(self.request.get("tools"))


def line(call: Call) -> str:
    """Where this call stands in the evidence."""
    return f"calls.ndjson line {call.index + 1}"


class Reader(Protocol):
    """Reads the harness's side of a call in one dialect, into the words of chat completions."""

    def request(self, call: Call) -> dict[str, Any]:
        """What the harness asked: ``messages``, ``tools``, ``stream`` and so on; empty where the bytes are no request."""
        ...

    def reply(self, call: Call) -> Reply:
        """What the harness was given; an empty reply where the bytes are none."""
        ...


class _Chat:
    def request(self, call: Call) -> dict[str, Any]:
        return document(call.received) or {}

    def reply(self, call: Call) -> Reply:
        return parse_reply(call.delivered)


class _Translation:
    """Sees only the engine's side."""

    def request(self, call: Call) -> dict[str, Any]:
        return document(call.forwarded) or {}

    def reply(self, call: Call) -> Reply:
        return parse_reply(call.replied)


READERS: dict[Dialect, Reader] = {"chat": _Chat()}
"""The reader of each dialect that has one. Any other is read from the engine's side."""

_TRANSLATION = _Translation()


@once_per_evidence
def asked(evidence: Evidence) -> tuple[Turn, ...]:
    """The model calls that were sent to the engine, whatever became of them, in order of arrival. What has no answer has empty replies."""
    found = []
    for call in evidence.calls:
        if is_model_call(call) and (call.forwarded is not None or call.outcome == "complete"):
            reader = READERS.get(call.dialect, _TRANSLATION)
            sides = reader.request(call), document(call.forwarded) or {}
            found.append(Turn(call, *sides, engine=parse_reply(call.replied), harness=reader.reply(call)))
    return tuple(found)


@once_per_evidence
def turns(evidence: Evidence) -> tuple[Turn, ...]:
    """The model calls that were answered in full to a client that did not leave, in order of arrival."""
    return tuple(turn for turn in asked(evidence) if turn.call.outcome == "complete" and turn.call.delivery != "client_gone")


@once_per_evidence
def steps(evidence: Evidence) -> tuple[tuple[Turn, ...], ...]:
    """The turns of the agent grouped by prompt: a retry of the same prompt is the same step."""
    groups: dict[Any, list[Turn]] = {}
    for turn in conversation(evidence):
        ids = turn.engine.prompt_ids
        groups.setdefault(json.dumps(ids) if ids else turn.call.index, []).append(turn)
    return tuple(tuple(group) for group in groups.values())


def conversation(evidence: Evidence) -> tuple[Turn, ...]:
    """The turns of the agent: all but side calls and subagents, as the graph tells them; without ids, all but those that offer no tools
    where others do."""
    everything = turns(evidence)
    roles = {turn.call: turn.role for turn in graph_of(evidence).turns}
    offering = any(turn.has_tools for turn in everything)
    return tuple(
        turn for turn in everything if roles.get(turn.call.index, "agent" if turn.has_tools or not offering else "side") == "agent"
    )


def document(message: Message | None) -> dict[str, Any] | None:
    """The JSON object in a body, or None."""
    value = parse_json(message.body) if message is not None else None
    return value if isinstance(value, dict) else None


def parse_json(text: Any) -> Any:
    """The JSON value of a text, or None if it is not JSON."""
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return None


def is_json(text: Any) -> bool:
    """Whether a text is JSON, ``null`` too."""
    return parse_json(text) is not None or (isinstance(text, str) and text.strip() == "null")


def is_stream(message: Message | None) -> bool:
    """Whether the body is a stream of server-sent events, by its bytes."""
    return message is not None and not message.body.lstrip().startswith("{")


def events(message: Message | None) -> Iterator[str]:
    """The data of each server-sent event; comments (keep-alives) and other fields are left out."""
    return iter(()) if message is None else _events(message.body)


def _events(body: str) -> Iterator[str]:
    for block in body.replace("\r\n", "\n").replace("\r", "\n").split("\n\n"):
        data = [row[5:].removeprefix(" ") for row in block.split("\n") if row.startswith("data:")]
        if data:
            yield "\n".join(data)


def chunks(message: Message | None) -> Iterator[dict[str, Any]]:
    """The JSON objects of a stream, in order, without its end mark. They are shared: nobody may change them."""
    if message is not None:
        yield from (_objects if len(message.body) > LARGE else _known_objects)(message.body)


def parse_reply(message: Message | None) -> Reply:
    """The reply in these bytes; an empty one where there are none. It is shared: nobody may change it."""
    if message is None:
        return Reply()
    return (_reply if len(message.body) > LARGE else _known_reply)(message.body)


def _objects(body: str) -> tuple[dict[str, Any], ...]:
    return tuple(value for value in map(parse_json, _events(body)) if isinstance(value, dict))


def _reply(body: str) -> Reply:
    reply = Reply()
    whole = parse_json(body)
    for part in [whole] if isinstance(whole, dict) else _objects(body):
        reply.id = part.get("id") if reply.id is None else reply.id
        reply.model = part.get("model") if reply.model is None else reply.model
        reply.fingerprint = part.get("system_fingerprint") or reply.fingerprint
        if isinstance(part.get("usage"), dict):
            reply.usage = part["usage"]
        choices = choices_of(part)
        # vLLM tells the ids of the prompt beside the choices, SGLang in each of them.
        prompts = [part] if part.get("prompt_token_ids") is not None else [choice for _, choice in choices]
        listed = [place["prompt_token_ids"] for place in prompts if isinstance(place.get("prompt_token_ids"), list)]
        if listed and listed.count(listed[0]) == len(listed):
            reply.prompt_ids = listed[0]
        for index, choice in choices:
            _add(reply.choices.setdefault(index, Choice()), choice)
    return reply


_known_objects = lru_cache(maxsize=256)(_objects)
_known_reply = lru_cache(maxsize=256)(_reply)


def choices_of(part: Mapping[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    """The choices in a reply or a chunk, each with its index; where that is no number, its place stands for it."""
    numbered = enumerate(_dicts(part.get("choices")))
    return [(choice["index"] if type(choice.get("index")) is int else place, choice) for place, choice in numbered]


def call_objects(message: Mapping[str, Any]) -> list[ToolCall]:
    """The tool calls of a message in a request or a reply."""
    return [_tool_call(call) for call in _dicts(message.get("tool_calls"))]


def plain_text(message: Mapping[str, Any]) -> str:
    """The text of a message of a request, its parts put together."""
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    return "".join(str(part.get("text") or "") for part in parts if isinstance(part, dict))


def same_json(one: str, other: str) -> bool:
    """Whether two texts are the same JSON value; texts that are no JSON must be equal."""
    if one == other:
        return True
    left, right = parse_json(one), parse_json(other)
    return left is not None and right is not None and identical(left, right)


def identical(one: Any, other: Any) -> bool:
    """Equal in value and kind: unlike ``==`` it tells 1 from 1.0 and from True, and holds NaN equal to itself."""
    waiting = [(one, other)]  # a list and no recursion, which a body that can be read may be too deep for
    while waiting:
        left, right = waiting.pop()
        if isinstance(left, list | tuple) and isinstance(right, list | tuple):
            kinds = list(map(type, left))
            if len(left) != len(right) or (_EXACT.issuperset(kinds) and kinds != list(map(type, right))):
                return False
            if not _EXACT.issuperset(kinds):
                waiting += zip(left, right, strict=True)
            elif list(left) != list(right):  # ids: as many as a prompt is long
                return False
        elif isinstance(left, dict) and isinstance(right, dict):
            if left.keys() != right.keys():
                return False
            waiting += ((value, right[key]) for key, value in left.items())
        elif type(left) is not type(right) or (left != right and (left == left or right == right)):  # noqa: PLR0124 - NaN
            return False
    return True


def first_difference(one: Any, other: Any) -> str:
    """In a few words, where two lists of ids differ."""
    if one is None or other is None:
        return f"{_count(one)} against {_count(other)}"
    for position, (left, right) in enumerate(zip(one, other, strict=False)):
        if not identical(left, right):
            return f"{left!r} against {right!r} at position {position}"
    return f"{_count(one)} against {_count(other)}"


def short(value: Any, limit: int = 120) -> str:
    """A value as text, cut to a readable length."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


def _count(ids: Any) -> str:
    return "none" if ids is None else f"{len(ids)} entries"


def _add(choice: Choice, part: dict[str, Any]) -> None:
    message = part.get("delta") if isinstance(part.get("delta"), dict) else part.get("message")
    if isinstance(message, dict):
        choice.text += _text(message.get("content"))
        choice.reasoning += _text(message.get("reasoning")) or _text(message.get("reasoning_content"))
        for position, fragment in enumerate(_dicts(message.get("tool_calls"))):
            index = fragment.get("index", position)
            _add_call(choice.by_index, index if isinstance(index, int) else repr(index), _tool_call(fragment))
    if part.get("finish_reason") is not None:
        choice.finish_reason = part["finish_reason"]
    if part.get("stop_reason") is not None:
        choice.stop_reason = part["stop_reason"]
    if isinstance(part.get("token_ids"), list):
        choice.token_ids = [*(choice.token_ids or []), *part["token_ids"]]
    logprobs = part.get("logprobs")
    if isinstance(logprobs, dict) and isinstance(logprobs.get("content"), list):
        entries = [entry if isinstance(entry, dict) else {} for entry in logprobs["content"]]
        choice.logprobs = [*(choice.logprobs or []), *(entry.get("logprob") for entry in entries)]
        choice.tokens = [*(choice.tokens or []), *(entry.get("token") for entry in entries)]
        choice.top_logprobs = [*(choice.top_logprobs or []), *(entry.get("top_logprobs") for entry in entries)]


def _add_call(calls: dict[Any, ToolCall], index: Any, fragment: ToolCall) -> None:
    call = calls.setdefault(index, ToolCall(None, None, ""))
    call.id = fragment.id if call.id is None else call.id
    call.name = fragment.name if call.name is None else call.name
    call.arguments += fragment.arguments


def _tool_call(call: dict[str, Any]) -> ToolCall:
    function = call.get("function")
    function = function if isinstance(function, dict) else {}
    return ToolCall(call.get("id"), function.get("name"), _text(function.get("arguments")))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
