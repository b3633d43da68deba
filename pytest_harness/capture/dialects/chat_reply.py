"""The engine's reply, parsed in full: what was sampled, and what of it is for the harness.

The reply goes to the harness as it came, less what it did not ask for: ``prompt_token_ids`` and ``token_ids`` are taken out,
``logprobs`` become null, the usage event and the events that carried nothing but ids are left out, as an engine leaves them out.

This is the plain way. ``cuts`` is the fast one for what engines usually send, and comes back here for everything else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pytest_harness.capture.dialects.base import MalformedReplyError
from pytest_harness.capture.dialects.chat import dump
from pytest_harness.capture.sse import EventSplitter, ServerSentEvent
from pytest_harness.evidence import Sample

DONE = b"[DONE]"


class Wishes(Protocol):
    """What the harness asked to see."""

    wants_logprobs: bool
    wants_usage: bool


class Everything:
    """One that asked to see everything."""

    wants_logprobs = wants_usage = True


@dataclass(frozen=True, slots=True)
class ReplyParts:
    """A whole reply: as it is for the harness, and what was sampled."""

    document: dict[str, Any]
    changed: bool
    prompt_ids: tuple[Any, ...] | None
    samples: tuple[Sample, ...]

    @property
    def sampled(self) -> int:
        """How many tokens were sampled."""
        return sum(len(sample.token_ids or ()) for sample in self.samples)


@dataclass(slots=True)
class Event:
    """One event of a stream, as it is for the harness; ``document`` is None for one without any."""

    document: dict[str, Any] | None
    changed: bool = False
    last_words: bool = False
    """Nothing may come after it, so it waits for the journal: the finish of a choice, an error, the end."""
    remark: bool = False
    """It is no part of the reply: a comment, a heartbeat."""


def read_whole(body: bytes, wishes: Wishes) -> ReplyParts:
    """What a whole reply with status 200 says. Raises MalformedReplyError."""
    document = _object(body, "the engine's reply")
    choices = _choices(document)
    if not choices:
        raise MalformedReplyError("the engine's reply has no choices")
    if not all(isinstance(choice.get("message"), dict) for choice in choices):
        raise MalformedReplyError("the engine's reply has a choice without a message")
    prompt_ids = _prompt_ids(document, choices)
    tallies = [_Tally(choice, position) for position, choice in enumerate(choices)]
    for tally, choice in zip(tallies, choices, strict=True):
        tally.add(choice)
    samples = tuple(tally.sample() for tally in tallies)
    return ReplyParts(document, _strip(document, choices, wishes), prompt_ids, samples)


class StreamReader:
    """Reads a stream event by event; at any moment it knows what has come so far."""

    def __init__(self, wishes: Wishes) -> None:
        self.prompt_ids: tuple[Any, ...] | None = None
        self.error: str | None = None
        """What the engine said in an error event."""
        self.done = False
        """The stream's last event has come."""
        self.begun = False
        """An event with choices has come, even if with none in them."""
        self._wishes = wishes
        self._tallies: dict[int, _Tally] = {}

    @property
    def samples(self) -> tuple[Sample, ...]:
        """The choices so far, by index."""
        return tuple(self._tallies[index].sample() for index in sorted(self._tallies))

    @property
    def sampled(self) -> int:
        """How many tokens were sampled so far."""
        return sum(tally.count for tally in self._tallies.values())

    def read(self, event: ServerSentEvent) -> Event | None:
        """What of an event is for the harness; None if nothing is. Raises MalformedReplyError."""
        data = event.data
        if data is None:
            return Event(None, remark=True)
        if data.strip() == DONE:
            if not self.begun and self.error is None:
                raise MalformedReplyError("the engine's stream has no choices")
            self.done = True
            return Event(None, last_words=True)
        document = _object(data, "an event of the engine's stream")
        if document.get("error"):
            self.error = json.dumps(document["error"])
            return Event(document, last_words=True)
        choices = _choices(document)
        self.begun = self.begun or bool(choices)
        if self.prompt_ids is None:
            self.prompt_ids = _prompt_ids(document, choices)
        for position, choice in enumerate(choices):
            tally = _Tally(choice, position)
            self._tallies.setdefault(tally.index, tally).add(choice)
        only_ids = bool(choices) and all(_carries_only_ids(choice) for choice in choices)
        changed = _strip(document, choices, self._wishes)
        if only_ids and not self._wishes.wants_logprobs:
            return None
        if not choices and "usage" in document and not self._wishes.wants_usage:
            return None
        if choices and not self._wishes.wants_usage and "usage" in document:
            del document["usage"]
            changed = True
        last_words = not choices or any(choice.get("finish_reason") is not None for choice in choices)
        return Event(document, changed, last_words)


def read_ids(body: bytes, *, streamed: bool) -> tuple[tuple[Any, ...] | None, tuple[Sample, ...]]:
    """The prompt's ids and the samples of an engine's reply, as far as it can be read."""
    if not streamed:
        try:
            parts = read_whole(body, Everything())
        except MalformedReplyError:
            return None, ()
        return parts.prompt_ids, parts.samples
    reader, splitter = StreamReader(Everything()), EventSplitter()
    try:
        for event in splitter.feed(body):
            reader.read(event)
            if reader.done:
                break
        rest = splitter.rest()
        if rest is not None and not reader.done:
            reader.read(rest)
    except MalformedReplyError:
        pass  # what came before it was sampled all the same
    return reader.prompt_ids, reader.samples


