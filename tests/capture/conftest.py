"""A scripted engine of a few lines, so that every test here says itself which bytes come from upstream, and when."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from pytest_harness.capture import CaptureProxy, Session, Upstream, read_journal
from pytest_harness.serving import BackgroundServer

ENGINE_KEY = "engine-key-canary/0123456789"
SSE = {"content-type": "text/event-stream; charset=utf-8"}


class Gate:
    """A point in a reply at which the engine waits until the test opens it."""

    def __init__(self) -> None:
        self._opened: concurrent.futures.Future[None] = concurrent.futures.Future()
        self.reached = threading.Event()

    def open(self) -> None:
        self._opened.set_result(None)

    async def wait(self) -> None:
        self.reached.set()
        await asyncio.wrap_future(self._opened)


@dataclass
class Answer:
    """What the engine says to one request; ``cut`` breaks the connection off after the last part."""

    parts: list[bytes | Gate]
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": "application/json"})
    cut: bool = False


@dataclass
class Request:
    headers: dict[str, str]
    body: dict[str, Any]
    path: str
    client: tuple[str, int]


class FakeEngine:
    """A bare ASGI application. ``answer`` maps a request's JSON to what is said; ``hung_up`` is set when a client goes away."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.answer: Callable[[dict[str, Any]], Answer] = lambda body: whole(stream=bool(body.get("stream")))
        self.hung_up = threading.Event()

    async def __call__(self, scope, receive, send) -> None:
        raw = b""
        while True:
            event = await receive()
            raw += event["body"]
            if not event.get("more_body"):
                break
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.requests.append(Request(headers, json.loads(raw), scope["path"], scope["client"]))
        answer = self.answer(self.requests[-1].body)
        encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers.items()]
        await send({"type": "http.response.start", "status": answer.status, "headers": encoded})
        for part in answer.parts:
            if isinstance(part, Gate):
                opened, gone = asyncio.ensure_future(part.wait()), asyncio.ensure_future(receive())
                await asyncio.wait((opened, gone), return_when=asyncio.FIRST_COMPLETED)
                if not opened.done():
                    opened.cancel()
                    self.hung_up.set()
                    return
                gone.cancel()
            else:
                await send({"type": "http.response.body", "body": part, "more_body": True})
        if not answer.cut:
            await send({"type": "http.response.body", "body": b""})


def completion(**changes: Any) -> dict[str, Any]:
    """A reply of vLLM with all that the capture asks for."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": "Hi ✓", "reasoning": None},
        "logprobs": {"content": [{"token": "token_id:7", "logprob": -0.5}, {"token": "token_id:8", "logprob": -0.25}]},
        "finish_reason": "stop",
        "stop_reason": None,
        "token_ids": [7, 8],
    }
    usage = {"prompt_tokens": 3, "total_tokens": 5, "completion_tokens": 2}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "served",
        "choices": [choice],
        "usage": usage,
        "prompt_logprobs": None,
        "prompt_token_ids": [1, 2, 3],
    } | changes


def chunk(delta: dict[str, Any] | None, ids: list[int] | None = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    """A chunk of a vLLM stream; no choices if ``delta`` is None."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "served"}
    if delta is None:
        return {**head, "choices": [], **more}
    choice: dict[str, Any] = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    if ids is not None:
        choice["token_ids"] = ids
        choice["logprobs"] = {"content": [{"token": f"token_id:{id_}", "logprob": -id_ / 8} for id_ in ids]}
    return {**head, "choices": [choice], **more}


def event(document: dict[str, Any] | str) -> bytes:
    return f"data: {document if isinstance(document, str) else json.dumps(document)}\n\n".encode()


def events() -> list[bytes]:
    """A whole stream: role, text, an event that carries ids only, finish, usage, end."""
    return [
        event(chunk({"role": "assistant", "content": ""}, prompt_token_ids=[1, 2, 3])),
        event(chunk({"content": "Hi"}, [7])),
        event(chunk({}, [8])),
        event(chunk({"content": " ✓"}, [9])),
        event(chunk({}, [4], "stop")),
        event(chunk(None, usage={"prompt_tokens": 3, "total_tokens": 7, "completion_tokens": 4})),
        event("[DONE]"),
    ]


