"""Four dialects on one port: which one a path is of, every channel for a key, probes, counts, upgrades, streams of whole replies."""

from __future__ import annotations

import asyncio
import json
import socket
import threading

import httpx
import openai
import pytest

from pytest_harness.capture import CaptureProxy, Upstream
from pytest_harness.serving import BackgroundServer

CALLS = {
    "chat": ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hello"}]}),
    "responses": ("/v1/responses", {"model": "m", "input": "Hello"}),
    "messages": ("/v1/messages", {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}),
    "gemini": ("/v1beta/models/m:generateContent", {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}),
}


@pytest.mark.parametrize("dialect", CALLS)
def test_every_dialect_is_served_and_captured(harness, engine, dialect) -> None:
    path, body = CALLS[dialect]
    reply = harness.http.post(path, json=body)
    assert reply.status_code == 200
    assert "Hi ✓" in reply.json().__repr__()
    assert "token_ids" not in reply.text
    [call] = harness.session.close()
    assert (call.dialect, call.outcome, call.delivery, call.streamed) == (dialect, "complete", "delivered", False)
    assert (call.prompt_ids, call.samples[0].token_ids) == ((1, 2, 3), (7, 8))
    assert call.delivered.body == reply.text
    assert json.loads(call.forwarded.body) == engine.requests[0].body
    assert engine.requests[0].path == "/v1/chat/completions"
    assert engine.requests[0].body["messages"] == [{"role": "user", "content": "Hello"}]


@pytest.mark.parametrize("dialect", ["responses", "messages", "gemini"])
def test_every_dialect_streams(harness, dialect) -> None:
    path, body = CALLS[dialect]
    if dialect == "gemini":
        path = "/v1beta/models/m:streamGenerateContent?alt=sse"
    else:
        body = body | {"stream": True}
    reply = harness.http.post(path, json=body)
    assert reply.status_code == 200
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert "token_ids" not in reply.text
    [call] = harness.session.close()
    assert (call.outcome, call.streamed, call.samples[0].token_ids) == ("complete", True, (7, 8, 9, 4))
    assert call.delivered.body == reply.text


@pytest.mark.parametrize("prefix", ["", "/v1", "/v1/v1"])
@pytest.mark.parametrize("dialect", ["chat", "responses", "messages"])
def test_paths_are_found_with_one_version_two_or_none(harness, dialect, prefix) -> None:
    path, body = CALLS[dialect]
    assert harness.http.post(prefix + path.removeprefix("/v1"), json=body).status_code == 200


@pytest.mark.parametrize(
    ("path", "headers", "where"),
    [
        ("/v1/nothing", {}, lambda body: body["error"]["type"] == "invalid_request_error"),
        ("/v1/nothing", {"anthropic-version": "2023-06-01"}, lambda body: body["type"] == "error"),
        ("/v1beta/nothing", {}, lambda body: body["error"]["status"] == "NOT_FOUND"),
    ],
)
def test_an_unknown_route_is_404_in_the_shape_of_its_dialect(harness, engine, path, headers, where) -> None:
    reply = harness.http.post(path, json={}, headers=headers)
    assert reply.status_code == 404
    assert where(reply.json())
    assert harness.recorded() == ()
    assert engine.requests == []


@pytest.mark.parametrize("letter", ["t", "a"])
def test_a_key_may_stand_in_the_path_and_is_not_recorded(harness, letter) -> None:
    reply = httpx.post(f"{harness.url}/{letter}/{harness.session.key}/v1/chat/completions", json={}, headers={"authorization": "Bearer x"})
    assert reply.status_code == 200
    [call] = harness.session.close()
    assert call.path == f"/{letter}/<redacted>/v1/chat/completions"


def test_a_key_may_stand_in_the_query_and_is_not_recorded(harness) -> None:
    assert httpx.post(f"{harness.url}/v1/chat/completions?a=1&key={harness.session.key}", json={}).status_code == 200
    [call] = harness.session.close()
    assert call.path == "/v1/chat/completions?a=1&key=<redacted>"


@pytest.mark.parametrize(("method", "path"), [("HEAD", "/"), ("HEAD", "/api/hello"), ("GET", "/")])
def test_a_probe_is_answered_with_nothing_and_only_to_a_key(harness, method, path) -> None:
    reply = harness.http.request(method, path)
    assert (reply.status_code, reply.content) == (200, b"")
    assert httpx.request(method, harness.url + path).status_code == 401
    assert harness.recorded() == ()


def test_a_websocket_upgrade_is_426(harness, engine) -> None:
    address = httpx.URL(harness.url)
    with socket.create_connection((address.host, address.port), timeout=20) as connection:
        connection.sendall(
            b"GET /v1/responses HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
            b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nauthorization: Bearer " + harness.session.key.encode() + b"\r\n\r\n"
        )
        assert connection.recv(65536).startswith(b"HTTP/1.1 426 ")
    assert harness.recorded() == ()
    assert engine.requests == []


