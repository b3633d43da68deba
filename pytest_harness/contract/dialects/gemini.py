"""Reads Gemini: what a request says, and what a reply says, whole or streamed.

Names may be written in camel case or with underscores. Calls have an id only if somebody gave one, and many clients put their own in its
place: a response belongs to the call of its id in the turn before, else to the first call of its name that has none yet. All neighbouring
contents of the model are one turn.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from pytest_harness.contract.chat_wire import Reply, document, parse_json, parse_reply
from pytest_harness.contract.dialects.matching import chat_reply, chat_request
from pytest_harness.contract.dialects.neutral import (
    Asked,
    Entry,
    Event,
    Given,
    Json,
    Made,
    Output,
    Part,
    Said,
    Tool,
    count,
    events,
    fields,
    is_document,
    listed,
    objects,
    place,
    text,
    usage,
)
from pytest_harness.evidence.model import Call, Message

_FIELDS = {
    "temperature": "temperature",
    "topP": "top_p",
    "topK": "top_k",
    "maxOutputTokens": "max_tokens",
    "candidateCount": "n",
    "seed": "seed",
    "presencePenalty": "presence_penalty",
    "frequencyPenalty": "frequency_penalty",
}
_MEANS = {
    "STOP": frozenset({"stop", "tool_calls", "function_call"}),
    "MAX_TOKENS": frozenset({"length"}),
    **dict.fromkeys(("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"), frozenset({"content_filter"})),
}
_UNTOLD = {"MALFORMED_FUNCTION_CALL": _MEANS["STOP"] | {"content_filter"}, "MAX_TOKENS": _MEANS["MAX_TOKENS"]}
"""The finish reasons with which no call is given though the model began one."""
_MODES = {"ANY": "required", "NONE": "none"}


class Gemini:
    """The reader of Gemini."""

    def request(self, call: Call) -> Json:
        """What the harness asked, in the words of chat completions."""
        body = document(call.received)
        return {} if body is None else chat_request(asked(body, call.path), document(call.forwarded) or {})

    def reply(self, call: Call) -> Reply:
        """What the harness was given, in the words of chat completions."""
        reply = given(call.delivered)
        thinking = camel(fields(camel(document(call.received) or {}).get("generationConfig"))).get("thinkingConfig")
        for said in reply.choices.values():
            said.hides_reasoning = camel(fields(thinking)).get("includeThoughts") is False
        return chat_reply(reply, parse_reply(call.replied))


def camel(value: Any) -> Json:
    """The fields of an object under their names in camel case, those left out that are null."""
    return {
        re.sub(r"(?<=[a-z0-9])_([a-z0-9])", lambda found: found[1].upper(), name): content
        for name, content in fields(value).items()
        if content is not None
    }


# --- the request -------------------------------------------------------------------------------------------------------------------------


def asked(body: Json, path: str = "") -> Asked:
    """What a request says."""
    read = camel(body)
    request = Asked(streamed="streamGenerateContent" in path, own_ids=True)
    if (system := read.get("systemInstruction")) is not None:
        parts = system if isinstance(system, list | str) else camel(system).get("parts")
        request.entries.append(Entry("system", [system] if isinstance(system, str) else [_part(part) for part in parts_of(parts)]))
    request.entries += _entries(objects(read.get("contents")))
    request.tools = [_tool(camel(one)) for tool in objects(read.get("tools")) for one in objects(camel(tool).get("functionDeclarations"))]
    config = camel(read.get("generationConfig"))
    request.fields = {_FIELDS[name]: config[name] for name in _FIELDS.keys() & config.keys()}
    if config.get("stopSequences"):
        request.fields["stop"] = config["stopSequences"]
    if {"responseSchema", "responseJsonSchema"} & config.keys() or config.get("responseMimeType") == "application/json":
        request.demands.add("response_format")
    if config.get("responseLogprobs") is True:
        request.fields["logprobs"] = True
    level = text(camel(config.get("thinkingConfig")).get("thinkingLevel")).lower()
    if level and not level.endswith("unspecified"):
        request.fields["reasoning_effort"] = level
    _choose(camel(camel(read.get("toolConfig")).get("functionCallingConfig")), request)
    return request


def parts_of(parts: Any) -> list[Json]:
    """The parts of a content, their fields in camel case; a string is a part of text."""
    several = parts if isinstance(parts, list) else [parts]
    return [{"text": part} if isinstance(part, str) else camel(part) for part in several if isinstance(part, str | dict)]


@dataclass(slots=True)
class _Response:
    """The result of a call: ``id`` None where the harness gave none."""

    id: Any
    name: Any
    parts: list[Part]


def _entries(contents: Sequence[Json]) -> Iterator[Entry]:
    calls: list[Made] = []
    number = 0
    for model, run in groupby(contents, key=lambda content: content.get("role") == "model"):
        parts = [parts_of(content.get("parts")) for content in run]
        if model:
            turn = _turn([part for content in parts for part in content], number)
            calls = turn.calls
            number += len(calls)
            yield turn
        else:
            yield from _answers(calls, parts)
            calls = []


def _turn(parts: Sequence[Json], number: int) -> Entry:
    """A turn of the model. A call without an id is known by its number in the conversation."""
    calls: list[Made] = []
    for part in parts:
        if "functionCall" in part:
            call = camel(part["functionCall"])
            arguments = json.dumps(call.get("args", {}), ensure_ascii=False)
            calls.append(Made([number + len(calls), call.get("id")], (call.get("name"),), arguments, "value"))
    sealed = any("thoughtSignature" in part for part in parts)
    thoughts = "".join(text(part.get("text")) for part in parts if part.get("thought") is True)
    told: list[Part] = [_part(part) for part in parts if "functionCall" not in part and part.get("thought") is not True]
    return Entry("assistant", told, None if sealed else frozenset({thoughts}), calls)


def _answers(calls: Sequence[Made], contents: Iterable[Sequence[Json]]) -> Iterator[Entry]:
    """First the results of the calls, in the calls' order, as nothing may come between; then what else was said."""
    contents = list(contents)
    responses = [_response(part) for parts in contents for part in parts if "functionResponse" in part]
    for call in calls:
        response = next((one for one in responses if one.id is not None and one.id == call.id[1]), None) or next(
            (one for one in responses if one.name in call.names and (one.id is None or call.id[1] is None)), None
        )
        if response is not None:
            responses.remove(response)
            yield Entry("tool", response.parts, answers=call.id)
    for stray in responses:
        yield Entry("tool", stray.parts, answers=["stray", stray.id])
    for parts in contents:
        if rest := [_part(part) for part in parts if "functionResponse" not in part]:
            yield Entry("user", rest)


