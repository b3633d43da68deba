"""SGLang, by what is published of it: its streams are not asked for ids, and what its whole replies tell is read where SGLang tells it."""

from __future__ import annotations

import json

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_harness.capture import CaptureProxy
from pytest_harness.capture.dialects.chat_reply import read_ids
from pytest_harness.capture.probe import probe
from pytest_harness.contract.chat_wire import parse_reply
from pytest_harness.engines.scripted import Script, Step
from pytest_harness.evidence import Message
from pytest_harness.rollouts.engines import attached, engine_of
from pytest_harness.serving import BackgroundServer

from .sglang_wire import SglangWire

SCRIPT = Script((Step("Hi there."),))
CHAT = {"model": "any", "messages": [{"role": "user", "content": "Say hi."}]}
WITH_IDS = {**CHAT, "model": "served", "logprobs": True, "return_token_ids": True}
PROMPTS = st.none() | st.sampled_from([[], [7], [7, 8]])
RED = {
    "TOK-201": "no ids in streams",
    "STR-201": "no ids in streams",
    "LGP-204": "logprobs name tokens by their text",
    "ERR-201": "errors are flat",
    "ERR-202": "errors are flat",
    "ERR-203": "errors are flat",
    "FIN-207": "the stop string is told as matched_stop",
}
"""What SGLang breaks by what is published of it, and why."""
BY_CHANCE = {"TOK-208"}
"""What chance says is not cut into the ids that were drawn, as with any model of random weights."""


@pytest.fixture
def url():
    with BackgroundServer(SglangWire(SCRIPT)) as server:
        yield server.listen().url


def test_its_whole_replies_reach_tokens_and_its_streams_logprobs(url):
    found = probe(url)
    assert (found.model, found.version, found.level, found.whole.missing) == ("served", None, "tokens", ())
    assert (found.streamed.level, found.streamed.missing) == ("logprobs", ("prompt_token_ids", "token_ids"))
    assert (found.streams_ids, found.buffered) == (False, True)


def test_nothing_speaks_against_training_with_its_whole_replies():
    with BackgroundServer(SglangWire(None)) as server:
        url = server.listen().url
        assert probe(url).speaks_against_training(url) is None


@pytest.mark.parametrize("streams", [True, False], ids=["streamed", "whole"])
def test_the_ids_of_the_prompt_are_recorded_and_reach_no_harness(url, tmp_path, streams):
    told = httpx.post(f"{url}/v1/chat/completions", json=WITH_IDS).json()["choices"][0]
    proxy = CaptureProxy()
    with engine_of(SCRIPT, attached(url), salt="") as engine, BackgroundServer(proxy) as front:
        session = proxy.open_session(engine.upstream, tmp_path / "journal")
        headers = {"authorization": f"Bearer {session.key}"}
        reply = httpx.post(f"{front.listen().url}/v1/chat/completions", json={**CHAT, "stream": streams}, headers=headers)
        [call] = session.close()
    lines = [line.removeprefix("data: ") for line in reply.text.splitlines()] if streams else [reply.text]
    documents = [json.loads(line) for line in lines if line.startswith("{")]
    parts = [choice.get("delta") or choice.get("message") or {} for document in documents for choice in document["choices"]]
    assert "".join(part.get("content") or "" for part in parts) == "Hi there."
    assert "token_ids" not in reply.text
    [sample] = call.samples
    assert (call.outcome, call.streamed) == ("complete", streams)
    assert list(call.prompt_ids) == told["prompt_token_ids"]
    assert list(sample.token_ids) == told["token_ids"]
    assert parse_reply(call.replied).prompt_ids == told["prompt_token_ids"]


@given(beside=PROMPTS, inside=st.lists(PROMPTS, min_size=1, max_size=3))
def test_proxy_and_checks_read_the_same_prompt_wherever_it_is_told(beside, inside):
    choices = [{"index": number, "message": {}, "prompt_token_ids": ids} for number, ids in enumerate(inside)]
    body = json.dumps({"choices": choices, "prompt_token_ids": beside})
    captured, _ = read_ids(body.encode(), streamed=False)
    judged = parse_reply(Message(headers={}, body=body)).prompt_ids
    told = [ids for ids in ([beside] if beside is not None else inside) if ids is not None]
    assert (None if captured is None else list(captured)) == judged == (told[0] if told and all(ids == told[0] for ids in told) else None)


def test_the_engine_suite_finds_what_it_does_otherwise_and_nothing_else(tmp_path, run_pytest):
    with BackgroundServer(SglangWire(None)) as server:
        done = run_pytest(tmp_path, f"--llm-url={server.listen().url}", "-q", "--tb=no", "--no-summary")
    assert done.returncode == 1, done.stdout + done.stderr
    report = json.loads((tmp_path / ".harness" / "report" / "engine.json").read_text())
    red = {entry["id"] for entry in report["requirements"] if entry["standing"] in ("failed", "error")}
    assert red - BY_CHANCE == set(RED)
    assert (report["level"], report["streamed"], report["logprobs"], report["may_train"]) == ("tokens", "logprobs", "processed", None)
