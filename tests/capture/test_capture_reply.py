"""What of a whole reply the harness gets, and what is captured of it."""

from __future__ import annotations

import json
import math

import pytest

from pytest_harness.capture.dialects.chat import read_request
from pytest_harness.capture.relays import ChatRelay


def test_the_harness_gets_the_reply_less_the_capture_only_fields(harness) -> None:
    reply = harness.ask()
    document = reply.json()
    assert list(document) == ["id", "object", "created", "model", "choices", "usage", "prompt_logprobs"]
    [choice] = document["choices"]
    assert choice["message"] == {"role": "assistant", "content": "Hi ✓", "reasoning": None}
    assert choice["logprobs"] is None
    assert "token_ids" not in choice
    assert reply.headers["content-type"] == "application/json"


def test_a_call_is_recorded_in_all_four_forms(harness, engine) -> None:
    body = harness.ask().text
    [call] = harness.session.close()
    assert (call.index, call.dialect, call.method, call.path, call.streamed) == (0, "chat", "POST", "/v1/chat/completions", False)
    assert (call.outcome, call.delivery, call.error) == ("complete", "delivered", None)
    assert json.loads(call.received.body)["model"] == "any"
    assert json.loads(call.forwarded.body) == engine.requests[0].body
    assert json.loads(call.replied.body)["prompt_token_ids"] == [1, 2, 3]
    assert (call.replied.status, call.delivered.status) == (200, 200)
    assert call.delivered.body == body
    assert call.prompt_ids == (1, 2, 3)
    [sample] = call.samples
    assert (sample.index, sample.token_ids, sample.logprobs, sample.finish_reason) == (0, (7, 8), (-0.5, -0.25), "stop")
    times = call.times
    assert times.received <= times.forwarded <= times.first_byte <= times.replied <= times.delivered


def test_a_harness_that_asked_for_logprobs_gets_them(harness, engine) -> None:
    [choice] = harness.ask(logprobs=True, top_logprobs=2).json()["choices"]
    assert len(choice["logprobs"]["content"]) == 2
    assert "token_ids" not in choice
    assert engine.requests[0].body["top_logprobs"] == 2
    assert "return_tokens_as_token_ids" not in engine.requests[0].body


def test_a_reply_without_ids_has_none_and_not_no_ids(harness, engine, make) -> None:
    document = make.completion(prompt_token_ids=None)
    document["choices"][0] |= {"token_ids": None, "logprobs": None}
    engine.answer = lambda body: make.whole(document)
    harness.ask()
    [call] = harness.recorded()
    assert call.prompt_ids is None
    assert (call.samples[0].token_ids, call.samples[0].logprobs) == (None, None)


def test_values_are_kept_as_the_engine_sent_them(harness, engine, make) -> None:
    document = make.completion(prompt_token_ids=[1.5, None, -3, True, "x", 10**30])
    document["choices"][0]["logprobs"]["content"] = [{"logprob": math.nan}, {"logprob": None}, {"logprob": 0.1}, {}, 5]
    document["choices"][0]["token_ids"] = []
    engine.answer = lambda body: make.whole(document)
    assert harness.ask().status_code == 200
    [call] = harness.session.close()
    assert [repr(value) for value in call.prompt_ids] == ["1.5", "None", "-3", "True", "'x'", repr(10**30)]
    assert [repr(value) for value in call.samples[0].logprobs] == ["nan", "None", "0.1", "None", "5"]
    assert call.samples[0].token_ids == ()


@pytest.mark.parametrize("ids", ['["\\ud800"]', "[" * 400 + "]" * 400])
def test_ids_that_cannot_be_written_down_do_not_lose_the_call(harness, engine, make, ids) -> None:
    body = json.dumps(make.completion(prompt_token_ids="HERE")).replace('"HERE"', ids)
    engine.answer = lambda _: make.Answer([body.encode()])
    assert harness.ask().status_code == 200
    [call] = harness.session.close()
    assert call.outcome == "complete"
    assert call.replied.body == body
    assert call.prompt_ids is None
    assert "could not be recorded" in call.error


def test_every_choice_is_captured(harness, engine, make) -> None:
    document = make.completion()
    document["choices"].append(document["choices"][0] | {"index": 1, "token_ids": [9], "finish_reason": "length"})
    engine.answer = lambda body: make.whole(document)
    harness.ask(n=2)
    [call] = harness.recorded()
    assert [(sample.index, sample.token_ids, sample.finish_reason) for sample in call.samples] == [(0, (7, 8), "stop"), (1, (9,), "length")]


def test_a_reply_with_nothing_to_take_out_goes_on_byte_for_byte() -> None:
    body = b'{ "choices": [ {"message": {"content": "x"}, "logprobs":null} ], "x": 1.50 }'
    assert ChatRelay(read_request(b"{}")).whole(body, b"").spans == [(0, len(body))]


def test_the_sdk_reads_the_reply(harness) -> None:
    reply = harness.sdk.chat.completions.create(model="any", messages=[{"role": "user", "content": "Hello"}])
    assert reply.choices[0].message.content == "Hi ✓"
    assert reply.usage.total_tokens == 5


def test_a_reply_too_large_to_wait_unread_leaves_its_connection_good_for_the_next(harness, engine, make) -> None:
    ids = list(range(100_000, 300_000))
    engine.answer = lambda body: make.whole(make.completion(prompt_token_ids=ids))
    for _ in range(4):
        assert harness.ask().status_code == 200
    assert [len(call.prompt_ids) for call in harness.session.close()] == [len(ids)] * 4
