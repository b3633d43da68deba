"""OpenAI chat completions: what goes to the engine, and what of its reply goes to the harness.

The request goes on as it came, but for these fields. With the first group a client could switch the capture off; with the
second it could make the engine answer another prompt than the one it sent, or deliver what was not sampled.

========================== =============================================================================================
field                      what becomes of it
========================== =============================================================================================
model                      the served model's name, whatever the harness says
return_token_ids           true
logprobs                   true; a harness's own ``true`` is remembered, and then it gets them
top_logprobs               the harness's own if it asked for logprobs, else 0 (in vLLM null would mean no logprobs at all)
return_tokens_as_token_ids true unless the harness gets the logprobs: a second witness of which logprob belongs to which id
stream_options             include_usage true in a stream; a harness's own ``true`` is remembered, and then it gets the usage
chat_template              refused: another template is another prompt
add_generation_prompt      refused when false, continue_final_message and echo when true: the reply would not be a turn of its own
truncate_prompt_tokens     refused: part of the prompt would vanish unseen
prompt_logprobs            refused: it turns prefix caching off, and no harness needs it
chat_template_kwargs       passed on (harnesses switch thinking with it, and the prompt ids show what came of it), unless one
                           of the fields above hides in it
========================== =============================================================================================

The reply goes to the harness as it came, less what it did not ask for: ``prompt_token_ids`` and ``token_ids`` are taken out,
``logprobs`` become null, the usage event and the events that carried nothing but ids are left out, as an engine leaves them out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_harness.capture.sse import ServerSentEvent
from pytest_harness.evidence import Sample

DONE = b"[DONE]"

_HARMLESS: Mapping[str, tuple[object, ...]] = {
    "chat_template": (None,),
    "add_generation_prompt": (None, True),
    "continue_final_message": (None, False),
    "echo": (None, False),
    "truncate_prompt_tokens": (None,),
    "prompt_logprobs": (None,),
}
"""The values that leave prompt and capture as they are; any other is refused."""

_TRUE_WORDS = frozenset({"1", "on", "t", "true", "y", "yes"})


class RefusalError(Exception):
    """A request that does not go to the engine; the message is for the harness."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class MalformedReplyError(Exception):
    """A reply with status 200 that is none; the message says what was wrong."""


@dataclass(frozen=True)
class ChatRequest:
    """A request for the engine, and what the harness asked to see of the reply."""

    body: bytes
    streamed: bool
    wants_logprobs: bool
    wants_usage: bool


@dataclass(frozen=True)
class ChatReply:
    """A reply for the harness, and what was captured from the engine's."""

    body: bytes
    prompt_ids: tuple[Any, ...] | None
    samples: tuple[Sample, ...]


@dataclass(frozen=True)
class Piece:
    """Bytes of a stream for the harness. ``last_words`` may be the end of the turn; a ``remark`` is no part of it."""

    data: bytes
    last_words: bool = False
    remark: bool = False


def prepare(body: bytes, model: str) -> ChatRequest:
    """The request for the engine. Raises RefusalError for one that is no JSON object, or asks what is refused."""
    try:
        document: Any = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise RefusalError(f"the request's body is not JSON ({error}); send one JSON object in UTF-8") from None
    if not isinstance(document, dict):
        raise RefusalError(f"the request's body is a JSON {type(document).__name__}; send one JSON object")
    kwargs = document.get("chat_template_kwargs")
    _refuse_distortion(document, "")
    if isinstance(kwargs, dict):
        _refuse_distortion(kwargs, "chat_template_kwargs.")
    streamed = _is_true(document.get("stream"))
    wants_logprobs = _is_true(document.get("logprobs"))
    top_logprobs = document.get("top_logprobs") if wants_logprobs else None
    document |= {
        "model": model,
        "logprobs": True,
        "top_logprobs": 0 if top_logprobs is None else top_logprobs,
        "return_token_ids": True,
    }
    if not wants_logprobs:
        document["return_tokens_as_token_ids"] = True
    wants_usage = False
    if streamed:
        options = document.get("stream_options")
        options = dict(options) if isinstance(options, dict) else {}
        wants_usage = _is_true(options.get("include_usage"))
        if not wants_usage:
            options.pop("continuous_usage_stats", None)
        document["stream_options"] = options | {"include_usage": True}
    return ChatRequest(_dump(document), streamed, wants_logprobs, wants_usage)


def read_reply(body: bytes, request: ChatRequest) -> ChatReply:
    """What a whole reply with status 200 says. Raises MalformedReplyError."""
    document = _object(body, "the engine's reply")
    choices = _choices(document)
    if not choices:
        raise MalformedReplyError("the engine's reply has no choices")
    if not all(isinstance(choice.get("message"), dict) for choice in choices):
        raise MalformedReplyError("the engine's reply has a choice without a message")
    prompt_ids = _listed(document.get("prompt_token_ids"))
    tallies = [_Tally(choice, position) for position, choice in enumerate(choices)]
    for tally, choice in zip(tallies, choices, strict=True):
        tally.add(choice)
    changed = _strip(document, choices, request)
    return ChatReply(_dump(document) if changed else body, prompt_ids, tuple(tally.sample() for tally in tallies))