def _response(part: Json) -> _Response:
    read = camel(part["functionResponse"])
    media = [_part(piece) for piece in parts_of(read.get("parts", []))]
    return _Response(read.get("id"), read.get("name"), [Output(fields(read.get("response"))), *media])


def _part(part: Json) -> Part:
    if "inlineData" in part:
        blob = camel(part["inlineData"])
        data = text(blob.get("data")).replace("-", "+").replace("_", "/")
        return {"type": "image_url", "image_url": {"url": f"data:{blob.get('mimeType')};base64,{data}{'=' * (-len(data) % 4)}"}}
    return part["text"] if isinstance(part.get("text"), str) else "" if set(part) <= {"thoughtSignature"} else part


def _tool(declaration: Json) -> Tool:
    schema = declaration.get("parametersJsonSchema", declaration.get("parameters"))
    return Tool((declaration.get("name"),), text(declaration.get("description")), schema)


def _choose(calling: Json, request: Asked) -> None:
    mode, allowed = text(calling.get("mode")).upper(), listed(calling.get("allowedFunctionNames"))
    if allowed:
        request.optional_tools = tuple(name for tool in request.tools for name in tool.names if name not in allowed)
    if request.tools and mode in _MODES:
        if mode == "ANY" and len(allowed) == 1:
            request.fields["tool_choice"] = {"type": "function", "function": {"name": allowed[0]}}
        else:
            request.fields["tool_choice"] = _MODES[mode]


# --- the reply ---------------------------------------------------------------------------------------------------------------------------


def chunks(message: Message | None) -> list[Event]:
    """The parts of a stream, which is one of events or, without ``alt=sse``, one JSON array; a whole reply is one part."""
    if message is None or is_document(message):
        body = document(message)
        return [] if message is None else [Event(None, body, message.body)]
    if message.body.lstrip().startswith("["):
        parts = listed(parse_json(message.body))
        return [Event(None, part if isinstance(part, dict) else None, json.dumps(part)) for part in parts]
    return list(events(message))


def given(message: Message | None) -> Given:
    """What a reply says."""
    reply = Given()
    for chunk in chunks(message):
        data = chunk.data or {}
        reply.id = data.get("responseId") if reply.id is None else reply.id
        if isinstance(data.get("usageMetadata"), dict):
            reply.usage = _usage(data["usageMetadata"])
        for number, candidate in enumerate(objects(data.get("candidates"))):
            said = reply.choices.setdefault(place(candidate.get("index"), number), Said())
            _hear(said, objects(fields(candidate.get("content")).get("parts")))
            if candidate.get("finishReason") is not None:
                said.finish = candidate["finishReason"]
                said.means = _MEANS.get(text(said.finish), frozenset())
                said.untold = _UNTOLD.get(text(said.finish), frozenset())
    return reply


def _hear(said: Said, parts: Iterable[Json]) -> None:
    for part in parts:
        if "functionCall" in part:
            call = fields(part["functionCall"])
            arguments = json.dumps(call.get("args", {}), ensure_ascii=False)
            said.calls.append(Made(call.get("id"), (call.get("name"),), arguments, "value"))
        elif part.get("thought") is True:
            said.reasoning += text(part.get("text"))
        else:
            said.text += text(part.get("text"))


def _usage(counts: Json) -> Json:
    """The vendor counts thoughts apart; of the engine they are part of the completion."""
    answer, thoughts = count(counts.get("candidatesTokenCount")), count(counts.get("thoughtsTokenCount"))
    completion = None if answer is None else answer + (thoughts or 0)
    return usage(count(counts.get("promptTokenCount")), completion, count(counts.get("cachedContentTokenCount")))
