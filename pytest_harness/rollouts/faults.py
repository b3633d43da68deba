"""Plays the faults of a scenario in front of any engine, with weights or without; what they do not name is passed on.

A fault hits a turn of the script, not a call by its number: a harness that asks for a title before its first turn meets the same fault as
one that does not. Side calls are never hit. What the engine is to say, and how much of it, it is told in the request, so that it says it
itself, with its own ids.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_harness.capture.upstream import CutError, UnreachableError, Upstream, UpstreamClient
from pytest_harness.engines.scripted import Script
from pytest_harness.engines.scripted.asgi import send_json
from pytest_harness.engines.scripted.errors import RequestError, too_long
from pytest_harness.engines.scripted.faults import Fault
from pytest_harness.engines.scripted.request import ChatRequest, read_chat
from pytest_harness.engines.scripted.script import Turn
from pytest_harness.engines.scripted.tokenizer import END_OF_CALL, ChatTokenizer
from pytest_harness.evidence import EngineFault
from pytest_harness.serving import ASGIApp, Event, Receive, Scope, Send

CHAT = "/chat/completions"
UNKNOWN_CALL = Turn("", (("consult_the_oracle", {"question": "Which number is it?"}),))
"""A call of a tool that no harness has."""
_MODEL = "any"


class FaultyEngine:
    """``engine``, which fails as ``faults`` say when it is asked for the turns of ``script``. ``room`` is its context in tokens."""

    def __init__(self, engine: ASGIApp, script: Script, faults: Sequence[EngineFault], *, room: int) -> None:
        self._engine = engine
        self._script = script
        self._tokenizer = ChatTokenizer.bundled()
        self._room = room
        self._left = {fault: fault.times for fault in faults}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or not scope["path"].endswith(CHAT):
            return await self._engine(scope, receive, send)
        body = await _read(receive)
        try:
            chat = json.loads(body)
            request = read_chat({**chat, "model": _MODEL}, model=_MODEL, tokens_as_ids=True)
        except (ValueError, TypeError, RequestError):
            return await self._engine(scope, _Again(body, receive), send)  # it says itself what is wrong with it
        done = self._script.position(request.messages, request.offered, request.tool_choice)
        fault = next((fault for fault, left in self._left.items() if left and done == fault.turn - 1), None)
        if fault is None:
            return await self._engine(scope, _Again(body, receive), send)
        self._left[fault] -= 1
        if fault.kind in ("error", "overflow"):
            return await self._fail(fault, send)
        if fault.kind == "cut":
            with contextlib.suppress(_Cut):  # the server closes a connection whose response was not completed
                await self._engine(scope, _Again(body, receive), _Cutting(send, fault.after or 0))
            return None
        told = json.dumps({**chat, **self._told(fault, request)}).encode()
        return await self._engine(scope, _Again(told, receive), send)

    def _told(self, fault: EngineFault, request: ChatRequest) -> Mapping[str, Any]:
        """The fields of a request that make the engine answer as the fault says."""
        if fault.kind == "length":
            return {request.max_tokens_name: min(fault.after or 1, request.max_tokens or self._room)}
        said = ""
        if fault.kind == "unknown_tool":
            said = UNKNOWN_CALL.said(self._tokenizer)
        elif fault.kind == "malformed":
            said = self._script.turn(request.messages, request.offered, request.tool_choice).said(self._tokenizer)
            said = said.replace(_END_OF_ARGUMENTS, f"\n{END_OF_CALL}", 1)
        return {"structured_outputs": {"choice": [said]}}

    async def _fail(self, fault: EngineFault, send: Send) -> None:
        if fault.kind == "overflow":
            error = too_long(self._room)
        else:
            assert fault.status is not None
            assert fault.message is not None
            error = Fault("status", status=fault.status, message=fault.message).error()
        headers = {} if fault.retry_after is None else {"retry-after": str(fault.retry_after)}
        await send_json(send, error.status, error.body, headers)


class Relay:
    """An engine that runs elsewhere, as an application."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._client = UpstreamClient()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a chat request on; nothing else is asked of an engine in a rollout."""
        if scope["type"] != "http" or not scope["path"].endswith(CHAT):
            return await send_json(send, 404, {"detail": "Not Found"})
        body = await _read(receive)
        try:
            reply = await self._client.post(self._upstream.completions, self._upstream.headers(), body)
        except (UnreachableError, CutError):
            return None
        try:
            headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in reply.headers if name not in _OWN]
            await send({"type": "http.response.start", "status": reply.status, "headers": headers})
            while data := await reply.next():
                await send({"type": "http.response.body", "body": data, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except CutError:
            return None
        finally:
            reply.close()
        return None


_OWN = frozenset({"connection", "content-length", "content-encoding", "date", "keep-alive", "server", "transfer-encoding"})
"""Headers that each connection has for itself."""


class _Cut(Exception):  # noqa: N818 - it is the fault that was wished for
    """The reply has come as far as it is to come."""


class _Cutting:
    """Lets so many events of a stream through, or half of a reply that is none."""

    def __init__(self, send: Send, events: int) -> None:
        self._send = send
        self._events = events
        self._streams = False

    async def __call__(self, event: Event) -> None:
        if event["type"] == "http.response.start":
            self._streams = any(name == b"content-type" and b"event-stream" in value for name, value in event["headers"])
            return await self._send(event)
        body: bytes = event.get("body", b"")
        *whole, _ = body.split(_END)
        if self._streams and self._events > len(whole):
            self._events -= len(whole)
            return await self._send(event)
        kept = b"".join(part + _END for part in whole[: self._events]) if self._streams else body[: len(body) // 2]
        await self._send({**event, "body": kept, "more_body": True})
        raise _Cut


_END = b"\n\n"
_END_OF_ARGUMENTS = f"}}}}\n{END_OF_CALL}"
"""The brackets that end a call and its arguments."""


class _Again:
    """A request whose body was read already."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Event:
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}


async def _read(receive: Receive) -> bytes:
    body = b""
    while True:
        event = await receive()
        piece: bytes = event.get("body", b"")
        body += piece
        if event["type"] == "http.disconnect" or not event.get("more_body"):
            return body
