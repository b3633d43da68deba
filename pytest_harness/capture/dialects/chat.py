"""OpenAI chat completions: what goes to the engine, and what the proxy says by itself.

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
stream                     false where the engine's streams lose ids, and then without stream_options
chat_template              refused: another template is another prompt
add_generation_prompt      refused when false, continue_final_message and echo when true: the reply would not be a turn of its own
truncate_prompt_tokens     refused: part of the prompt would vanish unseen
prompt_logprobs            refused: it turns prefix caching off, and no harness needs it
chat_template_kwargs       passed on (harnesses switch thinking with it, and the prompt ids show what came of it), unless one
                           of the fields above hides in it
any that no engine knows   left out, and noted on the call (``chat_fields`` lists the known ones): harnesses put ids of their own there
========================== =============================================================================================

Long values are neither parsed nor written anew: the request is read as a mapping of names to raw JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from pytest_harness.capture.dialects.base import RefusalError, Route
from pytest_harness.capture.dialects.chat_fields import KNOWN
from pytest_harness.capture.recipes import Recipe, of_pieces
from pytest_harness.evidence import Dialect as DialectName
from pytest_harness.evidence.notes import not_passed_on

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
_LONG = frozenset({"messages", "tools", "functions"})
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_VALUE = msgspec.json.Decoder()
_MISSING = object()
_SHORT = 1 << 11
"""Terms longer than this are not remembered."""
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_WORDS = {True: b"true", False: b"false", None: b"null"}


class Forwarded(msgspec.Struct, frozen=True):
    """A request for the engine. ``recipe`` makes its bytes out of the harness's request; None where they are not of one cloth."""

    body: bytes
    recipe: Recipe | None


class Terms:
    """What a request says besides messages and tools, field by field as ``values``; ``unknown`` fields are not passed on."""

    def __init__(self, values: Mapping[str, Any], unknown: tuple[str, ...] = ()) -> None:
        self.values = values
        self.unknown = unknown
        self.notes: tuple[str, ...] = (not_passed_on(unknown),) if unknown else ()
        self.streamed = _is_true(values.get("stream"))
        self.wants_logprobs = _is_true(values.get("logprobs"))
        options = values.get("stream_options")
        self.options: Mapping[str, Any] = options if isinstance(options, dict) else {}
        self.wants_usage = self.streamed and _is_true(self.options.get("include_usage"))


class Told(msgspec.Struct, frozen=True):
    """The fields that the engine is told otherwise than the harness said them: those that it said, and as JSON those that it did not."""

    news: dict[str, bytes]
    changed: list[str]
    added: bytes

    @classmethod
    def of(cls, news: dict[str, bytes], said: Mapping[str, object]) -> Told:
        """These fields in place of, or added to, what was said."""
        added = [b',"%s":%s' % (name.encode(), value) for name, value in news.items() if name not in said]
        return cls(news, [name for name in news if name in said], b"".join(added))


class ChatRequest:
    """A request as chat completions say it."""

    def __init__(self, fields: Mapping[str, msgspec.Raw | bytes], terms: Terms, source: bytes | None) -> None:
        self.values = terms.values
        self.notes = terms.notes
        self.streamed = terms.streamed
        self.wants_logprobs = terms.wants_logprobs
        self.wants_usage = terms.wants_usage
        self._terms = terms
        self._fields = fields
        self._source = source

    def document(self) -> dict[str, Any]:
        """The whole request, messages and tools too."""
        return {name: json.loads(bytes(raw)) for name, raw in self._fields.items()}

    def forwarded(self, model: str, edits: Mapping[str, Any] | None = None, *, buffered: bool = False) -> Forwarded:
        """The request for the engine: ``edits`` are set in it, and a stream is asked for as a whole reply if ``buffered``."""
        told = _told(self._terms, model, buffered=buffered)
        if edits:
            told = Told.of(told.news | {name: dump(value) for name, value in edits.items()}, self._fields)
        dropped = self._terms.unknown
        if self.streamed and buffered:
            dropped += ("stream_options",)
        return self._spliced(told, dropped)

    def _spliced(self, told: Told, dropped: tuple[str, ...]) -> Forwarded:
        fields, source = self._fields, self._source
        news, changed, added = told.news, told.changed, told.added
        if source is not None and fields and not (dropped and any(name in fields for name in dropped)):
            end = len(source.rstrip()) - 1
            tail = added + b"}"
            if not changed:
                return Forwarded(source[:end] + tail, [0, end, tail])
            begins = b'{"model":%s' % bytes(fields["model"]) if "model" in fields else b""
            if changed == ["model"] and source.startswith(begins):
                head, start = b'{"model":' + news["model"], len(begins)
                return Forwarded(b"".join((head, source[start:end], tail)), [head, start, end - start, tail])
        pieces = [b"{"]
        for name, raw in fields.items():
            if name not in dropped:
                pieces += (dump(name), b":", news.get(name) or bytes(raw), b",")
        pieces[-1] = added if len(pieces) > 1 else b"{" + added[1:]
        pieces.append(b"}")
        return Forwarded(b"".join(pieces), None if source is None else of_pieces(pieces, source))


