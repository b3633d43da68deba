"""Gemini's contents as chat messages: parts, and which function response answers which function call.

Chat completions pair by id, Gemini by id where the client gives one (many invent their own, or leave them out), else by name and order
in the turn. The engine sees the id it gave where our signature comes back with the call; else the client's, if it is the only one of that
name in the conversation; else ``gemini-call-N``, N counting the calls of the conversation from 0, the same in every later request.

All neighbouring contents of the model are one turn (google-genai keeps a content for each chunk of a stream), and all neighbouring other
contents follow it together. The responses of a turn come first among what follows it and in the order of the calls, as chat completions
want them: a chat template shows no ids. Whatever leaves the pairing open is refused in Google's words.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from pytest_harness.capture.dialects.base import RefusalError
from pytest_harness.capture.dialects.gemini_fields import fields
from pytest_harness.capture.dialects.gemini_signature import Signature, arguments_of, read_signature, standard_base64
from pytest_harness.capture.dialects.neutral import (
    Json,
    assistant_message,
    content_of,
    data_url,
    expect,
    image_part,
    text_part,
    tool_call,
    tool_message,
)

_ROLES = {"user": False, "function": False, "tool": False, "model": True}
_ABOUT = frozenset({"thought", "thoughtSignature", "videoMetadata", "mediaResolution", "partMetadata"})
"""Fields of a part that say something of its content."""
_COUNTS = (
    "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn."
)
_FOLLOWS = "Please ensure that function response turn comes immediately after a function call turn."


@dataclass(frozen=True)
class _Part:
    """One part: its one content, by the name of its field, and what is said of it."""

    kind: str
    value: Any
    thought: bool
    signature: Signature | None
    where: str


@dataclass(frozen=True)
class _Call:
    """A call of the turn before: the client's id for it, and the one that the engine sees."""

    given: str | None
    name: str
    chat_id: str


def system_message(instruction: object) -> Json:
    """The system message of a ``systemInstruction``: a string, a content, or a list of parts. Raises RefusalError."""
    where = "systemInstruction"
    if isinstance(instruction, str):
        return {"role": "system", "content": instruction}
    parts = instruction if isinstance(instruction, list) else fields(instruction, where).get("parts", [])
    if isinstance(parts, dict):
        parts = [parts]
    texts = []
    for part in _parts(parts, f"{where}.parts"):
        if part.kind != "text":
            raise RefusalError(f"{part.where}.{part.kind} is not supported: a system instruction may only contain text", part.where)
        texts.append(text_part(part.value))
    return {"role": "system", "content": content_of(texts)}


def messages_of(contents: object, notes: list[str]) -> list[Json]:
    """The messages of a conversation, in its order; ``notes`` is added to. Raises RefusalError."""
    read = [_content(content, f"contents[{place}]") for place, content in enumerate(expect(contents, list, "contents"))]
    if not read:
        raise RefusalError("* GenerateContentRequest.contents: contents is not specified", "contents")
    messages: list[Json] = []
    ids = _Ids()
    calls: list[_Call] = []
    for model, run in groupby(read, key=lambda content: content[0]):
        if model:
            message, calls = _turn([part for _, parts in run for part in parts], ids, notes)
            messages.append(message)
        else:
            messages += _answers(calls, [parts for _, parts in run], notes)
            calls = []
    if calls:
        raise RefusalError(_COUNTS, "contents")
    return messages


def _content(content: object, where: str) -> tuple[bool, list[_Part]]:
    """Whether a content is the model's, and its parts."""
    read = fields(content, where)
    role = read.get("role", "user")
    if role not in _ROLES:
        raise RefusalError("Please use a valid role: user, model.", f"{where}.role")
    parts = list(_parts(read.get("parts", []), f"{where}.parts"))
    if not parts:
        raise RefusalError(f"* GenerateContentRequest.{where}.parts: contents.parts must not be empty.", f"{where}.parts")
    return _ROLES[role], parts


def _parts(parts: object, where: str) -> Iterator[_Part]:
    for place, part in enumerate(expect(parts, list, where)):
        here = f"{where}[{place}]"
        if isinstance(part, str):
            part = {"text": part}  # noqa: PLW2901
        read = fields(part, here)
        kinds = [name for name in read if name not in _ABOUT]
        if len(kinds) > 1:
            raise RefusalError(f"{here} has {' and '.join(kinds)}; a part has one content, so make parts of them", here)
        if not kinds and "thoughtSignature" not in read:
            raise RefusalError(f"* GenerateContentRequest.{here}.data: required oneof field 'data' must have one initialized field", here)
        kind = kinds[0] if kinds else "text"
        value = read[kind] if kinds else ""
        if kind == "text":
            expect(value, str, f"{here}.text")
        signature = read_signature(expect(read.get("thoughtSignature", ""), str, f"{here}.thoughtSignature"), f"{here}.thoughtSignature")
        yield _Part(kind, value, read.get("thought") is True, signature, here)


# --- the model's turn --------------------------------------------------------------------------------------------------------------------


class _Ids:
    """Gives the calls of a conversation ids that are unique in it."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._count = 0

    def of(self, given: str | None, signature: Signature | None, taken: set[str]) -> str:
        """The id of the next call; ``taken`` are those of its turn. The engine's own may come again in a later turn, if it says so."""
        signed = None if signature is None else signature.call_id
        if signed and signed not in taken:
            chosen = signed
        elif given and given not in self._seen:
            chosen = given
        else:
            chosen = f"gemini-call-{self._count}"
            while chosen in self._seen:
                chosen += "-"
        self._count += 1
        self._seen.add(chosen)
        taken.add(chosen)
        return chosen