@pytest.mark.parametrize("exact", [True, False])
def test_tokens_are_counted_by_the_engine_or_estimated_and_never_a_call(harness, engine, make, exact) -> None:
    engine.answer = lambda body: make.Answer([b'{"count": 42, "tokens": []}' if exact else b"{}"], 200 if exact else 404)
    reply = harness.http.post("/v1/messages/count_tokens", json={"model": "m", "messages": [{"role": "user", "content": "x" * 400}]})
    assert reply.status_code == 200
    assert reply.headers["x-token-count"] == ("exact" if exact else "estimate")
    assert (reply.json()["input_tokens"] == 42) == exact
    assert 90 < reply.json()["input_tokens"] < 130 or exact
    assert engine.requests[0].path == "/tokenize"
    assert harness.recorded() == ()


def test_an_error_of_the_engine_keeps_status_and_message_in_every_dialect(harness, engine, make) -> None:
    body = b'{"error": {"message": "maximum context length is 4096", "code": 400, "type": "BadRequestError"}}'
    engine.answer = lambda _: make.Answer([body], 429, {"content-type": "application/json", "retry-after": "7"})
    for path, request in CALLS.values():
        reply = harness.http.post(path, json=request)
        assert (reply.status_code, reply.headers["retry-after"]) == (429, "7")
        assert "maximum context length is 4096" in reply.text
    assert {call.outcome for call in harness.session.close()} == {"upstream_error"}


@pytest.fixture
def buffered(engine_url, tmp_path):
    """A proxy before an engine whose streams lose ids; a harness hears of us every 20 ms."""
    proxy = CaptureProxy(keep_alive_seconds=0.02)
    session = proxy.open_session(Upstream(url=engine_url, model="served", buffered=True), tmp_path / "buffered")
    with BackgroundServer(proxy) as server:
        yield session, openai.OpenAI(base_url=server.listen().url + "/v1", api_key=session.key, max_retries=0, timeout=20)
    session.close()


def test_a_stream_is_made_of_a_whole_reply_where_streams_lose_ids(buffered, engine) -> None:
    session, sdk = buffered
    with sdk:
        chunks = list(sdk.chat.completions.create(model="m", messages=[], stream=True, stream_options={"include_usage": True}))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "Hi ✓"
    assert chunks[-1].usage.total_tokens == 5
    assert [chunk.choices[0].finish_reason for chunk in chunks[:-1]][-1] == "stop"
    assert engine.requests[0].body["stream"] is False
    assert "stream_options" not in engine.requests[0].body
    [call] = session.close()
    assert (call.streamed, call.samples[0].token_ids, call.delivery) == (True, (7, 8), "delivered")
    assert json.loads(call.forwarded.body)["stream"] is False


def test_a_harness_hears_comments_while_it_waits_for_a_whole_reply(buffered, engine, make) -> None:
    session, sdk = buffered
    gate = make.Gate()
    engine.answer = lambda _: make.Answer([gate, json.dumps(make.completion()).encode()])
    with sdk.chat.completions.with_streaming_response.create(model="m", messages=[], stream=True) as reply:
        pieces = reply.iter_bytes()
        assert next(pieces) == b": keep-alive\n\n"
        gate.open()
        assert b"".join(pieces).endswith(b"data: [DONE]\n\n")
    sdk.close()
    assert session.close()[0].outcome == "complete"


@pytest.mark.parametrize("late", [False, True])
def test_an_error_instead_of_a_whole_reply_is_raised(buffered, engine, make, late) -> None:
    session, sdk = buffered
    gate = make.Gate()
    engine.answer = lambda _: make.Answer([gate, b"<html>"] if late else [b"<html>"])
    if late:
        timer = threading.Timer(0.2, gate.open)
        timer.start()
    with sdk, pytest.raises(openai.APIError, match="not a chat completion"):
        list(sdk.chat.completions.create(model="m", messages=[], stream=True))
    assert session.close()[0].outcome == "malformed_upstream"


def test_two_hundred_slow_calls_are_at_the_engine_at_the_same_time(harness, engine, make) -> None:
    gates = [make.Gate() for _ in range(200)]
    engine.answer = lambda body: make.Answer([gates[body["seed"]], json.dumps(make.completion()).encode()])

    async def ask_all() -> list[int]:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=harness.url, headers={"api-key": harness.session.key}, timeout=60, limits=limits) as client:
            asking = [asyncio.create_task(client.post("/v1/chat/completions", json={"seed": number})) for number in range(200)]
            for gate in gates:
                assert await asyncio.to_thread(gate.reached.wait, 30)
            for gate in gates:
                gate.open()
            return [(await reply).status_code for reply in asking]

    assert set(asyncio.run(ask_all())) == {200}
    assert len(harness.session.close()) == 200


def test_the_proxy_listens_on_a_unix_socket(proxy, harness, tmp_path) -> None:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "proxy.sock"))
    with BackgroundServer(proxy) as server:
        assert server.listen(listening).url.startswith("http+unix://%2F")
        transport = httpx.HTTPTransport(uds=str(tmp_path / "proxy.sock"))
        with httpx.Client(transport=transport, base_url="http://proxy", headers={"api-key": harness.session.key}) as client:
            assert client.post("/v1/chat/completions", json={}).status_code == 200