def chunks_of(completion: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A whole reply as the chunks of a stream, the usage in the last one."""
    shared = ("id", "created", "model", "system_fingerprint", "service_tier")
    head = {name: completion[name] for name in shared if name in completion} | {"object": "chat.completion.chunk"}
    chunks: list[dict[str, Any]] = []
    choices = completion["choices"]
    for position, choice in enumerate(choices):
        delta = {name: value for name, value in choice["message"].items() if value is not None}
        if delta.get("tool_calls"):
            delta["tool_calls"] = [
                {"index": place, **call} if isinstance(call, dict) else call for place, call in enumerate(delta["tool_calls"])
            ]
        index = choice.get("index", position)
        first = {"role": delta.pop("role", "assistant"), "content": ""}
        logprobs = choice.get("logprobs")
        chunks.append({**head, "choices": [{"index": index, "delta": first, "logprobs": None, "finish_reason": None}]})
        if any(delta.values()) or logprobs is not None:
            chunks.append({**head, "choices": [{"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": None}]})
    for position, choice in enumerate(choices):
        last = {
            "index": choice.get("index", position),
            "delta": {},
            "logprobs": None,
            "finish_reason": choice.get("finish_reason") or "stop",
        }
        chunks.append({**head, "choices": [last | ({"stop_reason": choice["stop_reason"]} if "stop_reason" in choice else {})]})
    if completion.get("usage") is not None:
        chunks.append({**head, "choices": [], "usage": completion["usage"]})
    return chunks


def event_of(document: Mapping[str, Any]) -> bytes:
    """A chunk as an event of a stream."""
    return b"data: " + dump(document) + b"\n\n"


class _Tally:
    """Sums up one choice over the pieces in which it comes."""

    def __init__(self, choice: Mapping[str, Any], position: int) -> None:
        index = choice.get("index")
        self.index = index if isinstance(index, int) and not isinstance(index, bool) else position
        self._ids: list[Any] | None = None
        self._logprobs: list[Any] | None = None
        self._finish: str | None = None

    @property
    def count(self) -> int:
        return len(self._ids or ())

    def add(self, choice: Mapping[str, Any]) -> None:
        self._ids = _extended(self._ids, choice.get("token_ids"))
        logprobs = choice.get("logprobs")
        content = logprobs.get("content") if isinstance(logprobs, dict) else None
        self._logprobs = _extended(
            self._logprobs,
            [entry.get("logprob") if isinstance(entry, dict) else entry for entry in content] if isinstance(content, list) else None,
        )
        finish = choice.get("finish_reason")
        if finish is not None:
            text = finish if isinstance(finish, str) else json.dumps(finish)
            self._finish = text.encode("utf-8", "backslashreplace").decode()  # a lone surrogate cannot be written down

    def sample(self) -> Sample:
        return Sample(index=self.index, token_ids=_listed(self._ids), logprobs=_listed(self._logprobs), finish_reason=self._finish)


def _strip(document: dict[str, Any], choices: Iterable[dict[str, Any]], wishes: Wishes) -> bool:
    """Take out what the harness did not ask for; tells whether anything was there."""
    changed = _take_out(document, "prompt_token_ids")
    if document.get("prompt_logprobs") is not None:
        changed |= _take_out(document, "prompt_logprobs")
    for choice in choices:
        changed |= _take_out(choice, "token_ids")
        changed |= _take_out(choice, "prompt_token_ids")
        if not wishes.wants_logprobs and choice.get("logprobs") is not None:
            choice["logprobs"] = None
            changed = True
    return changed


def _take_out(fields: dict[str, Any], name: str) -> bool:
    found = name in fields
    fields.pop(name, None)
    return found


def _carries_only_ids(choice: Mapping[str, Any]) -> bool:
    """Whether the engine sent this piece for its ids alone: vLLM sends no such piece to a client that asked for none."""
    return choice.get("token_ids") is not None and not choice.get("delta") and choice.get("finish_reason") is None


def _object(data: bytes, what: str) -> dict[str, Any]:
    try:
        document: Any = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise MalformedReplyError(f"{what} is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise MalformedReplyError(f"{what} is a JSON {type(document).__name__} instead of an object")
    return document


def _choices(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    choices = document.get("choices")
    if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
        raise MalformedReplyError("the engine's reply has no list of choices")
    return choices


def _extended(so_far: list[Any] | None, more: object) -> list[Any] | None:
    if not isinstance(more, list):
        return so_far
    if so_far is None:
        return list(more)
    so_far.extend(more)
    return so_far


def _prompt_ids(document: Mapping[str, Any], choices: Iterable[Mapping[str, Any]]) -> tuple[Any, ...] | None:
    """The prompt's ids: vLLM tells them beside the choices, SGLang in each of them. Choices that tell several prompts tell none."""
    if document.get("prompt_token_ids") is not None:
        return _listed(document["prompt_token_ids"])
    told = [choice["prompt_token_ids"] for choice in choices if choice.get("prompt_token_ids") is not None]
    return _listed(told[0]) if told and all(ids == told[0] for ids in told) else None


def _listed(values: object) -> tuple[Any, ...] | None:
    return tuple(values) if isinstance(values, list) else None
