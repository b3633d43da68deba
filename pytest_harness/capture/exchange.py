"""One call from the harness's request to the end of its reply: forwarded, passed back, recorded.

The journal has the call before the last byte leaves, whatever happens: the engine answers, fails or breaks off, the harness goes away,
the session is closed, the server stops.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence

import msgspec

from pytest_harness.capture.admission import Forward, Refuse, Stop
from pytest_harness.capture.dialects.base import Dialect, MalformedReplyError, RefusalError, Route
from pytest_harness.capture.dialects.chat import Chat, Forwarded
from pytest_harness.capture.dialects.cuts import Span
from pytest_harness.capture.guard import FallenError
from pytest_harness.capture.journal import CallRecord, JournalError, Moments, Written
from pytest_harness.capture.recipes import cook, from_spans
from pytest_harness.capture.relays import Outgoing, Relay, anew, relay_of
from pytest_harness.capture.sessions import RunningCall, Session
from pytest_harness.capture.sse import EventSplitter
from pytest_harness.capture.upstream import CutError, UnreachableError, UpstreamClient, UpstreamReply
from pytest_harness.evidence import Outcome
from pytest_harness.evidence.model import Delivery
from pytest_harness.serving import Receive, Send

Headers = Sequence[tuple[str, str]]

KEEP_ALIVE_SECONDS = 10.0
"""How often a harness that waits for a stream hears that we are alive, while the engine is asked for a whole reply."""

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
_WATCH_AFTER_SECONDS = 0.05
"""A call that is over sooner is not watched: nobody could have gone away long before, and watching costs more than the call."""


class Incoming(msgspec.Struct, frozen=True):
    """A request as it came, its body whole and without content encoding."""

    method: str
    path: str
    headers: Headers
    body: bytes
    received: float


class _Pieces:
    """Pieces that go to the harness together; their spans are places in the whole reply."""

    __slots__ = ("_data", "spans")

    def __init__(self) -> None:
        self._data: list[bytes] = []
        self.spans: list[Span | bytes] = []

    def __bool__(self) -> bool:
        return bool(self._data)

    @property
    def data(self) -> bytes:
        """Their bytes."""
        return self._data[0] if len(self._data) == 1 else b"".join(self._data)

    def add(self, piece: Outgoing, at: int) -> None:
        """One that was made of what stands at this place of the reply."""
        if piece.data:
            self._data.append(piece.data)
            self.spans += [span if isinstance(span, bytes) else (span[0] + at, span[1] + at) for span in piece.spans]

    def take(self, others: _Pieces) -> None:
        """Add others and leave nothing of them there."""
        self._data += others._data
        self.spans += others.spans
        others._data, others.spans = [], []


class Exchange:
    """Runs one call of a session."""

    def __init__(
        self,
        session: Session,
        running: RunningCall,
        incoming: Incoming,
        *,
        dialect: Dialect | Chat,
        route: Route,
        client: UpstreamClient,
        receive: Receive,
        send: Send,
        keep_alive_seconds: float = KEEP_ALIVE_SECONDS,
    ) -> None:
        self._session = session
        self._running = running
        self._incoming = incoming
        self._dialect = dialect
        self._route = route
        self._client = client
        self._receive = receive
        self._send = send
        self._keep_alive_seconds = keep_alive_seconds
        self._relay: Relay | None = None
        self._forwarded: Forwarded | None = None
        self._forwarded_headers: Headers = ()
        self._forwarded_at: float | None = None
        self._replied_at: float | None = None
        self._reply: UpstreamReply | None = None
        self._raw: list[bytes] = []
        self._read_as: str | None = None
        self._ids: Span | None = None
        self._constraints: tuple[str, ...] = ()
        self._head: tuple[int, Headers] | None = None
        self._started = False
        self._sent: list[Span | bytes] = []
        self._recorded = False
        self._delivery: Delivery | None = None
        self._task: asyncio.Task[object] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._interrupted: str | None = None
        self._gone = False

    async def run(self) -> None:
        """Run the call to its end. Raises JournalError, after an error for the harness, if it cannot be recorded."""
        self._task = asyncio.current_task()
        watching = asyncio.get_running_loop().call_later(_WATCH_AFTER_SECONDS, self._start_watching)
        try:
            await self._talk()
        except asyncio.CancelledError:
            if self._interrupted is None or self._task is None:
                self._record("cancelled", "the proxy was stopped while the call was running")
                raise
            self._task.uncancel()
            if self._gone:
                self._record("cancelled", "the harness went away before the reply was whole")
                self._note_delivery("client_gone")
            else:
                await self._fail("cancelled", "the session was closed while the call was running", 503, "session_closed")
        except JournalError:
            raise
        except Exception as error:  # noqa: BLE001  a fault of ours must not lose the call
            await self._fail("proxy_error", f"the proxy failed: {type(error).__name__}: {error}", 500, "proxy_error")
        finally:
            self._task = None
            watching.cancel()
            if self._watcher is not None:
                self._watcher.cancel()
            if self._reply is not None:
                self._reply.close()

    async def refuse(self, status: int, message: str, param: str | None = None) -> None:
        """Answer with an error of our own, without asking the engine."""
        body = self._dialect.error(status, message, code="refused", param=param)
        await self._answer(status, _JSON, anew(body), "refused", message)

    # Watching the harness and the session while the engine is at work.

    def _start_watching(self) -> None:
        self._watcher = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        gone = asyncio.create_task(self._wait_until_gone())
        stop = asyncio.create_task(self._running.stop.wait())
        try:
            await asyncio.wait({gone, stop}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            stop.cancel()
        self._gone = gone.done() and not gone.cancelled()
        if self._task is not None and self._delivery is None and not (self._gone and self._recorded):
            self._interrupted = "gone" if self._gone else "stopped"
            self._task.cancel()

    async def _wait_until_gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def _is_gone(self) -> bool:
        """Whether the harness has gone away by now, as far as is known without waiting."""
        if self._watcher is not None:
            return self._gone
        waiting = self._receive().__await__()
        try:
            next(waiting)
        except StopIteration as answer:
            return bool(answer.value["type"] == "http.disconnect")
        waiting.close()
        return False

    # The talk.

    async def _talk(self) -> None:
        session, upstream = self._session, self._session.upstream
        try:
            relay = self._relay = relay_of(self._dialect, self._incoming.body, self._route, created=self._incoming.received)
        except RefusalError as refusal:
            await self.refuse(refusal.status, str(refusal), refusal.param)
            return
        request = relay.request
        admission = session.admit(request.values, self._running)
        if isinstance(admission, Stop):
            await self._stop(relay, admission)
            return
        if isinstance(admission, Forward) and session.steer is not None:
            admission = session.steered(admission, request.document())
        if isinstance(admission, Refuse):
            await self.refuse(admission.status, admission.message, admission.param)
            return
        self._constraints = admission.constraints
        streamed = request.streamed and not upstream.buffered
        try:
            if request.streamed and upstream.buffered:
                await self._relay_buffered(relay, admission)
                return
            reply = await self._ask(relay, admission)
            if reply.status == 200 and streamed and _content_type(reply.headers).startswith("text/event-stream"):
                await self._relay_stream(relay, reply)
            else:
                await self._relay_whole(relay, reply)
        except (UnreachableError, CutError) as error:
            if upstream.guard is not None:
                upstream.guard.lost()
            outcome: Outcome = "cut_upstream" if isinstance(error, CutError) else "unreachable_upstream"
            await self._fail(outcome, str(error), 502, "fallen_upstream" if isinstance(error, FallenError) else outcome)
        except MalformedReplyError as error:
            await self._fail("malformed_upstream", str(error), 502, "malformed_upstream")

    async def _ask(self, relay: Relay, admission: Forward) -> UpstreamReply:
        upstream = self._session.upstream
        if upstream.guard is not None and (fallen := await upstream.guard.fallen()) is not None:
            raise FallenError(fallen)
        buffered = upstream.buffered
        forwarded = self._forwarded = relay.request.forwarded(upstream.model, admission.edits, buffered=buffered)
        headers = self._forwarded_headers = upstream.headers(streamed=relay.request.streamed and not buffered)
        self._forwarded_at = time.time()
        self._reply = await self._client.post(upstream.completions, headers, forwarded.body)
        return self._reply

    async def _relay_whole(self, relay: Relay, reply: UpstreamReply) -> None:
        body = await self._take_all(reply)
        if reply.status >= 400:
            await self._pass_back_error(reply, body)
            return
        if reply.status != 200:
            raise MalformedReplyError(f"the engine answered with status {reply.status} instead of 200")
        outgoing = relay.whole(body, self._session.journal.last_ids)
        self._read_as, self._ids = "whole", outgoing.ids
        self._running.sampled = outgoing.sampled
        await self._answer(200, _passed_back(reply.headers, anew=relay.json_replies), outgoing, "complete")

    async def _relay_stream(self, relay: Relay, reply: UpstreamReply) -> None:
        """Pass each event on as it comes; hold back what may be the last words until the journal has the call."""
        self._read_as = "stream"
        await self._start(200, _of_stream(_passed_back(reply.headers, anew=relay.json_replies), relay))
        splitter = EventSplitter()
        held, passed = _Pieces(), _Pieces()
        passed.add(anew(relay.opening()), 0)
        at = 0
        while not relay.done and (chunk := await reply.next()):
            self._raw.append(chunk)
            try:
                for event in splitter.feed(chunk):
                    self._sort(relay.event(event), at, passed, held)
                    at += len(event.raw)
                    if relay.done:
                        break
            finally:
                if passed:
                    await self._pass_on(passed)
                    passed = _Pieces()
        rest = splitter.rest()
        if not relay.done and rest is not None:
            self._sort(relay.event(rest), at, held, held)
        self._replied_at = time.time()
        if relay.error is not None:
            await self._finish(held, "upstream_error", relay.error)
        elif not relay.done:
            raise CutError("the engine's stream ended without its last event, [DONE]")
        else:
            await self._finish(held, "complete")
        with contextlib.suppress(CutError, TimeoutError):
            async with asyncio.timeout(_DRAIN_SECONDS):
                while await reply.next():
                    pass

    async def _relay_buffered(self, relay: Relay, admission: Forward) -> None:
        """Ask for a whole reply and make a stream of it; the harness hears comments while it waits."""
        asking = asyncio.create_task(self._ask_whole(relay, admission))
        try:
            while not (await asyncio.wait({asking}, timeout=self._keep_alive_seconds))[0]:
                if not self._started:
                    await self._start(200, _of_stream((), relay))
                await self._pass_on(anew(b": keep-alive\n\n" if relay.stream_type.startswith("text/event-stream") else b"\n"))
            reply, body = await asking
        finally:
            if not asking.done():
                asking.cancel()
                await asyncio.wait({asking})
        if reply.status >= 400:
            await self._pass_back_error(reply, body)
            return
        if reply.status != 200:
            raise MalformedReplyError(f"the engine answered with status {reply.status} instead of 200")
        events, self._running.sampled = relay.as_stream(body)
        self._read_as = "whole"
        if not self._started:
            await self._start(200, _of_stream(_passed_back(reply.headers, anew=True), relay))
        await self._finish(anew(events), "complete")

    async def _ask_whole(self, relay: Relay, admission: Forward) -> tuple[UpstreamReply, bytes]:
        reply = await self._ask(relay, admission)
        return reply, await self._take_all(reply)

    async def _stop(self, relay: Relay, stop: Stop) -> None:
        """A finished turn of our own; the engine is not asked."""
        model = self._session.upstream.model
        body = relay.stop(stop, call_id=self._running.id, model=model, created=self._incoming.received)
        if relay.request.streamed:
            await self._start(200, _of_stream((), relay))
            await self._finish(anew(body), "budget_stop")
        else:
            await self._answer(200, _JSON, anew(body), "budget_stop")

    async def _pass_back_error(self, reply: UpstreamReply, body: bytes) -> None:
        error = f"the engine answered with status {reply.status}"
        if self._started:
            relay = self._relay
            assert relay is not None
            await self._finish(anew(relay.error_event(reply.status, _readable(body), "upstream_error")), "upstream_error", error)
            return
        told = self._dialect.upstream_error(reply.status, body)
        own = Outgoing(body, [(0, len(body))]) if told is body else anew(told)
        await self._answer(reply.status, _passed_back(reply.headers, anew=told is not body), own, "upstream_error", error)

    # What comes in, and what goes out.

    async def _take_all(self, reply: UpstreamReply) -> bytes:
        while chunk := await reply.next():
            self._raw.append(chunk)
        self._replied_at = time.time()
        if len(self._raw) > 1:
            self._raw = [b"".join(self._raw)]
        return self._raw[0] if self._raw else b""

    def _sort(self, piece: Outgoing, at: int, passed: _Pieces, held: _Pieces) -> None:
        """Put a piece to those that go on now or to those held back; what was held goes on before anything that follows it."""
        self._running.sampled += piece.sampled
        if piece.ids is not None and self._ids is None:
            self._ids = piece.ids[0] + at, piece.ids[1] + at
        if piece.last_words:
            held.add(piece, at)
            return
        if held is not passed and held and piece.data and not piece.remark:
            passed.take(held)
        passed.add(piece, at)

    def _cleaned(self, pieces: Outgoing | _Pieces) -> bytes:
        """What is sent, without the engine's key; noted as sent."""
        data = pieces.data
        clean = self._session.reply_redactor.data(data)
        if clean is data:
            self._sent += pieces.spans
        else:
            self._sent.append(clean)
        return clean

    async def _start(self, status: int, headers: Headers) -> None:
        redactor = self._session.reply_redactor
        headers = [(name, redactor.text(value)) for name, value in headers]
        self._head, self._started = (status, headers), True
        encoded = [(name.encode("latin-1"), value.encode("utf-8", "surrogateescape")) for name, value in headers]
        await self._send({"type": "http.response.start", "status": status, "headers": encoded})

    async def _pass_on(self, pieces: _Pieces | Outgoing) -> None:
        data = self._cleaned(pieces)
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def _answer(self, status: int, headers: Headers, reply: Outgoing, outcome: Outcome, error: str | None = None) -> None:
        """A whole reply at once."""
        self._sent = []
        body = self._cleaned(reply)
        headers = [*headers, ("content-length", str(len(body)))]
        self._head = (status, headers)
        await self._record_or_withhold(outcome, error)
        await self._start(status, headers)
        await self._send_last(body)

    async def _finish(self, pieces: Outgoing | _Pieces, outcome: Outcome, error: str | None = None) -> None:
        """The end of a stream."""
        last = self._cleaned(pieces)
        await self._record_or_withhold(outcome, error)
        await self._send_last(last)

    async def _fail(self, outcome: Outcome, error: str, status: int, code: str) -> None:
        """Tell the harness, in a way that its SDK raises, that there is no reply."""
        if self._recorded:
            return
        message = _EXPLANATIONS[code]
        if self._started:
            await self._finish(anew(self._error_event(status, message, code)), outcome, error)
        else:
            await self._answer(status, _JSON, anew(self._dialect.error(status, message, code=code)), outcome, error)

    def _error_event(self, status: int, message: str, code: str) -> bytes:
        return b"" if self._relay is None else self._relay.error_event(status, message, code)

    async def _send_last(self, data: bytes) -> None:
        if self._is_gone():
            self._note_delivery("client_gone")
            return
        await self._send({"type": "http.response.body", "body": data, "more_body": False})
        self._note_delivery("delivered")

    # The record.

    async def _record_or_withhold(self, outcome: Outcome, error: str | None) -> None:
        """Have the journal write the call; what cannot be recorded is not delivered, and the harness gets an error instead."""
        try:
            self._record(outcome, error)
            if self._session.journal.durable:
                await self._session.journal.synced()
        except JournalError:
            message, code = _EXPLANATIONS["not_recorded"], "not_recorded"
            if self._started:
                body = self._error_event(500, message, code)
            else:
                body = self._dialect.error(500, message, code=code)
                await self._start(500, [*_JSON, ("content-length", str(len(body)))])
            await self._send({"type": "http.response.body", "body": body, "more_body": False})
            raise

    def _record(self, outcome: Outcome, error: str | None = None) -> None:
        if self._recorded:
            return
        self._recorded = True
        incoming, redactor, relay = self._incoming, self._session.record_redactor, self._relay
        received = redactor.data(incoming.body)
        forwarded = replied = delivered = None
        if self._forwarded is not None:
            recipe = self._forwarded.recipe if received is incoming.body else None
            body = b"" if recipe is not None else redactor.data(self._forwarded.body)
            forwarded = Written(redactor.headers(self._forwarded_headers), body, recipe=recipe)
        raw = self._raw[0] if len(self._raw) == 1 else b"".join(self._raw)
        ids = self._ids or (0, 0)
        around = raw[: ids[0]] + raw[ids[1] :]  # no secret is in what was seen to be ids alone
        clean = raw if redactor.data(around) is around else redactor.data(raw)
        if self._reply is not None:
            replied = Written(redactor.headers(self._reply.headers), clean, self._reply.status)
        if self._head is not None:
            status, sent_headers = self._head
            recipe = from_spans(self._sent)
            own = b"\0".join([span for span in self._sent if isinstance(span, bytes)])
            if clean is raw and redactor.data(own) is own:
                delivered = Written(redactor.headers(sent_headers), status=status, recipe=recipe)
            else:
                delivered = Written(redactor.headers(sent_headers), redactor.data(cook(recipe, raw)), status)
        more: dict[str, object] = {}
        if self._constraints:
            more["constraints"] = self._constraints
        if relay is not None and (notes := relay.notes):
            more["notes"] = tuple(map(redactor.text, notes))
        self._session.journal.write_call(
            CallRecord(
                index=self._running.index,
                id=self._running.id,
                dialect=self._dialect.name,
                method=incoming.method,
                path=redactor.path(incoming.path),
                streamed=relay is not None and relay.request.streamed,
                received=Written(redactor.headers(incoming.headers), received),
                forwarded=forwarded,
                replied=replied,
                delivered=delivered,
                read_as=self._read_as if self._reply is not None else None,
                ids=self._ids if clean is raw else None,
                outcome=outcome,
                error=None if error is None else redactor.text(error),
                times=Moments(
                    incoming.received,
                    self._forwarded_at,
                    None if self._reply is None else self._reply.first_byte_at,
                    self._replied_at,
                ),
                more=more,
            )
        )

    def _note_delivery(self, delivery: Delivery) -> None:
        if self._delivery is None:
            self._delivery = delivery
            self._session.journal.write_delivery(self._running.index, delivery, time.time())


