"""Retries: one turn for a retry, two for a genuine repeat, whatever order and delivery; every rule with a case of its own."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_harness.evidence import Call, Message, Sample, Times
from pytest_harness.graph import build, superseded, training_rows


def call(index, *, body="same", prompt=(1,), sampled=None, received=None, delivered=None, **more):
    """A call of one second, delivered at its end unless told otherwise."""
    received = 10.0 * index if received is None else received
    delivery = more.pop("delivery", "delivered")
    headers = {name.replace("_", "-"): str(value) for name, value in more.pop("marks", {}).items()}
    sampled = (100 + index,) if sampled is None else sampled
    return Call(
        index=index,
        id=f"call-{index}",
        dialect="chat",
        method="POST",
        path=more.pop("path", "/v1/chat/completions"),
        streamed=False,
        received=Message(headers=headers, body=json.dumps({"messages": body})),
        prompt_ids=prompt,
        samples=(Sample(index=0, token_ids=sampled, logprobs=tuple(-0.5 for _ in sampled), finish_reason="stop"),),
        outcome=more.pop("outcome", "complete"),
        delivery=delivery,
        times=Times(received=received, delivered=(received + 1 if delivered is None else delivered) if delivery == "delivered" else None),
        **more,
    )


def fates(*calls):
    return {turn.call: turn.fate for turn in build(calls).turns}


def trained(*calls):
    return {number for row in training_rows(build(calls)) for number in row.calls}


RETRY = {"x_stainless_retry_count": 1}


def test_an_equal_body_without_a_mark_after_a_delivered_reply_is_a_turn_of_its_own():
    """A compaction that yields the same notes repeats a body byte for byte."""
    calls = call(0), call(1)
    assert superseded(calls) == {}
    assert fates(*calls) == {0: "used", 1: "used"}
    assert trained(*calls) == {0, 1}


@pytest.mark.parametrize("header", ["x_stainless_retry_count", "x_retry_count", "x_retry_attempt"])
def test_a_retry_count_makes_an_equal_body_a_retry(header):
    calls = call(0, marks={header: 0}), call(1, marks={header: 1})
    assert superseded(calls) == {0: 1}
    assert fates(*calls) == {0: "retried", 1: "used"}
    assert trained(*calls) == {1}


@pytest.mark.parametrize("count", ["0", "", "-1", "one", "²", "1" * 5000])
def test_a_retry_count_that_counts_nothing_is_no_mark(count):
    assert superseded([call(0), call(1, marks={"x_stainless_retry_count": count})]) == {}


@pytest.mark.parametrize("header", ["idempotency_key", "x_idempotency_key"])
def test_an_idempotency_key_decides(header):
    assert superseded([call(0, marks={header: "a"}), call(1, marks={header: "a"})]) == {0: 1}
    assert superseded([call(0, marks={header: "a"}), call(1, marks={header: "b", **RETRY})]) == {}
    assert superseded([call(0, marks={header: "a"}), call(1, body="other", marks={header: "a"})]) == {}


@pytest.mark.parametrize(
    "what", [{"delivery": "client_gone"}, {"delivery": "unknown"}, {"outcome": "upstream_error"}, {"outcome": "cancelled"}]
)
def test_asking_the_same_again_after_a_failure_is_a_retry_without_any_mark(what):
    calls = call(0, **what), call(1)
    assert superseded(calls) == {0: 1}
    assert trained(*calls) == {1}


def test_a_retry_of_something_else_is_none():
    assert superseded([call(0), call(1, body="other", marks=RETRY)]) == {}
    assert superseded([call(0), call(1, path="/chat/completions", marks=RETRY)]) == {}
    assert superseded([call(0, marks=RETRY)]) == {}


def test_a_chain_of_retries_is_one_turn():
    calls = call(0), call(1, marks=RETRY), call(2, marks={"x_stainless_retry_count": 2})
    assert superseded(calls) == {0: 1, 1: 2}
    assert trained(*calls) == {2}


def test_a_failed_call_is_what_was_retried_rather_than_a_later_one_that_was_delivered():
    assert superseded([call(0, delivery="client_gone"), call(1, received=0.5), call(2, marks=RETRY)]) == {0: 1, 1: 2}
    assert superseded([call(0), call(1, delivery="client_gone", marks={"idempotency_key": "a"}), call(2, marks=RETRY)]) == {1: 2}


def test_a_reply_that_is_continued_was_used_whatever_was_retried():
    """The harness's clock and the wire may disagree; the ids of the next prompt do not."""
    calls = call(0), call(1, marks=RETRY), call(2, body="next", prompt=(1, 100, 7))
    assert fates(*calls) == {0: "used", 1: "abandoned", 2: "used"}


