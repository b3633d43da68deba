"""Relays: how a call's request goes to the engine and its reply comes back, in chat's own bytes or another dialect's documents."""

# ruff: noqa: D102  what each method promises stands at Relay

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Protocol

import msgspec

from pytest_harness.capture.admission import Stop
from pytest_harness.capture.dialects.base import Dialect, Reply, Route
from pytest_harness.capture.dialects.call_ids import CallIds
from pytest_harness.capture.dialects.chat import Chat, ChatRequest, dump, read_request, request_of
from pytest_harness.capture.dialects.chat_reply import DONE, StreamReader, chunks_of, event_of, read_whole
from pytest_harness.capture.dialects.cuts import Span, cut_event, cut_whole
from pytest_harness.capture.dialects.usual_events import cut_token
from pytest_harness.capture.sse import ServerSentEvent

CHAT = Chat()
_END = b"data: " + DONE + b"\n\n"


class Outgoing(msgspec.Struct):
    """A piece for the harness: its bytes, and as spans of the engine's bytes and bytes of our own."""

    data: bytes
    spans: Sequence[Span | bytes]
    last_words: bool = False
    """It waits for the journal."""
    remark: bool = False
    """It waits for nothing: a comment, a heartbeat."""
    ids: Span | None = None
    sampled: int = 0


class Relay(Protocol):
    """What one call needs of its dialect."""

    request: ChatRequest
    json_replies: bool
    """Whether replies are written anew, as JSON, instead of passed on with the engine's own content type."""
    stream_type: str

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done to request and reply that the bytes alone do not explain, a sentence each."""
        ...

    @property
    def done(self) -> bool:
        """The stream's last event has come."""
        ...

    @property
    def error(self) -> str | None:
        """What the engine said in an error event."""
        ...

    def whole(self, body: bytes, known_ids: bytes) -> Outgoing:
        """A whole reply. Raises MalformedReplyError."""
        ...

    def opening(self) -> bytes:
        """What a stream begins with."""
        ...

    def event(self, event: ServerSentEvent) -> Outgoing:
        """An event of the engine's stream; without data if nothing of it is for the harness. Raises MalformedReplyError."""
        ...

    def as_stream(self, body: bytes) -> tuple[bytes, int]:
        """A whole reply as the events of a stream, and how many tokens were sampled. Raises MalformedReplyError."""
        ...

    def stop(self, stop: Stop, *, call_id: str, model: str, created: float) -> bytes:
        """A reply of our own, as the harness asked for it."""
        ...

    def error_event(self, status: int, message: str, code: str) -> bytes:
        """An error inside a stream."""
        ...


def relay_of(dialect: Dialect | Chat, body: bytes, route: Route, *, created: float) -> Relay:
    """The relay of a request. Raises RefusalError."""
    if isinstance(dialect, Chat):
        return ChatRelay(read_request(body))
    prepared, reply = dialect.prepare(body, route, created=created)
    document = dict(prepared.chat)
    if prepared.streamed:
        document |= {"stream": True, "stream_options": {"include_usage": True}}
    return TranslatedRelay(request_of(document), reply, route, prepared.notes)