def whole(document: dict[str, Any] | None = None, *, stream: bool = False) -> Answer:
    if stream:
        return Answer(list(events()), headers=SSE)
    return Answer([json.dumps(document or completion()).encode()])


class Make:
    """The builders above, for the test modules."""

    Answer, Gate, SSE, ENGINE_KEY = Answer, Gate, SSE, ENGINE_KEY
    completion, chunk, event, events, whole = map(staticmethod, (completion, chunk, event, events, whole))


@pytest.fixture(scope="session")
def make() -> type[Make]:
    return Make


@pytest.fixture(scope="session")
def serving_engine() -> Iterator[tuple[FakeEngine, str]]:
    engine = FakeEngine()
    with BackgroundServer(engine) as server:
        yield engine, server.listen().url


@pytest.fixture
def engine(serving_engine: tuple[FakeEngine, str]) -> FakeEngine:
    """The engine, as new: starting a server for each test would take most of the time."""
    engine = serving_engine[0]
    vars(engine).update(vars(FakeEngine()))
    return engine


@pytest.fixture
def engine_url(serving_engine: tuple[FakeEngine, str]) -> str:
    return serving_engine[1]


@pytest.fixture(scope="session")
def proxy() -> CaptureProxy:
    return CaptureProxy(body_limit=100_000)


@pytest.fixture(scope="session")
def proxy_url(proxy: CaptureProxy) -> Iterator[str]:
    with BackgroundServer(proxy) as server:
        yield server.listen().url


class Harness:
    """An attempt as a harness and its rollout see it: a session, a client with its key, and the calls that were recorded."""

    def __init__(self, session: Session, url: str) -> None:
        self.session = session
        self.url = url
        self.http = httpx.Client(base_url=url, headers={"authorization": f"Bearer {session.key}"}, timeout=20, verify=False)

    @cached_property
    def sdk(self) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key=self.session.key, max_retries=0, timeout=20)

    def ask(self, **fields: Any) -> httpx.Response:
        return self.http.post("/v1/chat/completions", json={"model": "any", "messages": [{"role": "user", "content": "Hello"}], **fields})

    def recorded(self):
        """The calls in the journal now, with the session still open."""
        return read_journal(self.session.journal.path)

    def settle(self) -> None:
        """Wait until no call is running: a reply is there a moment before its delivery is written down."""
        with self.session._changed:
            assert self.session._changed.wait_for(lambda: not self.session._running, timeout=20)

    def connect(self, body: bytes, declared: int | None = None) -> socket.socket:
        """A raw connection on which a completion has been asked for; ``declared`` promises more body than is sent."""
        address = httpx.URL(self.url)
        connection = socket.create_connection((address.host, address.port), timeout=20)
        length = len(body) if declared is None else declared
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {self.session.key}\r\ncontent-length: {length}\r\n\r\n"
        )
        connection.sendall(head.encode() + body)
        return connection

    def close(self) -> None:
        self.http.close()
        if "sdk" in vars(self):
            self.sdk.close()


@pytest.fixture
def open_harness(
    proxy: CaptureProxy, proxy_url: str, engine: FakeEngine, engine_url: str, tmp_path: Path
) -> Iterator[Callable[..., Harness]]:
    opened: list[Harness] = []

    def open_one(url: str = engine_url, model: str = "served") -> Harness:
        upstream = Upstream(url=url, api_key=ENGINE_KEY, model=model)
        opened.append(Harness(proxy.open_session(upstream, journal=tmp_path / f"journal-{len(opened)}.ndjson"), proxy_url))
        return opened[-1]

    yield open_one
    for harness in opened:
        harness.close()
        harness.session.close()


@pytest.fixture
def harness(open_harness: Callable[..., Harness]) -> Harness:
    return open_harness()
