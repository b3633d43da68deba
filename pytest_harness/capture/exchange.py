"""One call from the harness's request to the end of its reply: forwarded, passed back, recorded.

The journal's line is written before the last byte leaves, whatever happens: the engine answers, fails or breaks off, the
harness goes away, the session is closed, the server stops.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_harness.capture.dialects import chat
from pytest_harness.capture.journal import JournalError
from pytest_harness.capture.sessions import RunningCall, Session
from pytest_harness.capture.sse import EventSplitter, ServerSentEvent
from pytest_harness.capture.upstream import CutError, UnreachableError, UpstreamClient, UpstreamReply
from pytest_harness.evidence import Call, Message, Outcome, Sample, Times
from pytest_harness.evidence.model import Delivery
from pytest_harness.serving import Receive, Send

Headers = Sequence[tuple[str, str]]

_NOT_PASSED_BACK = frozenset(
    {
        "connection",
        "content-encoding",
        "content-length",
        "date",
        "keep-alive",
        "proxy-authenticate",
        "server",
        "set-cookie",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers of a reply that belong to the connection to the engine, or would carry state from one session to another."""

_DRAIN_SECONDS = 1
"""How long the end of a stream's transfer may lag behind its last event before the connection is given up."""


@dataclass(frozen=True)
class Incoming:
    """A request as it came, its body whole."""

    method: str
    path: str
    headers: Headers
    body: bytes
    received: float


