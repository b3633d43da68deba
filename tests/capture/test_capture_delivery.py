"""Harnesses that go away, sessions that close in the middle of a call, and many sessions at once."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from pytest_harness.capture import CaptureProxy, Upstream
from pytest_harness.serving import BackgroundServer

STREAM = b'{"stream": true, "messages": []}'


def journal_with(harness, wanted):
    """The calls, once the journal has what the predicate asks for: the proxy's own thread writes it."""
    for _ in range(2000):
        calls = harness.recorded()
        if wanted(calls):
            return calls
        harness.http.get("/v1/models")  # a round trip through the proxy's loop, instead of a guess at how long it takes
    raise AssertionError(harness.recorded())


@pytest.mark.parametrize("body", [STREAM, b"{}"])
def test_a_harness_that_goes_away_cancels_the_engine_and_what_came_is_recorded(harness, engine, make, body) -> None:
    gate = make.Gate()
    stream = body is STREAM
    parts = make.events()[:2] if stream else [b'{"choices"']
    engine.answer = lambda _: make.Answer([*parts, gate], headers=make.SSE if stream else {"content-type": "application/json"})
    with harness.connect(body) as connection:
        assert gate.reached.wait(20)
        if stream:
            seen = b""
            while b"Hi" not in seen:
                seen += connection.recv(65536)
    assert engine.hung_up.wait(20)
    [call] = journal_with(harness, lambda calls: calls and calls[0].delivery == "client_gone")
    assert (call.outcome, call.times.delivered, call.streamed) == ("cancelled", None, stream)
    assert call.replied.body == b"".join(parts).decode()
    if stream:
        assert call.prompt_ids == (1, 2, 3)
        assert call.samples[0].token_ids == (7,)
        assert "Hi" in call.delivered.body
    else:
        assert call.delivered is None


def test_a_harness_that_goes_away_before_the_engine_has_answered_is_recorded(harness, engine, make) -> None:
    gate = make.Gate()
    engine.answer = lambda _: make.Answer([gate])
    with harness.connect(b"{}"):
        assert gate.reached.wait(20)
    assert engine.hung_up.wait(20)
    [call] = journal_with(harness, lambda calls: calls and calls[0].delivery == "client_gone")
    assert call.outcome == "cancelled"


def test_half_a_request_is_no_call(harness, engine) -> None:
    with harness.connect(b'{"mess', declared=100):
        pass
    assert harness.ask().status_code == 200
    [call] = harness.session.close()
    assert call.index == 0
    assert len(engine.requests) == 1


@pytest.mark.parametrize("stream", [False, True])
def test_closing_a_session_stops_its_running_calls_and_returns_them(harness, engine, make, stream) -> None:
    gate = make.Gate()
    engine.answer = lambda _: make.Answer([make.events()[1], gate] if stream else [gate], headers=make.SSE if stream else {})
    with ThreadPoolExecutor() as pool:
        running = pool.submit(harness.ask, stream=stream)
        assert gate.reached.wait(20)
        [call] = harness.session.close()
        text = running.result().text
    assert "session of this key was closed" in text
    assert "[DONE]" not in text
    assert (call.outcome, call.delivery) == ("cancelled", "delivered")
    assert engine.hung_up.wait(20)
    assert harness.ask().status_code == 401


def test_64_sessions_at_once_share_nothing(open_harness, engine, make) -> None:
    together = threading.Barrier(64, timeout=30)

    def answer(body):
        number = int(body["messages"][0]["content"])
        assert body["model"] == f"model-{number // 10}"
        if body.get("stream"):
            parts = [make.event(make.chunk({"content": f"{number}"}, [number], "stop", prompt_token_ids=[number])), make.event("[DONE]")]
            return make.Answer(parts, headers=make.SSE)
        document = make.completion(prompt_token_ids=[number])
        document["choices"][0] |= {"token_ids": [number], "message": {"role": "assistant", "content": f"{number}"}}
        return make.whole(document)

    engine.answer = answer
    harnesses = [open_harness(model=f"model-{number}") for number in range(64)]

    def work(number: int) -> None:
        together.wait()
        for step in range(4):
            told = number * 10 + step
            text = harnesses[number].ask(messages=[{"role": "user", "content": f"{told}"}], stream=step % 2 == 0).text
            assert f'"content": "{told}"' in text

    with ThreadPoolExecutor(64) as pool:
        list(pool.map(work, range(64)))
    for number, harness in enumerate(harnesses):
        calls = harness.session.close()
        assert [call.index for call in calls] == [0, 1, 2, 3]
        for step, call in enumerate(calls):
            told = number * 10 + step
            assert (call.prompt_ids, call.samples[0].token_ids, call.outcome) == ((told,), (told,), "complete")
            assert json.loads(call.received.body)["messages"][0]["content"] == f"{told}"


