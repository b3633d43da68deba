"""What an engine's answer shows, as plain facts: two engines agree where all facts are equal.

The samples themselves differ (one cuts a text into other tokens than the other, one has weights), so facts tell of the ids only that they
are parallel to all that must be parallel to them, and of a text that was cut at a number of tokens only that it was. The ids of the
prompt are facts as they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

Json = dict[str, Any]
Facts = dict[str, Any]
MIDDLE = "fields, middle"
Decode = Callable[[Sequence[int]], str]


@dataclass(frozen=True)
class Answer:
    """What came back: ``body`` is the text as it came."""

    status: int
    content_type: str
    body: str


def facts(answer: Answer, decode: Decode) -> Facts:
    """What an answer shows, by aspect. ``decode`` gives the text of ids, without the marks of turns."""
    told: Facts = {"status": answer.status, "content type": answer.content_type.replace(" ", "").lower()}
    if answer.content_type.startswith("text/event-stream"):
        return told | _stream_facts(answer.body, decode)
    document = json.loads(answer.body or "null")
    if answer.status != 200:
        return told | _error_facts(document)
    if not isinstance(document, Mapping) or "choices" not in document:
        tokens = document.get("tokens") if isinstance(document, Mapping) else None
        return told | {"fields": shape(document), "tokens": tokens}
    choices = [_Told.of_whole(choice) for choice in document["choices"]]
    usage = document["usage"]
    return told | {
        "fields": shape(document),
        "prompt": document["prompt_token_ids"],
        "choices": [choice.facts() for choice in choices],
        "spelling": [choice.spelling for choice in choices],
        "contract": contract(choices, usage, document["prompt_token_ids"], decode),
    }


def differences(ours: Facts, theirs: Facts) -> dict[str, tuple[Any, Any]]:
    """The aspects in which two answers differ, each with both. Where one is refused and the other is not, that says it all."""
    if ours["status"] != theirs["status"]:
        return {"status": (ours["status"], theirs["status"])}
    aspects = [*ours, *(aspect for aspect in theirs if aspect not in ours)]
    found = {aspect: (ours.get(aspect), theirs.get(aspect)) for aspect in aspects if ours.get(aspect) != theirs.get(aspect)}
    # A short reply may come in one chunk, which is then the last; there is nothing between the first and the last to compare.
    return {aspect: both for aspect, both in found.items() if aspect != MIDDLE or None not in both}


def shape(value: Any) -> Any:
    """The fields of a document and the kinds of their values; of a list, which shapes its items have."""
    if isinstance(value, Mapping):
        return {key: "bytes" if key == "bytes" and isinstance(value[key], list) else shape(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return _distinct(map(shape, value))
    kinds = {type(None): "null", bool: "flag", int: "integer", float: "number", str: "text"}
    return kinds[type(value)]


@dataclass
class _Told:
    """All that was said of one choice."""

    ids: list[int] | None
    entries: list[Json] | None
    content: str
    calls: list[Json]
    finish_reason: str | None
    stop_reason: Any

    @classmethod
    def of_whole(cls, choice: Json) -> _Told:
        message, logprobs = choice["message"], choice["logprobs"]
        entries = None if logprobs is None else logprobs["content"]
        calls = [{"id": call["id"], **call["function"]} for call in message.get("tool_calls", ())]
        return cls(choice["token_ids"], entries, message["content"] or "", calls, choice["finish_reason"], choice["stop_reason"])

    @classmethod
    def of_chunks(cls, parts: Iterable[Json]) -> _Told:
        whole = cls(None, None, "", [], None, None)
        for part in parts:
            whole._add(part)
        return whole

    def _add(self, part: Json) -> None:
        if part.get("token_ids") is not None:
            self.ids = (self.ids or []) + part["token_ids"]
        if part.get("logprobs") is not None:
            self.entries = (self.entries or []) + part["logprobs"]["content"]
        self.content += part["delta"].get("content") or ""
        for call in part["delta"].get("tool_calls") or ():
            while len(self.calls) <= call["index"]:
                self.calls.append({"id": None, "name": "", "arguments": ""})
            called = self.calls[call["index"]]
            called["id"] = called["id"] or call.get("id")
            for key in ("name", "arguments"):
                called[key] += call["function"].get(key) or ""
        self.finish_reason = part["finish_reason"] or self.finish_reason
        self.stop_reason = part.get("stop_reason") or self.stop_reason

    @property
    def spelling(self) -> list[str]:
        """The arguments of the calls as they were written."""
        return [] if self.finish_reason == "length" else [call["arguments"] for call in self.calls]

    def facts(self) -> Facts:
        """What does not hang on how the text was cut into tokens."""
        cut = self.finish_reason == "length"
        return {
            "content": None if cut else self.content,
            "calls": None if cut else [{"name": call["name"], "arguments": _parsed(call["arguments"])} for call in self.calls],
            "finish_reason": self.finish_reason,
            "stop_reason": self.stop_reason,
        }


def _parsed(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return f"no JSON: {arguments}"


def contract(choices: Sequence[_Told], usage: Json | None, prompt: Sequence[int] | None, decode: Decode) -> list[str]:
    """What breaks the token contract; nothing, if all is well."""
    broken = []
    for choice in choices:
        ids, entries = choice.ids, choice.entries
        if ids is not None and entries is not None:
            if len(ids) != len(entries):
                broken.append("ids and logprobs are not parallel")
            named = [entry["token"].removeprefix("token_id:") for entry in entries if entry["token"].startswith("token_id:")]
            if named and named != list(map(str, ids)):
                broken.append("the logprobs name other ids")
        if any(not entry["logprob"] <= 0 for entry in entries or ()):
            broken.append("a logprob above zero")
        spelled = b"".join(bytes(entry["bytes"]) for entry in entries or ()).decode(errors="replace")
        if entries and not choice.calls and not spelled.startswith(choice.content):
            broken.append("the bytes beside the logprobs are not the content")
        if ids is not None and not choice.calls and not decode(ids).startswith(choice.content):
            broken.append("the ids do not decode to the content")
        for call in choice.calls:
            if ids is not None and (json.dumps(call["name"])[1:-1] not in decode(ids) and choice.finish_reason == "tool_calls"):
                broken.append("the ids do not hold the call")
            if not call["id"]:
                broken.append("a call without an id")
    identities = [call["id"] for choice in choices for call in choice.calls]
    if len(set(identities)) != len(identities):
        broken.append("two calls of one id")
    if usage is not None:
        sampled = [len(choice.ids if choice.ids is not None else choice.entries or ()) for choice in choices]
        if all(sampled) and usage["completion_tokens"] != sum(sampled):
            broken.append("usage counts other tokens than were sampled")
        if prompt is not None and usage["prompt_tokens"] != len(prompt):
            broken.append("usage counts other tokens than the prompt has")
        if usage["total_tokens"] != usage["prompt_tokens"] + usage["completion_tokens"]:
            broken.append("the total is not the sum")
    return broken


def events_of(chunk: Json) -> list[str]:
    """What a chunk of a stream tells. An engine may put into one chunk what another puts into two; the events are the same."""
    if "error" in chunk:
        return ["error"]
    if not chunk["choices"]:
        return ["usage"]
    part = chunk["choices"][0]
    delta = part["delta"]
    calls = delta.get("tool_calls") or ()
    told = {
        "role": "role" in delta,
        "reasoning": bool(delta.get("reasoning")),
        "content": bool(delta.get("content")),
        "call": any("id" in call for call in calls),
        "arguments": any("arguments" in call["function"] for call in calls),
        "finish": bool(part["finish_reason"]),
    }
    return [event for event, happens in told.items() if happens]


def grammar(chunks: Iterable[Json]) -> list[str]:
    """The order of the events of one choice, each run of one kind told once."""
    return [event for event, _ in groupby(event for chunk in chunks for event in events_of(chunk))]


def place_of(chunk: Json) -> str:
    """Where in a stream a chunk stands: its fields hang on that."""
    events = events_of(chunk)
    return next((event for event in ("error", "usage", "role", "finish") if event in events), "middle")


def _stream_facts(body: str, decode: Decode) -> Facts:
    *events, end = body.split("\n\n")
    if end or any(not event.startswith("data: ") or "\n" in event for event in events):
        return {"events": "not each a line of data and an empty line"}
    data = [event.removeprefix("data: ") for event in events]
    done = [number for number, each in enumerate(data) if each == "[DONE]"]
    chunks = [json.loads(each) for each in data if each != "[DONE]"]
    parts = [(chunk["choices"][0]["index"], chunk) for chunk in chunks if chunk.get("choices")]
    indexes = sorted({index for index, _ in parts})
    of_choice = {index: [chunk for number, chunk in parts if number == index] for index in indexes}
    choices = [_Told.of_chunks(chunk["choices"][0] for chunk in of_choice[index]) for index in indexes]
    usage = next((chunk["usage"] for chunk in reversed(chunks) if chunk.get("usage") and not chunk["choices"]), None)
    prompt = next((chunk["prompt_token_ids"] for chunk in chunks if chunk.get("prompt_token_ids")), None)
    places = sorted({place_of(chunk) for chunk in chunks})
    return {
        "done": done == [len(data) - 1],
        "choices in one chunk": max((len(chunk.get("choices", ())) for chunk in chunks), default=0),
        "prompt": prompt,
        "choices": [choice.facts() for choice in choices],
        "spelling": [choice.spelling for choice in choices],
        "contract": contract(choices, usage, prompt, decode) + [fault for chunk in chunks for fault in _parallel(chunk)],
        "order": [grammar(of_choice[index]) for index in indexes],
        "last": place_of(chunks[-1]),
        "one identity": len({(chunk.get("id"), chunk.get("created"), chunk.get("model")) for chunk in chunks}) == 1,
        "running usage": _running(chunks),
        "empty chunks": any(map(_is_empty, chunks)),
        "deltas": _distinct(shape(delta) for chunk in chunks for delta in _apart(chunk)),
        **{f"fields, {place}": _distinct(_less_delta(chunk) for chunk in chunks if place_of(chunk) == place) for place in places},
    }


def _apart(chunk: Json) -> list[Json]:
    """The delta of a chunk, as if all that it tells had come alone; nothing, if it tells nothing."""
    if not chunk.get("choices"):
        return []
    delta = chunk["choices"][0]["delta"]
    if "role" in delta:
        return [delta]
    told = [{key: value} for key, value in delta.items() if key != "tool_calls"]
    if delta.get("tool_calls") and delta.get("content"):
        told.append({"content": None})
    for call in delta.get("tool_calls") or ():
        function = call["function"]
        if "name" in function:
            told.append({"tool_calls": [{**call, "function": {"name": function["name"]}}]})
        if "arguments" in function:
            told.append({"tool_calls": [{"index": call["index"], "function": {"arguments": function["arguments"]}}]})
    return told


def _is_empty(chunk: Json) -> bool:
    """Whether a chunk need not have been sent."""
    part = next(iter(chunk.get("choices", ())), None)
    return part is not None and not (part["delta"] or part["finish_reason"] or part["logprobs"] or part.get("token_ids"))


def _less_delta(chunk: Json) -> Any:
    """The shape of a chunk without its delta."""
    choices = [{key: value for key, value in part.items() if key != "delta"} for part in chunk.get("choices", ())]
    return shape({**chunk, "choices": choices} if choices else chunk)


def _parallel(chunk: Json) -> list[str]:
    return [
        "ids and logprobs of a chunk are not parallel"
        for part in chunk.get("choices", ())
        if part.get("token_ids") is not None and part.get("logprobs") and len(part["token_ids"]) != len(part["logprobs"]["content"])
    ]


def _running(chunks: Sequence[Json]) -> bool | None:
    """Whether the usage told in each chunk is that of its choice so far; None if no usage but the last is told."""
    told = [(chunk["choices"][0], chunk["usage"]) for chunk in chunks if chunk.get("choices") and chunk.get("usage")]
    if not told:
        return None
    seen: dict[int, int] = {}
    for part, usage in told:
        seen[part["index"]] = seen.get(part["index"], 0) + len(part.get("token_ids") or ())
        if usage["completion_tokens"] != seen[part["index"]]:
            return False
    return True


def _error_facts(document: Any) -> Facts:
    told: Facts = {"fields": shape(document)}
    error = document.get("error") if isinstance(document, Mapping) else None
    if isinstance(error, Mapping):
        told |= {"error type": error.get("type"), "error param": _param(error.get("param")), "error code": error.get("code")}
    return told


def _param(param: str | None) -> str | None:
    """The path of the field that an error blames, without the names of Python classes that stand in it: another library has others."""
    return param and ".".join(step for step in param.split(".") if not step.startswith("ChatCompletion"))


def _distinct(shapes: Iterable[Any]) -> list[Any]:
    return [json.loads(text) for text in sorted({json.dumps(each, sort_keys=True) for each in shapes})]
