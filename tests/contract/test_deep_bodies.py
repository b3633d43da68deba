"""Bodies that are nested deeply: judged as any other, or not at all, but never found to lack what they have."""

import json
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pytest_harness.contract import judge, model
from pytest_harness.contract.chat_wire import identical
from pytest_harness.contract.dialects.matching import same_value
from pytest_harness.contract.judge import judge_one
from pytest_harness.requirements import load_catalogue

CATALOGUE = load_catalogue()
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([0.0, 1.0, 0.5]) | st.sampled_from(["", "a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=8,
)


def nested(depth, core="1"):
    return '{"a":' * depth + core + "}" * depth


def with_field(message, text):
    assert message.body.startswith("{")
    return message.model_copy(update={"body": f'{{"deep":{text},{message.body[1:]}'})


def with_requests(evidence, received, forwarded):
    """Every request has one more field."""
    changed = [
        call.model_copy(update={"received": with_field(call.received, received), "forwarded": with_field(call.forwarded, forwarded)})
        for call in evidence.calls
    ]
    return replace(evidence, calls=tuple(changed))


def results(evidence):
    return {each.requirement.id: each.result for each in judge(evidence, CATALOGUE)}


def deep_list(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@settings(max_examples=15)
@given(st.integers(1, 4000))
@example(900)
@example(1300)
@example(1450)
@example(1495)
def test_a_body_of_any_depth_is_judged_as_any_other_or_nothing_is_judged(healthy, depth):
    evidence = healthy.pi()
    found = results(with_requests(evidence, nested(depth), nested(depth)))
    assert found == results(evidence) or set(found.values()) == {"error"}


def test_a_difference_at_depth_900_is_found(healthy):
    evidence = with_requests(healthy.pi(), nested(900), nested(900, "2"))
    found = {each.requirement.id: each for each in judge(evidence, CATALOGUE)}
    assert [name for name, each in found.items() if each.result in ("failed", "error")] == ["TOK-009"]
    assert {finding.where for finding in found["TOK-009"].findings} >= {"calls.ndjson line 1, forwarded.body deep"}


def test_what_cannot_be_read_is_told_with_its_place(healthy):
    text = nested(50_000)
    reasons = {each.reason for each in judge(with_requests(healthy.pi(), text, text), CATALOGUE)}
    assert reasons == {"calls.ndjson line 1, received.body is nested too deeply for our checks: nothing of this attempt is judged"}


@pytest.mark.parametrize("stream", [False, True])
def test_a_reply_that_cannot_be_read_is_told_with_its_place(healthy, stream):
    evidence = healthy.pi()
    chunk = f'{{"deep":{nested(50_000)}}}'
    body = f"data: {chunk}\n\ndata: [DONE]\n\n" if stream else chunk
    first, *others = evidence.calls
    broken = first.model_copy(update={"replied": first.replied.model_copy(update={"body": body})})
    judged = judge(replace(evidence, calls=(broken, *others)), CATALOGUE)
    assert {each.reason.partition(" is ")[0] for each in judged} == {"calls.ndjson line 1, replied.body"}


def test_a_request_that_was_refused_for_its_depth_spoils_no_other(healthy):
    evidence = healthy.pi()
    last = evidence.calls[-1]
    refused = last.model_copy(
        update={
            "index": last.index + 1,
            "received": with_field(last.received, nested(50_000)),
            "forwarded": None,
            "replied": None,
            "outcome": "refused",
            "samples": (),
            "prompt_ids": None,
        }
    )
    assert "error" not in results(replace(evidence, calls=(*evidence.calls, refused))).values()


@given(JSON, JSON)
def test_two_values_are_identical_if_their_kinds_and_values_are(one, other):
    assert identical(one, other) == (json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True))


@given(JSON, JSON)
def test_two_values_are_the_same_if_they_are_with_one_kind_of_number(one, other):
    def text(value):
        return json.dumps(json.loads(json.dumps(value), parse_int=float), sort_keys=True)

    assert same_value(one, other) == (text(one) == text(other))


@pytest.mark.parametrize("equal", [identical, same_value])
def test_values_of_any_depth_are_compared(equal):
    assert equal(deep_list(20_000), deep_list(20_000))
    assert not equal(deep_list(20_000), deep_list(20_001))


def test_a_check_that_gives_up_in_the_depth_says_so_and_not_that_the_subject_is_at_fault(healthy, monkeypatch):
    def give_up(evidence):
        raise RecursionError

    monkeypatch.setitem(model._CHECKS, "TOK-008", give_up)
    judged = judge_one(healthy.pi(), CATALOGUE["TOK-008"])
    assert (judged.result, judged.reason) == ("error", "something in the record is nested too deeply for this check of ours")