class ChatRelay:
    """Bytes: what the harness did not ask for is cut out, tool calls without an id get one, everything else is as it came."""

    json_replies = False
    stream_type = "text/event-stream; charset=utf-8"

    def __init__(self, request: ChatRequest) -> None:
        self.request = request
        self._reader = StreamReader(request)
        self._calls = CallIds()

    @property
    def notes(self) -> tuple[str, ...]:
        return (*self.request.notes, *self._calls.notes)

    @property
    def done(self) -> bool:
        return self._reader.done

    @property
    def error(self) -> str | None:
        return self._reader.error

    def whole(self, body: bytes, known_ids: bytes) -> Outgoing:
        cut = cut_whole(body, self.request, self._calls, known_ids)
        if cut is not None and cut.spans is not None:
            return Outgoing(_told(cut.spans, body), cut.spans, ids=cut.ids, sampled=cut.sampled)
        parts = read_whole(body, self.request)
        if self._calls.fill(parts.document, "message") or parts.changed:
            return anew(dump(parts.document), sampled=parts.sampled)
        return Outgoing(body, [(0, len(body))], sampled=parts.sampled)

    def opening(self) -> bytes:
        return b""

    def event(self, event: ServerSentEvent) -> Outgoing:
        raw = event.raw
        token = cut_token(raw, self.request, self._calls)
        if token is not None:
            self._reader.begun = True
            return Outgoing(token.data, token.spans, sampled=token.sampled)
        cut = cut_event(raw, self.request, self._calls)
        if cut is not None:
            if cut.choices:
                self._reader.begun = True
            spans = cut.spans or ()
            return Outgoing(_told(spans, raw), spans, cut.last_words, ids=cut.ids, sampled=cut.sampled)
        before = self._reader.sampled
        seen = self._reader.read(event)
        sampled = self._reader.sampled - before
        if seen is None:
            return anew(b"", sampled=sampled)
        if seen.document is not None and (self._calls.fill(seen.document, "delta") or seen.changed):
            return anew(event.with_data(dump(seen.document)), seen.last_words, sampled=sampled)
        return Outgoing(raw, [(0, len(raw))], seen.last_words, seen.remark, sampled=sampled)

    def as_stream(self, body: bytes) -> tuple[bytes, int]:
        parts = read_whole(body, self.request)
        self._calls.fill(parts.document, "message")
        chunks = [chunk for chunk in chunks_of(parts.document) if self.request.wants_usage or chunk["choices"]]
        return b"".join(map(event_of, chunks)) + _END, parts.sampled

    def stop(self, stop: Stop, *, call_id: str, model: str, created: float) -> bytes:
        if not self.request.streamed:
            return dump(stop.completion(call_id=call_id, model=model, created=created))
        chunks = stop.chunks(call_id=call_id, model=model, created=created)
        return b"".join([event_of(chunk) for chunk in chunks if self.request.wants_usage or chunk["choices"]]) + _END

    def error_event(self, status: int, message: str, code: str) -> bytes:
        return CHAT.error_event(status, message, code=code)


class TranslatedRelay:
    """Documents: the engine's are stripped of what is for the capture, and told in the dialect's words."""

    json_replies = True

    def __init__(self, request: ChatRequest, reply: Reply, route: Route, notes: tuple[str, ...]) -> None:
        self.request = request
        self.notes = notes
        self.stream_type = "text/event-stream; charset=utf-8" if route.framing == "sse" else "application/json; charset=utf-8"
        self._comments = route.framing == "sse"
        self._reply = reply
        self._reader = StreamReader(request)

    @property
    def done(self) -> bool:
        return self._reader.done

    @property
    def error(self) -> str | None:
        return self._reader.error

    def whole(self, body: bytes, known_ids: bytes) -> Outgoing:  # noqa: ARG002  ids are parsed here
        parts = read_whole(body, self.request)
        return anew(self._reply.whole(parts.document), sampled=parts.sampled)

    def opening(self) -> bytes:
        return self._reply.opening()

    def event(self, event: ServerSentEvent) -> Outgoing:
        before = self._reader.sampled
        seen = self._reader.read(event)
        sampled = self._reader.sampled - before
        if seen is None:
            return anew(b"", sampled=sampled)
        if seen.remark:
            return anew(event.raw if self._comments else b"", remark=True)
        if self._reader.done:
            return anew(self._reply.closing(), last_words=True)
        if seen.document is None or self._reader.error is not None:
            return anew(self._reply.error_event(500, _said(self._reader.error)), last_words=True)
        return anew(self._reply.chunk(seen.document), sampled=sampled)

    def as_stream(self, body: bytes) -> tuple[bytes, int]:
        parts = read_whole(body, self.request)
        events = [self._reply.opening(), *map(self._reply.chunk, chunks_of(parts.document)), self._reply.closing()]
        return b"".join(events), parts.sampled

    def stop(self, stop: Stop, *, call_id: str, model: str, created: float) -> bytes:
        if not self.request.streamed:
            return self._reply.whole(stop.completion(call_id=call_id, model=model, created=created))
        chunks = stop.chunks(call_id=call_id, model=model, created=created)
        return b"".join([self._reply.opening(), *map(self._reply.chunk, chunks), self._reply.closing()])

    def error_event(self, status: int, message: str, code: str) -> bytes:  # noqa: ARG002  it has no place for a code
        return self._reply.error_event(status, message)


def anew(data: bytes, last_words: bool = False, remark: bool = False, sampled: int = 0) -> Outgoing:
    """A piece that is written here."""
    return Outgoing(data, [data] if data else [], last_words, remark, sampled=sampled)


def _told(spans: Sequence[Span | bytes], data: bytes) -> bytes:
    return b"".join([span if isinstance(span, bytes) else data[span[0] : span[1]] for span in spans])


def _said(error: str | None) -> str:
    """The message in an error that the engine sent inside a stream."""
    try:
        document = json.loads(error or "null")
    except ValueError:
        document = error
    message = document.get("message") if isinstance(document, dict) else document
    return message if isinstance(message, str) else error or "the engine failed"
