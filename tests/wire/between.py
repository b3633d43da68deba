"""What stands between the harness and the bundled proxy, and between the proxy and the engine, so that faults can be put there."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx

from pytest_harness.serving import BackgroundServer
from pytest_harness.wire.bundled import BundledProxy

HOP = {"content-length", "transfer-encoding", "connection", "date", "server"}


class Sabotaged(BundledProxy):
    """The bundled proxy with hooks for faults. All of them do nothing here."""

    dialects = frozenset({"chat"})

    def start(self, engine, folder):
        self.engine_key = engine.api_key
        self.engine_model = engine.model
        self._relay = BackgroundServer(EngineSide(self, engine.url)).start()
        super().start(replace(engine, url=self._relay.listen().url), folder)

    def stop(self):
        super().stop()
        if hasattr(self, "_relay"):
            self._relay.close()

    def app(self, proxy):
        return HarnessSide(self, proxy)

    # -- hooks: each changes what it is given, or gives something else ----------------------------------------------------

    async def answer(self, scope, body):
        """A reply of the fault's own: (status, headers, body), or None."""

    def scope(self, scope):
        """The request's head, as the proxy gets it."""

    def request(self, document):
        """The request's document, as the proxy gets it."""

    def head(self, status, headers, scope):
        """The reply's status and headers, as the harness gets them."""
        return status, headers

    def chunk(self, document):
        """A reply's document or a stream's chunk, as the harness gets it; None drops it."""
        return document

    def body(self, status, body, scope):
        """The bytes of a whole reply, as the harness gets them."""
        return body

    def event(self, data):
        """The bytes of one event of a stream, as the harness gets them."""
        return data

    buffered = False
    deaf = False

    def to_engine(self, document, headers):
        """The request, as the engine gets it."""

    def piece(self, data):
        """The bytes of the engine's reply, as they come, as the proxy gets them."""
        return data

    def from_engine(self, document):
        """The engine's reply or chunk, as the proxy gets it."""


class HarnessSide:
    """An ASGI application around the proxy."""

    def __init__(self, fault: Sabotaged, proxy: Any) -> None:
        self.fault, self.proxy = fault, proxy

    async def __call__(self, scope, receive, send):
        body = b""
        scope = {**scope, "headers": list(scope["headers"])}
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if int(declared) < 1 << 39:
            more = True
            while more:
                event = await receive()
                if event["type"] == "http.disconnect":
                    return
                body += event.get("body", b"")
                more = event.get("more_body", False)
        answer = await self.fault.answer(scope, body)
        if answer is not None:
            status, headers, reply = answer
            await send({"type": "http.response.start", "status": status, "headers": [*headers, (b"content-length", b"%d" % len(reply))]})
            await send({"type": "http.response.body", "body": reply})
            return
        self.fault.scope(scope)
        with contextlib.suppress(ValueError):
            document = json.loads(body)
            if isinstance(document, dict):
                before = json.dumps(document)
                self.fault.request(document)
                if json.dumps(document) != before:
                    body = json.dumps(document).encode()
                    scope["headers"] = [(n, v) for n, v in scope["headers"] if n != b"content-length"] + [
                        (b"content-length", b"%d" % len(body))
                    ]
        given = False

        async def receive_again():
            nonlocal given
            if not given:
                given = True
                return {"type": "http.request", "body": body, "more_body": False}
            if self.fault.deaf:
                await asyncio.Event().wait()
            return await receive()

        await self.proxy(scope, receive_again, Reply(self.fault, scope, send))