class StreamReader:
    """Reads a stream event by event; at any moment it knows what has come so far."""

    def __init__(self, request: ChatRequest) -> None:
        self.prompt_ids: tuple[Any, ...] | None = None
        self.error: str | None = None
        """What the engine said in an error event."""
        self.done = False
        """The stream's last event has come."""
        self._request = request
        self._tallies: dict[int, _Tally] = {}

    @property
    def samples(self) -> tuple[Sample, ...]:
        """The choices so far, by index."""
        return tuple(self._tallies[index].sample() for index in sorted(self._tallies))

    def read(self, event: ServerSentEvent) -> Piece | None:
        """What of an event is for the harness; None if nothing is. Raises MalformedReplyError."""
        data = event.data
        if data is None:
            return Piece(event.raw, remark=True)
        if data.strip() == DONE:
            if not self._tallies and self.error is None:
                raise MalformedReplyError("the engine's stream has no choices")
            self.done = True
            return Piece(event.raw, last_words=True)
        document = _object(data, "an event of the engine's stream")
        if document.get("error"):
            self.error = json.dumps(document["error"])
            return Piece(event.raw, last_words=True)
        choices = _choices(document)
        if self.prompt_ids is None:
            self.prompt_ids = _listed(document.get("prompt_token_ids"))
        for position, choice in enumerate(choices):
            tally = _Tally(choice, position)
            self._tallies.setdefault(tally.index, tally).add(choice)
        only_ids = bool(choices) and all(_carries_only_ids(choice) for choice in choices)
        changed = _strip(document, choices, self._request)
        if only_ids and not self._request.wants_logprobs:
            return None
        if not choices and "usage" in document and not self._request.wants_usage:
            return None
        if choices and not self._request.wants_usage and "usage" in document:
            del document["usage"]
            changed = True
        last_words = not choices or any(choice.get("finish_reason") is not None for choice in choices)
        return Piece(event.with_data(_dump(document)) if changed else event.raw, last_words=last_words)


def error_body(message: str, kind: str, code: str | None = None, param: str | None = None) -> bytes:
    """An error in OpenAI's shape."""
    return _dump({"error": {"message": message, "type": kind, "param": param, "code": code}})


def error_event(message: str, kind: str, code: str | None = None) -> bytes:
    """An error inside a stream: OpenAI's SDK raises it."""
    return b"data: " + error_body(message, kind, code) + b"\n\n"


def model_body(model: str, created: float) -> bytes:
    """The served model in OpenAI's shape."""
    return _dump(_model(model, created))


def models_body(model: str, created: float) -> bytes:
    """A list of the one served model in OpenAI's shape."""
    return _dump({"object": "list", "data": [_model(model, created)]})


def _model(model: str, created: float) -> dict[str, object]:
    return {"id": model, "object": "model", "created": int(created), "owned_by": "harness-conformance"}


class _Tally:
    """Sums up one choice over the pieces in which it comes."""

    def __init__(self, choice: Mapping[str, Any], position: int) -> None:
        index = choice.get("index")
        self.index = index if isinstance(index, int) and not isinstance(index, bool) else position
        self._ids: list[Any] | None = None
        self._logprobs: list[Any] | None = None
        self._finish: str | None = None

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


def _refuse_distortion(fields: Mapping[str, Any], where: str) -> None:
    for name, harmless in _HARMLESS.items():
        value = fields.get(name)
        if not any(value is allowed for allowed in harmless):
            raise RefusalError(f"{where}{name} would change the prompt or what is captured of it; leave it out", f"{where}{name}")


def _strip(document: dict[str, Any], choices: Iterable[dict[str, Any]], request: ChatRequest) -> bool:
    """Take out what the harness did not ask for; tells whether anything was there."""
    changed = _take_out(document, "prompt_token_ids")
    if document.get("prompt_logprobs") is not None:
        changed |= _take_out(document, "prompt_logprobs")
    for choice in choices:
        changed |= _take_out(choice, "token_ids")
        changed |= _take_out(choice, "prompt_token_ids")
        if not request.wants_logprobs and choice.get("logprobs") is not None:
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
    return more if so_far is None else so_far + more


def _listed(values: object) -> tuple[Any, ...] | None:
    return tuple(values) if isinstance(values, list) else None


def _is_true(value: object) -> bool:
    """Whether an engine takes the value for true; vLLM also takes 1 and words for it (pydantic's lax mode)."""
    return value is True or value == 1 or (isinstance(value, str) and value.lower() in _TRUE_WORDS)


def _dump(document: object) -> bytes:
    try:
        return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    except UnicodeEncodeError:  # a lone surrogate can only be written as an escape
        return json.dumps(document, separators=(",", ":")).encode("ascii")
