"""The engine that stands behind the proxy under test: one address, and a stage of its own for every test.

A request belongs to the stage whose tag stands in its body; the tests put the tag into the first user message, so that what a proxy
sends late or twice never reaches another test. A stage is played by the scripted engine with its faults, or answers with bytes of the
test's own. What was asked and what was served are kept as they were on the wire.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import secrets
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

from pytest_harness.engines.scripted import Fault, Script, ScriptedEngine
from pytest_harness.serving import BackgroundServer, Event, Receive, Scope, Send
from pytest_harness.wire.adapter import Engine
from pytest_harness.wire.outcome import Broken, expect

MODEL = "wire-served-model"
SHELL = "bash"
LIMIT_SEC = 15.0
_TAG = re.compile(rb"wire-[0-9a-f]{16}")
_PIECE_PAUSE_SEC = 0.001
"""Between the pieces of a split reply, so that they arrive one by one: the network would join them."""

Json = dict[str, Any]
Step = tuple[str, Sequence[str]]
Split = Callable[[bytes], Iterable[bytes]]


class Gate(asyncio.Event):
    """A point at which the engine waits until the test opens it. Made by ``Upstream.gate``; ``open`` may be called from any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.reached = threading.Event()
        self._server_loop = loop

    async def wait(self) -> Any:
        """Wait, and say that it was reached."""
        self.reached.set()
        return await super().wait()

    def open(self) -> None:
        """Let everything go on that waits here, now and later."""
        self._server_loop.call_soon_threadsafe(self.set)


@dataclass(frozen=True)
class Answer:
    """A reply of the test's own. Its connection is cut after the body if ``cut``."""

    body: bytes
    status: int = 200
    headers: tuple[tuple[str, str], ...] = (("content-type", "application/json"),)
    cut: bool = False


@dataclass
class Served:
    """One request as it came to the engine, and what was served so far."""

    headers: dict[str, str]
    raw: bytes
    path: str
    status: int | None = None
    sent: bytearray = field(default_factory=bytearray)

    @cached_property
    def body(self) -> Json:
        """The request's document. Raises Broken if it is none."""
        try:
            document = json.loads(self.raw)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise Broken("a JSON object as the request to the engine", self.raw[:400])
        return document

    @property
    def documents(self) -> list[Json]:
        """What was served, read by code that shares nothing with any proxy: the whole reply, or a stream's chunks; empty if nothing was."""
        sent = bytes(self.sent)
        if not sent:
            return []
        if sent.startswith(b"data:"):
            lines = [event[len("data: ") :] for event in sent.decode().split("\n\n") if event]
            return [json.loads(line) for line in lines if line != "[DONE]"]
        return [json.loads(sent)]

    @property
    def prompt_ids(self) -> tuple[Any, ...] | None:
        """The ids of the prompt, as served."""
        return next((tuple(each["prompt_token_ids"]) for each in self.documents if each.get("prompt_token_ids") is not None), None)

    def ids(self, choice: int = 0) -> tuple[Any, ...]:
        """The sampled ids of a choice, as served."""
        return tuple(token for part in self._parts(choice) for token in part.get("token_ids") or ())

    def logprobs(self, choice: int = 0) -> tuple[Any, ...]:
        """The logprobs of a choice, as served."""
        return tuple(entry["logprob"] for part in self._parts(choice) for entry in (part.get("logprobs") or {}).get("content") or ())

    def finish(self, choice: int = 0) -> str | None:
        """The finish reason of a choice, as served."""
        return next((part["finish_reason"] for part in self._parts(choice) if part.get("finish_reason")), None)

    @property
    def usage(self) -> Json | None:
        """The usage, as served."""
        return next((each["usage"] for each in reversed(self.documents) if each.get("usage")), None)

    def _parts(self, choice: int) -> list[Json]:
        return [part for each in self.documents for part in each["choices"] if part["index"] == choice]