class Reply:
    """The way back: whole replies are changed when they are whole, streams event by event."""

    def __init__(self, fault: Sabotaged, scope: Any, send: Any) -> None:
        self.fault, self.scope, self.send = fault, scope, send
        self.streamed, self.rest, self.start, self.held = False, b"", None, b""

    async def __call__(self, event):
        if event["type"] == "http.response.start":
            headers = dict(event["headers"])
            self.streamed = headers.get(b"content-type", b"").startswith(b"text/event-stream")
            self.start = event
            if self.streamed and not self.fault.buffered:
                await self._send_start(self.start["headers"])
            return
        more = event.get("more_body", False)
        self.rest += event.get("body", b"")
        if self.streamed:
            *events, self.rest = self.rest.split(b"\n\n")
            out = b"".join(self._event(data + b"\n\n") for data in events)
            if self.fault.buffered:
                self.held += out
                if more:
                    return
                await self._send_start(self.start["headers"])
                out = self.held
            await self.send({"type": "http.response.body", "body": out + (b"" if more else self.rest), "more_body": more})
        elif not more:
            body = self.rest
            with contextlib.suppress(ValueError):
                document = json.loads(body)
                if isinstance(document, dict) and "choices" in document:
                    before = json.dumps(document)
                    changed = self.fault.chunk(document)
                    if json.dumps(changed) != before:
                        body = json.dumps(changed).encode()
            body = self.fault.body(self.start["status"], body, self.scope)
            headers = [each for each in self.start["headers"] if each[0] != b"content-length"]
            await self._send_start([*headers, (b"content-length", b"%d" % len(body))])
            await self.send({"type": "http.response.body", "body": body})

    async def _send_start(self, headers):
        status, headers = self.fault.head(self.start["status"], headers, self.scope)
        await self.send({"type": "http.response.start", "status": status, "headers": headers})

    def _event(self, data: bytes) -> bytes:
        text = data.strip()
        if text.startswith(b"data: {"):
            document = json.loads(text[6:])
            if "choices" in document:
                before = json.dumps(document)
                changed = self.fault.chunk(document)
                if changed is None:
                    return b""
                if json.dumps(changed) != before:
                    data = b"data: " + json.dumps(changed).encode() + b"\n\n"
        return self.fault.event(data)


class EngineSide:
    """An ASGI application in front of the engine. It is made of what the suite does not judge: httpx."""

    def __init__(self, fault: Sabotaged, url: str) -> None:
        self.fault, self.url = fault, url

    async def __call__(self, scope, receive, send):
        body, more = b"", True
        while more:
            event = await receive()
            body += event.get("body", b"")
            more = event.get("more_body", False)
        headers = {n.decode("latin-1"): v.decode("latin-1") for n, v in scope["headers"] if n.decode() not in HOP | {"host"}}
        with contextlib.suppress(ValueError):
            document = json.loads(body)
            before = json.dumps(document)
            self.fault.to_engine(document, headers)
            if json.dumps(document) != before:
                body = json.dumps(document).encode()
        talk = asyncio.ensure_future(self._talk(scope, headers, body, send))
        gone = asyncio.ensure_future(receive())
        await asyncio.wait({talk, gone}, return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        if not talk.done():
            talk.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await talk
        else:
            with contextlib.suppress(httpx.HTTPError):
                talk.result()

    async def _talk(self, scope, headers, body, send):
        async with httpx.AsyncClient(timeout=60, trust_env=False, verify=False) as client:
            async with client.stream(scope["method"], self.url + scope["path"], headers=headers, content=body) as reply:
                told = [(n.encode(), v.encode()) for n, v in reply.headers.multi_items() if n not in HOP]
                await send({"type": "http.response.start", "status": reply.status_code, "headers": told})
                async for data in self._changed(reply):
                    await send({"type": "http.response.body", "body": data, "more_body": True})
            await send({"type": "http.response.body", "body": b""})

    async def _changed(self, reply) -> AsyncIterator[bytes]:
        if type(self.fault).from_engine is Sabotaged.from_engine:
            async for data in reply.aiter_raw():
                yield self.fault.piece(data)
            return
        body = await reply.aread()
        parts = body.split(b"\n\n") if body.startswith(b"data:") else [body]
        for number, part in enumerate(parts):
            prefix = b"data: " if part.startswith(b"data: ") else b""
            with contextlib.suppress(ValueError):
                document = json.loads(part.removeprefix(prefix))
                self.fault.from_engine(document)
                yield prefix + json.dumps(document).encode() + (b"\n\n" if number < len(parts) - 1 else b"")
                continue
            yield part + (b"\n\n" if number < len(parts) - 1 else b"")
