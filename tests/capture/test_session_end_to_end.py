"""Policy, budget and retries where they matter: on the wire between a harness and an engine, and in what was recorded."""

from __future__ import annotations

import gc
import json
import threading
import weakref
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import openai
import pytest

from pytest_harness.capture import CaptureProxy, Upstream
from pytest_harness.capture.budget import Budget
from pytest_harness.capture.identity import Expiry
from pytest_harness.capture.policy import NEUTRAL, SamplingPolicy
from pytest_harness.capture.sessions import Sessions
from pytest_harness.graph import build, superseded, training_rows
from pytest_harness.serving import BackgroundServer

MESSAGES = [{"role": "user", "content": "Hello"}]


class Place:
    """A proxy with one session at a time in front of the fake engine."""

    def __init__(self, folder, engine_url: str) -> None:
        self._folder = folder
        self._upstream = Upstream(url=engine_url, model="served")
        self.sessions = Sessions()
        self._server = BackgroundServer(CaptureProxy(sessions=self.sessions)).start()
        self.url = self._server.listen().url
        self._clients: list[httpx.Client] = []

    def open(self, **settings):
        session = self.sessions.open(self._upstream, self._folder / "calls.ndjson", **settings)
        limits = httpx.Limits(max_connections=100)
        client = httpx.Client(
            base_url=self.url, headers={"authorization": f"Bearer {session.key}"}, timeout=60, verify=False, limits=limits
        )
        self._clients.append(client)
        return session, client

    def close(self) -> None:
        for client in self._clients:
            client.close()
        for session in self.sessions:
            session.close()
        self._server.close()


@pytest.fixture
def place(tmp_path, engine, engine_url) -> Iterator[Place]:
    place = Place(tmp_path, engine_url)
    yield place
    place.close()


def ask(client: httpx.Client, headers: dict[str, str] | None = None, **fields) -> httpx.Response:
    return client.post("/v1/chat/completions", json={"model": "any", "messages": MESSAGES, **fields}, headers=headers)


def test_a_training_session_sends_neutral_values_and_keeps_what_was_asked(place, engine) -> None:
    session, client = place.open(purpose="train", policy=SamplingPolicy(temperature=0.7))
    ask(client, top_p=0.5, temperature=0.0)
    (request,) = engine.requests
    assert {name: request.body[name] for name in NEUTRAL} == NEUTRAL
    assert request.body["temperature"] == 0.7
    (call,) = session.close()
    assert json.loads(call.received.body)["top_p"] == 0.5
    assert json.loads(call.forwarded.body)["top_p"] == 1.0


def test_a_constrained_call_is_marked_in_the_record_and_has_no_weight(place) -> None:
    session, client = place.open(purpose="train")
    ask(client, tool_choice="required")
    (call,) = session.close()
    assert call.constraints == ("tool_choice",)
    assert training_rows(build([call.model_copy(update={"delivery": "delivered"})])) == ()


def test_a_policy_that_refuses_constrained_calls_answers_with_the_dialects_error(place, engine) -> None:
    session, client = place.open(purpose="train", policy=SamplingPolicy(constrained="refuse"))
    reply = ask(client, response_format={"type": "json_object"})
    assert reply.status_code == 400
    assert reply.json()["error"]["param"] == "response_format"
    assert engine.requests == []
    assert [call.outcome for call in session.close()] == ["refused"]


def test_of_64_calls_at_once_exactly_20_reach_the_engine(place, engine, make) -> None:
    everyone = threading.Event()
    engine.answer = lambda body: make.whole()
    session, client = place.open(budget=Budget(calls=20))

    def one(_) -> dict:
        everyone.wait(60)
        return ask(client).json()

    with ThreadPoolExecutor(64) as pool:
        replies = [pool.submit(one, number) for number in range(64)]
        everyone.set()
        finishes = Counter(reply.result()["choices"][0]["finish_reason"] for reply in replies)
    assert finishes == {"stop": 64}
    assert len(engine.requests) == 20
    calls = session.close()
    assert Counter(call.outcome for call in calls) == {"complete": 20, "budget_stop": 44}
    assert all(call.forwarded is None and call.samples == () for call in calls if call.outcome == "budget_stop")
    assert len(build(calls).turns) == 20


@pytest.mark.parametrize("stream", [False, True])
def test_a_stop_reply_is_a_finished_text_to_openais_sdk(place, engine, stream) -> None:
    session, _ = place.open(budget=Budget(calls=0))
    with openai.OpenAI(base_url=f"{place.url}/v1", api_key=session.key, max_retries=0, timeout=60) as sdk:
        if stream:
            with sdk.chat.completions.stream(model="any", messages=MESSAGES) as events:
                reply = events.get_final_completion()
        else:
            reply = sdk.chat.completions.create(model="any", messages=MESSAGES)
    assert reply.choices[0].finish_reason == "stop"
    assert "budget" in reply.choices[0].message.content
    assert engine.requests == []
    (call,) = session.close()
    assert (call.outcome, call.delivery, call.streamed) == ("budget_stop", "delivered", stream)


def test_a_budget_of_tokens_lowers_the_limit_and_counts_what_was_sampled(place, engine) -> None:
    session, client = place.open(budget=Budget(tokens=3))
    ask(client, max_tokens=100)
    ask(client, max_completion_tokens=100)
    ask(client)
    assert [request.body.get("max_tokens") or request.body.get("max_completion_tokens") for request in engine.requests] == [3, 1]
    assert session.account.spent().tokens >= 3
    assert [call.outcome for call in session.close()][:2] == ["complete", "complete"]


def test_a_failed_call_is_charged(place, engine, make) -> None:
    session, client = place.open(budget=Budget(calls=1))
    engine.answer = lambda body: make.Answer([b"{}"], status=500)
    assert ask(client).status_code == 500
    assert ask(client).json()["choices"][0]["finish_reason"] == "stop"
    assert [call.outcome for call in session.close()] == ["upstream_error", "budget_stop"]


def test_a_retry_of_the_sdk_is_one_turn_and_a_repeat_two(place, engine, make) -> None:
    session, client = place.open()
    answers = iter([make.Answer([b"{}"], status=500), make.whole(), make.whole()])
    engine.answer = lambda body: next(answers)
    with openai.OpenAI(base_url=f"{place.url}/v1", api_key=session.key, max_retries=1, timeout=60) as sdk:
        sdk.chat.completions.create(model="any", messages=MESSAGES)
        sdk.chat.completions.create(model="any", messages=MESSAGES)
    calls = session.close()
    assert superseded(calls) == {0: 1}
    assert [turn.fate for turn in build(calls).turns] == ["used", "used"]
    client.close()


def test_a_key_that_expired_opens_nothing_more(place, engine) -> None:
    now = [1000.0]
    place.sessions._clock = lambda: now[0]
    session, client = place.open(expires=Expiry(idle=60))
    assert ask(client).status_code == 200
    session.wait()  # the reply is there a moment before the call is over
    now[0] += 61
    assert ask(client).status_code == 401
    assert len(engine.requests) == 1


def test_a_session_that_is_over_leaves_nothing_for_the_garbage_collector(place) -> None:
    """A server rarely collects garbage, so what a session leaves in cycles would stay. Its thread lets go a moment after the end."""
    session, client = place.open()
    client.post("/v1/chat/completions", json={"model": "m", "messages": MESSAGES})
    gone = threading.Event()
    weakref.finalize(session, gone.set)
    gc.disable()
    try:
        session.end()
        del session
        assert gone.wait(60)
    finally:
        gc.enable()
