"""SGLang, by what is published of it: its streams are not asked for ids, and its level is what the proxy can read of it."""

from __future__ import annotations

import json

import httpx
import pytest

from pytest_harness.capture import CaptureProxy
from pytest_harness.capture.probe import ProbeError, probe
from pytest_harness.engines.scripted import Script, Step
from pytest_harness.rollouts.engines import attached, engine_of
from pytest_harness.serving import BackgroundServer

from .sglang_wire import SglangWire

SCRIPT = Script((Step("Hi there."),))
CHAT = {"model": "any", "messages": [{"role": "user", "content": "Say hi."}], "stream": True}


@pytest.fixture
def url():
    with BackgroundServer(SglangWire(SCRIPT)) as server:
        yield server.listen().url


def test_its_prompt_ids_stand_where_the_proxy_does_not_look_so_its_level_is_logprobs(url):
    found = probe(url)
    assert (found.model, found.version, found.level, found.whole.missing) == ("served", None, "logprobs", ("prompt_token_ids",))
    assert (found.streamed.level, found.buffered) == ("text", True)


def test_it_is_refused_for_training_in_one_sentence(url):
    with pytest.raises(ProbeError, match="returns no prompt_token_ids, so it cannot serve the level tokens"):
        probe(url).require_training(url)


def test_a_harness_that_streams_gets_a_stream_made_of_its_whole_replies(url, tmp_path):
    proxy = CaptureProxy()
    with engine_of(SCRIPT, attached(url), salt="") as engine, BackgroundServer(proxy) as front:
        session = proxy.open_session(engine.upstream, tmp_path / "journal")
        reply = httpx.post(f"{front.listen().url}/v1/chat/completions", json=CHAT, headers={"authorization": f"Bearer {session.key}"})
        [call] = session.close()
    chunks = [json.loads(line[6:]) for line in reply.text.splitlines() if line.startswith("data: {")]
    assert "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"]) == "Hi there."
    [sample] = call.samples
    assert (call.outcome, len(sample.token_ids)) == ("complete", len(sample.logprobs))
    assert call.prompt_ids is None
