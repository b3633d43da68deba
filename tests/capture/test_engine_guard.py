"""An engine that comes back from an outage with less than it had: it is asked anew, and no call goes to it any more."""

from __future__ import annotations

import httpx
import pytest

from pytest_harness.capture import CaptureProxy, Upstream
from pytest_harness.capture.guard import Guard
from pytest_harness.capture.probe import ProbeError, probe
from pytest_harness.engines.scripted import Fault, Script, ScriptedEngine, Step
from pytest_harness.rollouts.engines import attached, engine_of
from pytest_harness.serving import BackgroundServer

SCRIPT = Script((Step("Hi."),))
CHAT = {"model": "any", "messages": [{"role": "user", "content": "Say hi."}]}


class Engine:
    """The scripted engine, which can be cut off and can come back with less."""

    def __init__(self) -> None:
        self.scripted = ScriptedEngine(SCRIPT, model="served")
        self.there = True
        self.asked = 0

    async def __call__(self, scope, receive, send) -> None:
        if not self.there:  # it breaks off
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"9")]})
            return
        self.asked += 1
        await self.scripted(scope, receive, send)


@pytest.fixture
def engine():
    return Engine()


@pytest.fixture
def talk(engine, tmp_path):
    """Say something through a proxy in front of the engine: the status; and the calls that were recorded."""
    proxy = CaptureProxy()
    with BackgroundServer(engine) as server, BackgroundServer(proxy) as front:
        url = server.listen().url
        upstream = Upstream(url=url, model="served", guard=Guard(url, "served", "tokens"))
        session, base = proxy.open_session(upstream, tmp_path / "journal"), front.listen().url

        def say() -> httpx.Response:
            return httpx.post(f"{base}/v1/chat/completions", json=CHAT, headers={"authorization": f"Bearer {session.key}"})

        say.calls = session.calls
        yield say


def test_an_engine_that_never_was_away_is_not_asked(engine, talk):
    assert [talk().status_code, talk().status_code] == [200, 200]
    assert engine.asked == 2


def test_one_that_comes_back_as_it_was_goes_on(engine, talk):
    engine.there = False
    assert talk().status_code == 502
    engine.there = True
    assert [talk().status_code, talk().status_code] == [200, 200]
    asked = engine.asked
    assert talk().status_code == 200
    assert engine.asked == asked + 1


def test_one_that_comes_back_with_less_gets_no_call_and_the_record_says_why(engine, talk):
    engine.there = False
    assert talk().status_code == 502
    engine.there, engine.scripted.faults = True, [Fault("null_ids")]
    refused = talk()
    assert refused.status_code == 502
    assert refused.json()["error"]["message"] == "The engine behind this proxy returns less than it did, so it is asked no more."
    call = talk.calls()[-1]
    assert (call.outcome, call.forwarded) == ("unreachable_upstream", None)
    assert "returns no prompt_token_ids and no token_ids, so it cannot serve the level tokens" in call.error
    asked, engine.scripted.faults = engine.asked, []
    assert talk().status_code == 502
    assert engine.asked == asked


def test_while_it_cannot_be_asked_nothing_is_known():
    answers = iter([ProbeError("it starts"), None])

    def ask(*_, **__):
        answer = next(answers)
        if answer is not None:
            raise answer
        with BackgroundServer(ScriptedEngine(SCRIPT, faults=[Fault("missing_logprobs")])) as server:
            return probe(server.listen().url)

    guard = Guard("http://127.0.0.1:9", "served", "tokens", ask=ask)
    assert guard.check() is None
    assert "returns no logprobs" in guard.check()


@pytest.mark.parametrize(("flags", "level"), [({}, "tokens"), ({"faults": [Fault("null_ids")]}, "logprobs")])
def test_an_attached_engine_is_held_to_what_it_returned_at_first(flags, level):
    scripted = ScriptedEngine(SCRIPT, **flags)
    with BackgroundServer(scripted) as server:
        shared = attached(server.listen().url)
        assert (shared.promised, shared.guard.check()) == (level, None)
        with engine_of(SCRIPT, shared, salt="") as engine:
            assert (engine.upstream.guard.promised, engine.upstream.guard.url) == (level, shared.url)
        scripted.faults = [Fault("missing_logprobs")]
        assert f"cannot serve the level {level}" in shared.guard.check()