_JSON: Headers = (("content-type", "application/json"),)

_EXPLANATIONS = {
    "unreachable_upstream": "The engine behind this proxy cannot be reached.",
    "fallen_upstream": "The engine behind this proxy returns less than it did, so it is asked no more.",
    # Some harnesses go by the words: these are what a transport says, so that they try again as they would without a proxy.
    "cut_upstream": "Connection closed: the engine behind this proxy broke off before its reply was whole.",
    "malformed_upstream": "The engine behind this proxy sent a reply that is not a chat completion.",
    "proxy_error": "This proxy failed to handle the call.",
    "session_closed": "The session of this key was closed while the call was running.",
    "not_recorded": "This proxy could not record the call, so its reply is withheld.",
}


def _passed_back(headers: Headers, *, anew: bool = False) -> Headers:
    """The engine's headers that are for the harness; a body written anew is JSON, whatever the engine's was."""
    passed = [(name, value) for name, value in headers if name not in _NOT_PASSED_BACK and not (anew and name == "content-type")]
    return [*_JSON, *passed] if anew else passed


def _of_stream(headers: Headers, relay: Relay) -> Headers:
    """The headers of a stream: the engine's, or those of one that is written here."""
    passed = [(name, value) for name, value in headers if name != "content-type" or not relay.json_replies]
    if not any(name == "content-type" for name, _ in passed):
        passed.insert(0, ("content-type", relay.stream_type))
    if not any(name == "cache-control" for name, _ in passed):
        passed.append(("cache-control", "no-cache"))
    return passed


def _content_type(headers: Headers) -> str:
    return next((value for name, value in headers if name == "content-type"), "")


def _readable(body: bytes) -> str:
    return body.decode("utf-8", "replace")