def test_of_equal_replies_the_retry_is_the_turn():
    calls = call(0, sampled=(9,)), call(1, sampled=(9,), marks=RETRY), call(2, body="next", prompt=(1, 9, 7))
    assert fates(*calls) == {0: "retried", 1: "used", 2: "used"}


def test_equal_requests_that_run_side_by_side_and_lead_nowhere_are_ambiguous():
    assert fates(call(0, received=0.0, delivered=5.0), call(1, received=3.0)) == {0: "ambiguous", 1: "ambiguous"}


def test_an_undelivered_retry_leaves_no_turn():
    calls = call(0), call(1, delivery="client_gone", marks=RETRY)
    assert fates(*calls) == {0: "retried", 1: "undelivered"}
    assert trained(*calls) == set()


def test_a_constrained_turn_has_no_weight():
    assert trained(call(0, constraints=("tool_choice",))) == set()
    assert trained(call(0)) == {0}


def test_a_stop_reply_is_never_a_turn():
    assert fates(call(0, outcome="budget_stop")) == {}


MARKS = st.sampled_from([{}, {}, RETRY, {"x_stainless_retry_count": 2}, {"idempotency_key": "a"}, {"idempotency_key": "b"}])
STATES = st.sampled_from(["delivered", "delivered", "client_gone", "unknown"])


@st.composite
def sessions(draw):
    return [
        call(index, body=draw(st.sampled_from("xy")), marks=draw(MARKS), delivery=draw(STATES), outcome=draw(st.sampled_from(OUTCOMES)))
        for index in range(draw(st.integers(1, 9)))
    ]


OUTCOMES = ["complete", "complete", "complete", "upstream_error", "budget_stop"]


@given(sessions(), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_for_every_session_a_retry_says_the_same_and_comes_later_and_each_call_has_one_at_most(calls, shuffler):
    found = superseded(calls)
    for before, after in found.items():
        assert before < after
        assert calls[before].received.body == calls[after].received.body
    assert len(set(found.values())) == len(found)
    shuffled = list(calls)
    shuffler.shuffle(shuffled)
    assert superseded(shuffled) == found


@given(sessions())
@settings(deadline=None)
def test_for_every_session_nothing_undelivered_or_retried_is_trained(calls):
    graph = build(calls)
    rows = [number for row in training_rows(graph) for number in row.calls]
    used = {turn.call for turn in graph.turns if turn.fate == "used"}
    assert set(rows) <= used
    assert len(rows) == len(set(rows))
    assert all(calls[number].delivery == "delivered" and calls[number].outcome == "complete" for number in used)
    assert used.isdisjoint(superseded(calls))


@given(st.integers(1, 6), st.integers(0, 5))
def test_for_every_number_of_repeats_and_retries_each_repeat_is_one_turn(repeats, retries):
    calls = []
    for _ in range(repeats):
        calls += [call(len(calls) + count, marks={"x_stainless_retry_count": count}) for count in range(retries + 1)]
    assert sum(turn.fate == "used" for turn in build(calls).turns) == repeats


def test_many_repeats_are_looked_at_once_each():
    """Ten thousand probes with the same body: comparing each with each would take minutes."""
    assert superseded([call(index) for index in range(10_000)]) == {}
