"""What a session's sampling policy makes of a request, and what it marks or refuses."""

import asyncio
import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_harness.capture import Upstream
from pytest_harness.capture.admission import Forward, Refuse
from pytest_harness.capture.policy import NEUTRAL, PolicyError, SamplingPolicy, constraints
from pytest_harness.capture.sessions import Sessions

CHAT = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}


@pytest.fixture
def admit(tmp_path: Path):
    """What a session with these settings says to one request."""

    numbers = itertools.count()

    def admit_one(chat, **settings):
        async def ask():
            session = Sessions().open(Upstream(url="http://engine", model="m"), tmp_path / f"{next(numbers)}.ndjson", **settings)
            with session.call() as running:
                return session.admit(chat, running)

        return asyncio.run(ask())

    return admit_one


def test_an_eval_session_leaves_sampling_to_the_harness(admit) -> None:
    assert admit({**CHAT, "top_p": 0.5}) == Forward()


def test_a_training_session_sends_every_neutral_value_though_the_harness_names_none(admit) -> None:
    assert admit(CHAT, purpose="train") == Forward({**NEUTRAL, "temperature": 1.0})


def test_a_training_session_undoes_what_the_harness_asked_for_but_its_temperature(admit) -> None:
    asked = {"top_p": 0.9, "top_k": 50, "min_p": 0.1, "presence_penalty": 1, "frequency_penalty": None, "repetition_penalty": "1.0"}
    admission = admit({**CHAT, **asked, "temperature": 0.7}, purpose="train")
    assert admission.edits == NEUTRAL


def test_a_pinned_temperature_is_sent_whatever_the_harness_says(admit) -> None:
    policy = SamplingPolicy(temperature=0.8)
    assert admit({**CHAT, "temperature": 0}, purpose="train", policy=policy) == Forward({**NEUTRAL, "temperature": 0.8})


def test_what_is_neutral_already_is_not_touched(admit) -> None:
    assert admit({**CHAT, **NEUTRAL, "temperature": 0.3}, purpose="train") == Forward({})


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": {"type": "function", "function": {"name": "bash"}}}, "tool_choice"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, "response_format"),
        ({"guided_json": {"type": "object"}}, "guided_json"),
        ({"guided_choice": ["a"]}, "guided_choice"),
        ({"structured_outputs": {"regex": "a"}}, "structured_outputs"),
        ({"logit_bias": {"7": 100}}, "logit_bias"),
        ({"allowed_token_ids": [1]}, "allowed_token_ids"),
        ({"bad_words": ["no"]}, "bad_words"),
        ({"min_tokens": 5}, "min_tokens"),
        ({"ignore_eos": True}, "ignore_eos"),
    ],
)
def test_constrained_sampling_is_marked_in_every_session_and_refused_where_the_policy_says_so(admit, fields, named) -> None:
    assert admit({**CHAT, **fields}).constraints == (named,)
    assert admit({**CHAT, **fields}, purpose="train").constraints == (named,)
    refusal = admit({**CHAT, **fields}, purpose="train", policy=SamplingPolicy(constrained="refuse"))
    assert isinstance(refusal, Refuse)
    assert (refusal.param, refusal.status) == (named, 400)


@pytest.mark.parametrize(
    "fields",
    [
        {"tool_choice": "auto"},
        {"tool_choice": "none"},
        {"tool_choice": None},
        {"response_format": {"type": "text"}},
        {"response_format": None},
        {"logit_bias": {}},
        {"logit_bias": None},
        {"min_tokens": 0},
        {"ignore_eos": False},
        {"bad_words": []},
    ],
)
def test_what_constrains_nothing_is_not_marked(fields) -> None:
    assert constraints({**CHAT, **fields}) == ()


def test_a_greedy_call_is_marked_in_training_only(admit) -> None:
    assert admit({**CHAT, "temperature": 0.0}).constraints == ()
    assert admit({**CHAT, "temperature": 0.0}, purpose="train").constraints == ("temperature",)


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5), lambda x: st.lists(x, max_size=2))


@given(st.dictionaries(st.sampled_from([*NEUTRAL, "temperature", "n", "max_tokens", "tool_choice", "min_tokens", "logit_bias"]), JSON))
def test_for_every_request_what_is_sent_in_training_is_neutral(chat) -> None:
    sent = {**chat, **SamplingPolicy(temperature=1.0).edits(chat)}
    assert {name: sent[name] for name in NEUTRAL} == NEUTRAL
    assert sent["temperature"] == 1.0
    assert SamplingPolicy(temperature=1.0).edits(sent) == {}
    constraints(sent)


@pytest.mark.parametrize("temperature", [-0.1, 2.1, float("nan")])
def test_a_temperature_that_no_engine_takes_is_refused_in_a_sentence(temperature) -> None:
    with pytest.raises(PolicyError, match="not between 0 and 2"):
        SamplingPolicy(temperature=temperature)