def _turn(parts: Sequence[_Part], ids: _Ids, notes: list[str]) -> tuple[Json, list[_Call]]:
    """The assistant message of a turn, and its calls."""
    texts: list[str] = []
    thoughts: list[str] = []
    reasoning: str | None = None
    calls: list[_Call] = []
    chat_calls: list[Json] = []
    taken: set[str] = set()
    for part in parts:
        if reasoning is None and part.signature is not None:
            reasoning = part.signature.reasoning
        if part.kind == "text":
            (thoughts if part.thought else texts).append(part.value)
            if calls and part.value and not part.thought:
                notes.append(f"{part.where}.text stands after a function call; the engine is told it before the calls of its turn")
        elif part.kind == "functionCall":
            call, chat_call = _function_call(part, ids, taken)
            calls.append(call)
            chat_calls.append(chat_call)
        else:
            raise RefusalError(
                f"{part.where}.{part.kind} is not supported in a turn of the model: chat completions cannot say it", part.where
            )
    if reasoning is None and thoughts:
        reasoning = "".join(thoughts)
    text = "".join(texts)
    return assistant_message(text or None if chat_calls else text, reasoning, chat_calls), calls


def _function_call(part: _Part, ids: _Ids, taken: set[str]) -> tuple[_Call, Json]:
    where = f"{part.where}.functionCall"
    read = fields(part.value, where)
    name = _name(read, where)
    args = expect(read.get("args", {}), dict, f"{where}.args")
    given = expect(read.get("id", ""), str, f"{where}.id") or None
    signature = part.signature if part.signature is not None and part.signature.name == name else None
    chat_id = ids.of(given, signature, taken)
    return _Call(given, name, chat_id), tool_call(chat_id, name, arguments_of(args, signature))


def _name(read: Json, where: str) -> str:
    name = expect(read.get("name", ""), str, f"{where}.name")
    if not name:
        kind = "function_call" if where.endswith("Call") else "function_response"
        raise RefusalError(f"* GenerateContentRequest.{where}.name: [FIELD_INVALID] {kind}.name: Name cannot be empty.", f"{where}.name")
    return name


# --- what follows it ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Response:
    given: str | None
    name: str
    content: str | list[Json]
    where: str


def _answers(calls: Sequence[_Call], contents: Sequence[Sequence[_Part]], notes: list[str]) -> list[Json]:
    """The messages of neighbouring contents that are not the model's: first the results of ``calls``, then the rest, in its order."""
    responses = [_response(part) for parts in contents for part in parts if part.kind == "functionResponse"]
    if responses and not calls:
        raise RefusalError(_FOLLOWS, responses[0].where)
    if len(responses) != len(calls):
        raise RefusalError(_COUNTS, "contents")
    paired = _paired(calls, responses)
    order = [part.kind == "functionResponse" for parts in contents for part in parts]
    if order != sorted(order, reverse=True):
        notes.append(f"{contents[0][0].where}: what stands before a function response is told to the engine after it")
    messages = [tool_message(call.chat_id, paired[place].content) for place, call in enumerate(calls)]
    for parts in contents:
        rest = [_user_part(part) for part in parts if part.kind != "functionResponse"]
        if rest:
            messages.append({"role": "user", "content": content_of(rest)})
    return messages


def _paired(calls: Sequence[_Call], responses: Sequence[_Response]) -> dict[int, _Response]:
    """The response to each call, by the call's place: by id where a call has the response's id, else by name and order."""
    paired: dict[int, _Response] = {}
    by_name: list[_Response] = []
    for response in responses:
        same = [place for place, call in enumerate(calls) if response.given is not None and call.given == response.given]
        if not same:
            by_name.append(response)
            continue
        place = next((place for place in same if place not in paired), None)
        if place is None:
            raise RefusalError(f'{_COUNTS} ({response.where}: id "{response.given}" is answered already)', response.where)
        paired[place] = response
    for response in by_name:
        # A response whose id no call has can only be told by its name if the calls have no ids that it contradicts.
        places = [place for place, call in enumerate(calls) if place not in paired and call.name == response.name]
        place = next((place for place in places if response.given is None or calls[place].given is None), None)
        if place is None:
            asked = response.name if response.given is None else f'{response.name} with id "{response.given}"'
            raise RefusalError(f"{_COUNTS} ({response.where}: no unanswered function call {asked} in the turn before)", response.where)
        paired[place] = response
    return paired


def _response(part: _Part) -> _Response:
    where = f"{part.where}.functionResponse"
    read = fields(part.value, where)
    response = expect(read.get("response", {}), dict, f"{where}.response")
    text = _output(response)
    media = [_user_part(piece) for piece in _parts(read.get("parts", []), f"{where}.parts")]
    given = expect(read.get("id", ""), str, f"{where}.id") or None
    return _Response(given, _name(read, where), content_of([text_part(text), *media]), where)


def _output(response: Json) -> str:
    """What a function gave as text: its ``output``, if it says nothing else and that is text; else all that it says, as JSON."""
    output = response.get("output")
    if len(response) == 1 and isinstance(output, str):
        return output
    return json.dumps(response, ensure_ascii=False)


def _user_part(part: _Part) -> Json:
    if part.kind == "text":
        return text_part(part.value)
    where = f"{part.where}.{part.kind}"
    if part.kind != "inlineData":
        raise RefusalError(f"{where} is not supported; only text, functionResponse and inlineData with an image can be sent", where)
    blob = fields(part.value, where)
    media_type = expect(blob.get("mimeType", ""), str, f"{where}.mimeType")
    if not media_type.startswith("image/"):
        raise RefusalError(f"Unsupported MIME type: {media_type or 'none'} ({where}: only images can be sent)", f"{where}.mimeType")
    return image_part(data_url(media_type, standard_base64(expect(blob.get("data", ""), str, f"{where}.data"))))