def read_request(body: bytes) -> ChatRequest:
    """A harness's request. Raises RefusalError for one that is no JSON object, or asks what is refused."""
    try:
        fields: Mapping[str, msgspec.Raw | bytes] = _FIELDS.decode(body)
        if not body.isascii():
            body.decode("utf-8")
        few = tuple([(name, bytes(raw)) for name, raw in fields.items() if name not in _LONG])
        return ChatRequest(fields, _known_terms(few) if sum([len(raw) for _, raw in few]) < _SHORT else _terms(few), body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):  # also what only Python's reader takes: NaN, lone surrogates
        document = _object(body)
        request = request_of(document, _unknown(document))
        _refuse_distortion(request.values)
        return request


def request_of(document: Mapping[str, Any], unknown: tuple[str, ...] = ()) -> ChatRequest:
    """A request as a document, such as another dialect makes when it puts its own into the words of chat completions."""
    fields = {name: dump(value) for name, value in document.items()}
    return ChatRequest(fields, Terms({name: value for name, value in document.items() if name not in _LONG}, unknown), None)


def _terms(few: tuple[tuple[str, bytes], ...]) -> Terms:
    """The terms that these fields say. Raises RefusalError or msgspec.DecodeError."""
    values = {name: _VALUE.decode(raw) for name, raw in few}
    _refuse_distortion(values)
    return Terms(values, _unknown(values))


_known_terms = lru_cache(maxsize=64)(_terms)
"""Most requests of a session say the same."""


@lru_cache(maxsize=64)
def _told(terms: Terms, model: str, *, buffered: bool) -> Told:
    """What the engine is told otherwise than these terms say; none of it is about messages and tools."""
    top_logprobs = terms.values.get("top_logprobs") if terms.wants_logprobs else None
    wanted: dict[str, Any] = {
        "model": model,
        "logprobs": True,
        "top_logprobs": 0 if top_logprobs is None else top_logprobs,
        "return_token_ids": True,
    }
    if not terms.wants_logprobs:
        wanted["return_tokens_as_token_ids"] = True
    if terms.streamed and buffered:
        wanted["stream"] = False
    elif terms.streamed:
        options = dict(terms.options)
        if not terms.wants_usage:
            options.pop("continuous_usage_stats", None)
        wanted["stream_options"] = options | {"include_usage": True}
    news = {name: dump(value) for name, value in wanted.items() if not _same(terms.values.get(name, _MISSING), value)}
    return Told.of(news, terms.values)


class Chat:
    """What the proxy says in this dialect by itself."""

    name: DialectName = "chat"

    def route(self, method: str, path: str, headers: Mapping[str, str]) -> Route | None:  # noqa: ARG002  as every dialect's
        """What a path asks for; None if it is none of this dialect's."""
        path = path.removeprefix("/v1")
        if path == "/chat/completions":
            return Route("call") if method == "POST" else None
        if method not in ("GET", "HEAD"):
            return None
        if path == "/models":
            return Route("models")
        return Route("model", path.removeprefix("/models/")) if path.startswith("/models/") else None

    def error(self, status: int, message: str, *, code: str | None = None, param: str | None = None) -> bytes:
        """An error in OpenAI's shape."""
        kind = "invalid_request_error" if status < 500 else "server_error"
        return dump({"error": {"message": message, "type": kind, "param": param, "code": code}})

    def error_event(self, status: int, message: str, *, code: str | None = None) -> bytes:
        """An error inside a stream: OpenAI's SDK raises it."""
        return b"data: " + self.error(status, message, code=code) + b"\n\n"

    def upstream_error(self, status: int, body: bytes) -> bytes:  # noqa: ARG002  as every dialect's
        """An error of the engine is passed on as it came."""
        return body

    def answer(self, route: Route, *, model: str, created: float, tokens: int | None) -> bytes:  # noqa: ARG002  as every dialect's
        """The served model, or the list of it."""
        one = {"id": model, "object": "model", "created": int(created), "owned_by": "harness-conformance"}
        return dump(one if route.kind == "model" else {"object": "list", "data": [one]})


def dump(document: object) -> bytes:
    """Compact JSON in UTF-8."""
    if document is None or document is True or document is False:
        return _WORDS[document]
    try:
        return _ENCODER.encode(document).encode("utf-8")
    except UnicodeEncodeError:  # a lone surrogate can only be written as an escape
        return json.dumps(document, separators=(",", ":")).encode("ascii")


def _object(body: bytes) -> dict[str, Any]:
    try:
        document: Any = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise RefusalError(f"the request's body is not JSON ({error}); send one JSON object in UTF-8") from None
    if not isinstance(document, dict):
        raise RefusalError(f"the request's body is a JSON {type(document).__name__}; send one JSON object")
    return document


def _unknown(fields: Mapping[str, object]) -> tuple[str, ...]:
    return () if KNOWN.issuperset(fields) else tuple(name for name in fields if name not in KNOWN)


def _refuse_distortion(fields: Mapping[str, Any], where: str = "") -> None:
    for name in fields.keys() & _HARMLESS.keys():
        if not any(fields[name] is allowed for allowed in _HARMLESS[name]):
            raise RefusalError(f"{where}{name} would change the prompt or what is captured of it; leave it out", f"{where}{name}")
    kwargs = fields.get("chat_template_kwargs")
    if isinstance(kwargs, dict) and not where:
        _refuse_distortion(kwargs, "chat_template_kwargs.")


def _same(value: object, wanted: object) -> bool:
    return type(value) is type(wanted) and value == wanted


def _is_true(value: object) -> bool:
    """Whether an engine takes the value for true; vLLM also takes 1 and words for it (pydantic's lax mode)."""
    return value is True or value == 1 or (isinstance(value, str) and value.lower() in _TRUE_WORDS)