class Stage:
    """What the engine does in one test. ``change`` may spoil a document before it is served; ``split`` cuts what is sent into pieces."""

    def __init__(
        self,
        steps: Sequence[Step] = (("A plain answer.", ()),),
        *,
        faults: Iterable[Fault] = (),
        answer: Callable[[Json], Answer | None] = lambda _body: None,
        change: Callable[[Json], None] | None = None,
        split: Split | None = None,
        max_model_len: int = 32768,
        api_key: str,
    ) -> None:
        self.tag = f"wire-{secrets.token_hex(8)}"
        self.answer = answer
        self.change = change
        self.split = split
        self.engine = ScriptedEngine(
            Script.for_seam(steps, shell_tool=SHELL),
            model=MODEL,
            faults=faults,
            api_key=api_key,
            max_model_len=max_model_len,
            salt=self.tag,
        )
        self.served: list[Served] = []
        self.hung_up = threading.Event()
        self._changed = threading.Condition()

    def note(self, served: Served) -> None:
        """A request has come."""
        with self._changed:
            self.served.append(served)
            self._changed.notify_all()

    def await_requests(self, count: int, limit_sec: float = LIMIT_SEC) -> int:
        """Wait until so many requests have come, at most for the limit; returns how many have."""
        with self._changed:
            self._changed.wait_for(lambda: len(self.served) >= count, limit_sec)
            return len(self.served)

    @property
    def answered(self) -> list[Served]:
        """The requests that got a reply with status 200."""
        return [served for served in self.served if served.status == 200]

    @property
    def only(self) -> Served:
        """The one request there was. Raises Broken."""
        expect(len(self.served) == 1, "one request to the engine", f"{len(self.served)} requests")
        return self.served[0]

    @property
    def last(self) -> Served:
        """The last request. Raises Broken if there was none."""
        expect(self.served, "a request to the engine", "none")
        return self.served[-1]


class Upstream:
    """The server with all stages. Use it as a context manager."""

    def __init__(self) -> None:
        self.api_key = f"engine-key-{secrets.token_hex(16)}"
        self._stages: dict[bytes, Stage] = {}
        self._nobody = Stage(api_key=self.api_key)
        self._server = BackgroundServer(self)

    def __enter__(self) -> Self:
        self._server.start()
        self.engine = Engine(self._server.listen().url, MODEL, self.api_key)
        self._loop = self._server.submit(_running_loop()).result()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    def gate(self) -> Gate:
        """A closed gate, for ``Fault("slow", event=...)``."""
        return Gate(self._loop)

    @contextlib.contextmanager
    def stage(self, *steps: Step, **options: Any) -> Any:
        """A new stage, open as long as the context is."""
        stage = Stage(steps or (("A plain answer.", ()),), api_key=self.api_key, **options)
        self._stages[stage.tag.encode()] = stage
        try:
            yield stage
        finally:
            del self._stages[stage.tag.encode()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request on its stage."""
        raw = b"".join([part async for part in _body(receive)])
        found = _TAG.search(raw)
        stage = self._stages.get(found.group(), self._nobody) if found else self._nobody
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        query = scope["query_string"].decode("latin-1")
        served = Served(headers, raw, scope["path"] + (f"?{query}" if query else ""))
        wire = _Wire(stage, served, raw, receive, send)
        if scope["path"] == "/v1/chat/completions":
            stage.note(served)
            answer = stage.answer(served.body)
            if answer is not None:
                await wire.say(answer)
                return
        await stage.engine(scope, wire.receive, wire.send)


class _Wire:
    """The engine's two ends of one request, with what a stage does to them."""

    def __init__(self, stage: Stage, served: Served, raw: bytes, receive: Receive, send: Send) -> None:
        self._stage = stage
        self._served = served
        self._raw: bytes | None = raw
        self._receive = receive
        self._send = send
        self._ended = False
        self._cut_short = False

    async def receive(self) -> Event:
        if self._raw is not None:
            raw, self._raw = self._raw, None
            return {"type": "http.request", "body": raw, "more_body": False}
        event = await self._receive()
        if event["type"] == "http.disconnect" and not self._ended:
            self._stage.hung_up.set()
        return event

    async def send(self, event: Event) -> None:
        if event["type"] == "http.response.start":
            self._served.status = event["status"]
            if self._stage.change:
                event = {**event, "headers": [each for each in event["headers"] if each[0] != b"content-length"]}
            await self._send(event)
            return
        body = self._changed(event["body"])
        more = event.get("more_body", False)
        for piece in self._stage.split(body) if self._stage.split and body else ():
            self._served.sent += piece
            await self._send({"type": "http.response.body", "body": piece, "more_body": True})
            await asyncio.sleep(_PIECE_PAUSE_SEC)
            body = b""
        self._served.sent += body
        self._ended = not more
        await self._send({"type": "http.response.body", "body": body, "more_body": more})

    async def say(self, answer: Answer) -> None:
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers]
        await self.send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await self.send({"type": "http.response.body", "body": answer.body, "more_body": answer.cut})

    def _changed(self, body: bytes) -> bytes:
        if self._stage.change is None or not body:
            return body
        head, data, tail = (b"data: ", body[6:-2], b"\n\n") if body.startswith(b"data: ") else (b"", body, b"")
        if data == b"[DONE]":
            return body
        document = json.loads(data)
        self._stage.change(document)
        return head + json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode() + tail


async def _body(receive: Receive) -> AsyncIterator[bytes]:
    while True:
        event = await receive()
        yield event.get("body", b"")
        if event["type"] == "http.disconnect" or not event.get("more_body"):
            return


async def _running_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()