def test_two_calls_at_once_in_one_session_do_not_mix(harness, engine, make) -> None:
    gates = {"a": make.Gate(), "b": make.Gate()}

    def answer(body):
        name = body["messages"][0]["content"]
        first, last = make.event(make.chunk({"content": name}, [ord(name)])), make.event(make.chunk({"content": name.upper()}, [0], "stop"))
        return make.Answer([first, gates[name], last, make.event("[DONE]")], headers=make.SSE)

    engine.answer = answer
    with ThreadPoolExecutor() as pool:
        replies = {name: pool.submit(harness.ask, stream=True, messages=[{"role": "user", "content": name}]) for name in gates}
        assert all(gate.reached.wait(20) for gate in gates.values())
        for gate in gates.values():
            gate.open()
        texts = {name: reply.result().text for name, reply in replies.items()}
    assert '"B"' not in texts["a"]
    assert '"A"' not in texts["b"]
    for call in harness.session.close():
        name = json.loads(call.received.body)["messages"][0]["content"]
        assert call.samples[0].token_ids == (ord(name), 0)


def test_a_kept_alive_connection_serves_one_call_after_another(harness, engine) -> None:
    with httpx.Client(base_url=harness.url, headers={"api-key": harness.session.key}, timeout=20) as client:
        for stream in (True, False, True):
            assert client.post("/v1/chat/completions", json={"stream": stream}).status_code == 200
    assert [call.delivery for call in harness.session.close()] == ["delivered"] * 3


def test_a_connection_to_the_engine_serves_one_call_after_another(engine, engine_url, tmp_path) -> None:
    proxy = CaptureProxy()
    with BackgroundServer(proxy) as server:
        session = proxy.open_session(Upstream(url=engine_url, model="served"), journal=tmp_path / "journal.ndjson")
        url, headers = server.listen().url + "/v1/chat/completions", {"api-key": session.key}
        for stream in (True, True, False, True):
            assert httpx.post(url, json={"stream": stream}, headers=headers, timeout=20).status_code == 200
            with session._changed:
                assert session._changed.wait_for(lambda: not session._running, timeout=20)
        session.close()
    assert len({request.client for request in engine.requests}) == 1


@pytest.mark.parametrize("stream", [False, True])
def test_a_proxy_that_stops_in_the_middle_of_a_call_has_recorded_it(engine, engine_url, make, tmp_path, stream) -> None:
    gate = make.Gate()
    engine.answer = lambda _: make.Answer([*make.events()[:2], gate] if stream else [gate], headers=make.SSE if stream else {})
    proxy = CaptureProxy()
    with ThreadPoolExecutor() as pool, BackgroundServer(proxy) as server:
        session = proxy.open_session(Upstream(url=engine_url, model="served"), journal=tmp_path / "journal.ndjson")
        url, headers = server.listen().url + "/v1/chat/completions", {"api-key": session.key}
        running = pool.submit(httpx.post, url, json={"stream": stream}, headers=headers, timeout=20)
        assert gate.reached.wait(20)
        server.close()
        if stream:
            with pytest.raises(httpx.TransportError):
                running.result()
        else:
            assert running.result().status_code == 500
    [call] = session.close()
    assert (call.outcome, call.delivery) == ("cancelled", "unknown")
    assert engine.hung_up.wait(20)