class Exchange:
    """Runs one call of a session."""

    def __init__(
        self, session: Session, running: RunningCall, incoming: Incoming, *, client: UpstreamClient, receive: Receive, send: Send
    ) -> None:
        self._session = session
        self._running = running
        self._incoming = incoming
        self._client = client
        self._receive = receive
        self._send = send
        self._streamed = False
        self._forwarded: Message | None = None
        self._forwarded_at: float | None = None
        self._first_byte_at: float | None = None
        self._replied_at: float | None = None
        self._reply: UpstreamReply | None = None
        self._raw = bytearray()
        self._head: tuple[int, Headers] | None = None
        self._started = False
        self._sent = bytearray()
        self._prompt_ids: tuple[object, ...] | None = None
        self._samples: tuple[Sample, ...] = ()
        self._reader: chat.StreamReader | None = None
        self._recorded = False
        self._delivery: Delivery | None = None
        self._gone: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Run the call to its end. Raises JournalError, after an error for the harness, if it cannot be recorded."""
        self._gone = asyncio.create_task(self._wait_until_gone())
        talk = asyncio.create_task(self._talk())
        stop = asyncio.create_task(self._running.stop.wait())
        try:
            await asyncio.wait({talk, self._gone, stop}, return_when=asyncio.FIRST_COMPLETED)
            if not talk.done() and self._delivery is not None:
                await asyncio.wait({talk})  # only the engine's connection is still being put away
            if not talk.done():
                talk.cancel()
                await asyncio.wait({talk})
                if self._gone.done():
                    self._record("cancelled", "the harness went away before the reply was whole")
                    self._note_delivery("client_gone")
                else:
                    await self._fail("cancelled", "the session was closed while the call was running", 503, "session_closed")
            if not talk.cancelled():
                await talk
        except asyncio.CancelledError:
            self._record("cancelled", "the proxy was stopped while the call was running")
            raise
        except JournalError:
            raise
        except Exception as error:  # noqa: BLE001  a fault of ours must not lose the call
            await self._fail("proxy_error", f"the proxy failed: {type(error).__name__}: {error}", 500, "proxy_error")
        finally:
            for task in (talk, stop, self._gone):
                task.cancel()

    async def refuse(self, status: int, message: str, param: str | None = None) -> None:
        """Answer with an error of our own, without asking the engine."""
        body = chat.error_body(message, "invalid_request_error", "refused", param)
        await self._answer(status, _JSON, body, "refused", message)

    async def _wait_until_gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def _talk(self) -> None:
        upstream = self._session.upstream
        try:
            request = chat.prepare(self._incoming.body, upstream.model)
        except chat.RefusalError as refusal:
            await self.refuse(400, str(refusal), refusal.param)
            return
        self._streamed = request.streamed
        headers = {
            "accept": "text/event-stream" if request.streamed else "application/json",
            "accept-encoding": "identity",
            "content-type": "application/json",
            "user-agent": "harness-conformance",
        }
        if upstream.api_key is not None:
            headers["authorization"] = f"Bearer {upstream.api_key}"
        redactor = self._session.record_redactor
        self._forwarded = Message(headers=redactor.headers(headers.items()), body=redactor.body(request.body))
        self._forwarded_at = time.time()
        try:
            async with self._client.post(upstream.endpoint("/chat/completions"), headers, request.body) as reply:
                self._reply = reply
                if reply.status == 200 and request.streamed and reply.content_type.startswith("text/event-stream"):
                    await self._relay_stream(request, reply)
                else:
                    await self._relay_whole(request, reply)
        except UnreachableError as error:
            await self._fail("unreachable_upstream", str(error), 502, "unreachable_upstream")
        except CutError as error:
            await self._fail("cut_upstream", str(error), 502, "cut_upstream")
        except chat.MalformedReplyError as error:
            await self._fail("malformed_upstream", str(error), 502, "malformed_upstream")

    async def _relay_whole(self, request: chat.ChatRequest, reply: UpstreamReply) -> None:
        async for chunk in reply.chunks():
            self._take_in(chunk)
        self._replied_at = time.time()
        body = bytes(self._raw)
        if reply.status >= 400:
            error = f"the engine answered with status {reply.status}"
            await self._answer(reply.status, _passed_back(reply.headers), body, "upstream_error", error)
            return
        if reply.status != 200:
            raise chat.MalformedReplyError(f"the engine answered with status {reply.status} instead of 200")
        content = chat.read_reply(body, request)
        self._prompt_ids, self._samples = content.prompt_ids, content.samples
        await self._answer(200, _passed_back(reply.headers), content.body, "complete")

    async def _relay_stream(self, request: chat.ChatRequest, reply: UpstreamReply) -> None:
        """Pass each event on as it comes; hold back what may be the last words until the journal has the call."""
        headers = _passed_back(reply.headers)
        if not any(name == "cache-control" for name, _ in headers):
            headers = [*headers, ("cache-control", "no-cache")]
        await self._start(200, headers)
        self._reader = reader = chat.StreamReader(request)
        splitter = EventSplitter()
        held: list[bytes] = []
        chunks = reply.chunks()
        async for chunk in chunks:
            self._take_in(chunk)
            passed: list[bytes] = []
            try:
                for event in splitter.feed(chunk):
                    _sort(reader.read(event), passed, held)
                    if reader.done:
                        break
            finally:
                if passed:
                    await self._pass_on(b"".join(passed))
            if reader.done:
                break
        rest: ServerSentEvent | None = splitter.rest()
        if not reader.done and rest is not None:
            _sort(reader.read(rest), held, held)
        self._replied_at = time.time()
        if reader.error is not None:
            await self._finish(b"".join(held), "upstream_error", reader.error)
        elif not reader.done:
            raise CutError("the engine's stream ended without its last event, [DONE]")
        else:
            await self._finish(b"".join(held), "complete")
        with contextlib.suppress(CutError, TimeoutError):
            async with asyncio.timeout(_DRAIN_SECONDS):
                async for _ in chunks:
                    pass

    def _take_in(self, chunk: bytes) -> None:
        if self._first_byte_at is None:
            self._first_byte_at = time.time()
        self._raw += chunk

    async def _start(self, status: int, headers: Headers) -> None:
        redactor = self._session.reply_redactor
        headers = [(name, redactor.text(value)) for name, value in headers]
        self._head, self._started = (status, headers), True
        encoded = [(name.encode("latin-1"), value.encode("utf-8", "surrogateescape")) for name, value in headers]
        await self._send({"type": "http.response.start", "status": status, "headers": encoded})

    async def _pass_on(self, data: bytes) -> None:
        data = self._session.reply_redactor.data(data)
        self._sent += data
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def _answer(self, status: int, headers: Headers, body: bytes, outcome: Outcome, error: str | None = None) -> None:
        """A whole reply at once."""
        body = self._session.reply_redactor.data(body)
        headers = [*headers, ("content-length", str(len(body)))]
        self._head = (status, headers)
        self._sent = bytearray(body)
        await self._record_or_withhold(outcome, error)
        await self._start(status, headers)
        await self._send_last(body)

    async def _finish(self, last: bytes, outcome: Outcome, error: str | None = None) -> None:
        """The end of a stream."""
        last = self._session.reply_redactor.data(last)
        self._sent += last
        await self._record_or_withhold(outcome, error)
        await self._send_last(last)

    async def _fail(self, outcome: Outcome, error: str, status: int, code: str) -> None:
        """Tell the harness, in a way that its SDK raises, that there is no reply."""
        if self._recorded:
            return
        message = _EXPLANATIONS[code]
        if self._started:
            await self._finish(chat.error_event(message, "upstream_error", code), outcome, error)
        else:
            await self._answer(status, _JSON, chat.error_body(message, "upstream_error", code), outcome, error)

    async def _send_last(self, data: bytes) -> None:
        await asyncio.sleep(0)  # a disconnect that has already happened shows itself now
        if self._gone is not None and self._gone.done():
            self._note_delivery("client_gone")
            return
        await self._send({"type": "http.response.body", "body": data, "more_body": False})
        self._note_delivery("delivered")

    async def _record_or_withhold(self, outcome: Outcome, error: str | None) -> None:
        """Write the journal's line; what cannot be recorded is not delivered, and the harness gets an error instead."""
        try:
            self._record(outcome, error)
        except JournalError:
            message, code = _EXPLANATIONS["not_recorded"], "not_recorded"
            if self._started:
                body = chat.error_event(message, "server_error", code)
            else:
                body = chat.error_body(message, "server_error", code)
                await self._start(500, [*_JSON, ("content-length", str(len(body)))])
            await self._send({"type": "http.response.body", "body": body, "more_body": False})
            raise

    def _record(self, outcome: Outcome, error: str | None = None) -> None:
        if self._recorded:
            return
        self._recorded = True
        incoming, redactor = self._incoming, self._session.record_redactor
        reader = self._reader
        replied = delivered = None
        if self._reply is not None:
            headers = redactor.headers(self._reply.headers)
            replied = Message(headers=headers, body=redactor.body(bytes(self._raw)), status=self._reply.status)
        if self._head is not None:
            status, sent_headers = self._head
            delivered = Message(headers=redactor.headers(sent_headers), body=redactor.body(bytes(self._sent)), status=status)
        self._session.journal.write_call(
            Call(
                index=self._running.index,
                id=self._running.id,
                dialect="chat",
                method=incoming.method,
                path=redactor.text(incoming.path),
                streamed=self._streamed,
                received=Message(headers=redactor.headers(incoming.headers), body=redactor.body(incoming.body)),
                forwarded=self._forwarded,
                replied=replied,
                delivered=delivered,
                prompt_ids=self._prompt_ids if reader is None else reader.prompt_ids,
                samples=self._samples if reader is None else reader.samples,
                outcome=outcome,
                error=None if error is None else redactor.text(error),
                times=Times(
                    received=incoming.received,
                    forwarded=self._forwarded_at,
                    first_byte=self._first_byte_at,
                    replied=self._replied_at,
                ),
            )
        )

    def _note_delivery(self, delivery: Delivery) -> None:
        if self._delivery is None:
            self._delivery = delivery
            self._session.journal.write_delivery(self._running.id, delivery, time.time())


_JSON: Headers = (("content-type", "application/json"),)

_EXPLANATIONS = {
    "unreachable_upstream": "The engine behind this proxy cannot be reached.",
    "cut_upstream": "The engine behind this proxy broke off before its reply was whole.",
    "malformed_upstream": "The engine behind this proxy sent a reply that is not a chat completion.",
    "proxy_error": "This proxy failed to handle the call.",
    "session_closed": "The session of this key was closed while the call was running.",
    "not_recorded": "This proxy could not record the call, so its reply is withheld.",
}


def _passed_back(headers: Headers) -> Headers:
    return [(name, value) for name, value in headers if name not in _NOT_PASSED_BACK]


def _sort(piece: chat.Piece | None, passed: list[bytes], held: list[bytes]) -> None:
    """Put a piece to those that go on now or to those held back; what was held goes on before anything that follows it."""
    if piece is None:
        return
    if piece.remark:
        passed.append(piece.data)
    elif piece.last_words:
        held.append(piece.data)
    else:
        passed += [*held, piece.data]
        held.clear()
