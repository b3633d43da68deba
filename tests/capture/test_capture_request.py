"""What the engine is asked, whatever the harness said."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_harness.capture.dialects import chat
from pytest_harness.capture.dialects.chat_fields import KNOWN
from pytest_harness.capture.policy import _CONSTRAINING
from pytest_harness.capture.recipes import cook
from pytest_harness.evidence.notes import names_not_passed_on

OURS = {"model", "logprobs", "top_logprobs", "return_token_ids", "return_tokens_as_token_ids", "stream_options", "stream"}
REFUSABLE = {"chat_template", "add_generation_prompt", "continue_final_message", "echo", "truncate_prompt_tokens", "prompt_logprobs"}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
NAMES = st.sampled_from(sorted(KNOWN)) | st.sampled_from(["_private", "x_internal", "extra_body", "a, b", '"'])
SWITCHES = st.sampled_from([None, False, True, 0, 1, "no", "true", -1, [], {}])


def forwarded(**fields):
    body = json.dumps(fields).encode()
    forwarded = chat.read_request(body).forwarded("served")
    if forwarded.recipe is not None:
        assert cook(forwarded.recipe, body) == forwarded.body
    return json.loads(forwarded.body)


@given(
    others=st.dictionaries(
        (NAMES | st.text(max_size=8)).filter(lambda name: name not in OURS | REFUSABLE | {"chat_template_kwargs"}), JSON, max_size=6
    ),
    switches=st.dictionaries(st.sampled_from(sorted(OURS)), SWITCHES),
)
def test_for_every_request_the_capture_stays_on_and_every_other_known_field_is_as_it_came(others, switches) -> None:
    asked = forwarded(**others, **switches)
    assert asked["model"] == "served"
    assert asked["logprobs"] is True
    assert asked["return_token_ids"] is True
    assert asked["top_logprobs"] is not None
    if chat._is_true(switches.get("stream")):
        assert asked["stream_options"]["include_usage"] is True
    else:
        assert asked.get("stream_options") == switches.get("stream_options")
    assert {name: value for name, value in asked.items() if name not in OURS} == {n: value for n, value in others.items() if n in KNOWN}
    assert asked.get("stream") == switches.get("stream")


@given(names=st.sets(NAMES | st.text(max_size=8)))
def test_for_every_request_exactly_the_unknown_fields_are_left_out_and_noted(names) -> None:
    fields = dict.fromkeys(names)
    request = chat.read_request(json.dumps(fields).encode())
    assert names_not_passed_on(request.notes) == names - KNOWN
    assert len(request.notes) == bool(names - KNOWN)
    assert names & KNOWN <= json.loads(request.forwarded("served").body).keys() <= KNOWN


def test_private_fields_stay_out_and_the_record_says_so(harness, engine) -> None:
    harness.ask(_private_marker="canary", x_internal={"trace": 1})
    assert not engine.requests[0].body.keys() & {"_private_marker", "x_internal"}
    [call] = harness.recorded()
    assert call.notes == ("not known to the engine, not passed on: _private_marker, x_internal",)
    assert "canary" in call.received.body
    assert json.loads(call.forwarded.body) == engine.requests[0].body


@pytest.mark.parametrize("stream", [False, True])
def test_the_name_of_a_field_is_recorded_whatever_its_characters(harness, stream) -> None:
    body = b'{"stream":%s,"\\ud800, \\u0000":1,"messages":[]}' % json.dumps(stream).encode()
    harness.http.post("/v1/chat/completions", content=body, headers={"content-type": "application/json"})
    [call] = harness.recorded()
    assert call.outcome == "complete"
    assert names_not_passed_on(call.notes) == {"\ud800, \0"}


def test_every_field_that_the_policy_looks_at_goes_on() -> None:
    assert _CONSTRAINING.keys() <= KNOWN


def test_a_lone_surrogate_and_a_large_number_go_on_as_they_came() -> None:
    body = b'{"user":"\\ud800","seed":123456789012345678901234567890,"top_p":1.0}'
    document = json.loads(chat.read_request(body).forwarded("served").body)
    assert (document["user"], document["seed"], repr(document["top_p"])) == ("\ud800", 123456789012345678901234567890, "1.0")


@pytest.mark.parametrize(
    "fields",
    [
        {"chat_template": "{{ x }}"},
        {"add_generation_prompt": False},
        {"add_generation_prompt": 0},
        {"continue_final_message": True},
        {"echo": True},
        {"truncate_prompt_tokens": -1},
        {"prompt_logprobs": 0},
        {"chat_template_kwargs": {"add_generation_prompt": False}},
    ],
)
def test_what_would_distort_the_prompt_is_refused_and_recorded(harness, engine, fields) -> None:
    reply = harness.ask(**fields)
    assert reply.status_code == 400
    assert reply.json()["error"]["param"].split(".")[0] == next(iter(fields))
    [call] = harness.recorded()
    assert call.outcome == "refused"
    assert json.loads(call.received.body).items() >= fields.items()
    assert engine.requests == []


@pytest.mark.parametrize(
    "fields",
    [{"echo": False}, {"chat_template": None}, {"add_generation_prompt": True}, {"chat_template_kwargs": {"enable_thinking": False}}],
)
def test_harmless_values_of_these_fields_go_on(harness, engine, fields) -> None:
    assert harness.ask(**fields).status_code == 200
    assert engine.requests[0].body.items() >= fields.items()


def test_continuous_usage_is_kept_only_for_a_harness_that_asked_for_usage() -> None:
    asked = forwarded(stream=True, stream_options={"include_usage": True, "continuous_usage_stats": True})
    assert asked["stream_options"]["continuous_usage_stats"] is True
    asked = forwarded(stream=True, stream_options={"continuous_usage_stats": True})
    assert asked["stream_options"] == {"include_usage": True}


def test_the_engine_gets_its_own_key_and_none_of_the_harness_s_headers(harness, engine, make) -> None:
    harness.http.post("/v1/chat/completions", json={}, headers={"x-api-key": "harness-own", "cookie": "a=b", "x-trace": "t"})
    headers = engine.requests[0].headers
    assert headers["authorization"] == f"Bearer {make.ENGINE_KEY}"
    assert harness.session.key not in str(headers)
    assert not headers.keys() & {"x-api-key", "cookie", "x-trace"}
