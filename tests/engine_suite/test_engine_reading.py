"""How replies are read, what chance allows, and which failures are known deviations."""

from __future__ import annotations

import datetime
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_harness.endpoint.chances import IMPOSSIBLE, all_alike, likeliest, tail
from pytest_harness.endpoint.deviations import in_range, no_longer_seen, read_deviations
from pytest_harness.endpoint.reply import DONE, read_stream, read_whole
from pytest_harness.reports.cases import CaseResult
from pytest_harness.resources import resource
from pytest_harness.wire.outcome import Broken

CALL = {"id": "call-1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}


def whole(**changes):
    message = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    choice = {"index": 0, "message": message, "token_ids": [1, 2, 3], "finish_reason": "tool_calls", **changes}
    return {"choices": [choice], "prompt_token_ids": [7, 8], "usage": {"prompt_tokens": 2}}


def chunk(delta, **more):
    return {"choices": [{"index": 0, "delta": delta, **more}]}


@given(st.lists(st.integers(1, 16), max_size=6))
def test_a_stream_reads_as_the_whole_reply_however_its_arguments_are_cut(cuts):
    arguments, pieces, at = CALL["function"]["arguments"], [], 0
    for cut in cuts:
        pieces.append(arguments[at : at + cut])
        at += cut
    parts = [{"index": 0, "function": {"arguments": piece}} for piece in [*pieces, arguments[at:]]]
    begin = {"index": 0, "id": "call-1", "type": "function", "function": {"name": "bash"}}
    deltas = [chunk({"tool_calls": [part]}) for part in [begin, *parts]]
    events = [chunk({"role": "assistant", "content": ""}) | {"prompt_token_ids": [7, 8]}, *deltas]
    events += [chunk({}, token_ids=[1, 2, 3], finish_reason="tool_calls"), {"choices": [], "usage": {"prompt_tokens": 2}}, DONE]
    streamed, one = read_stream(events), read_whole(whole())
    assert (streamed.only.ids, streamed.only.said, streamed.only.calls) == (one.only.ids, one.only.said, one.only.calls)
    assert (streamed.prompt_ids, streamed.usage) == (one.prompt_ids, one.usage)


def test_what_is_missing_stays_missing_and_is_no_empty_list():
    choice = read_whole(whole(token_ids=None)).only
    assert (choice.ids, choice.entries, choice.logprobs) == (None, None, [])


@pytest.mark.parametrize(
    "document",
    [
        None,
        {"choices": None},
        {"choices": [None]},
        {"choices": [{"index": 0}]},
        {"choices": [{"index": 1, "message": {}}]},
        whole(message={"tool_calls": [1]}),
        whole(message={"tool_calls": [{"index": 2, "function": {}}]}),
        whole(message={"tool_calls": [{"function": {"arguments": {}}}]}),
    ],
)
def test_what_is_no_chat_completion_is_broken(document):
    with pytest.raises(Broken):
        read_whole(document)


def test_a_stream_without_its_end_is_broken():
    with pytest.raises(Broken, match="ends in"):
        read_stream([chunk({"content": "a"})])


def test_a_turn_comes_back_as_it_was_told():
    assert read_whole(whole()).only.message() == {"role": "assistant", "content": "", "tool_calls": [CALL]}


@given(st.integers(0, 32), st.floats(0, 1))
def test_a_tail_is_a_probability_and_what_is_likely_is_never_impossible(hits, chance):
    assert 0 <= tail(hits, 32, chance) <= 1 + 1e-9
    assert tail(round(32 * chance), 32, chance) > IMPOSSIBLE


def test_what_cannot_be_chance_is_told_from_what_can():
    assert tail(32, 32, 0.3) < IMPOSSIBLE
    assert tail(3, 32, 0.95) < IMPOSSIBLE
    assert all_alike(-20.0, 6) < IMPOSSIBLE
    assert all_alike(-0.1, 6) > IMPOSSIBLE


def test_the_likeliest_token_is_the_one_with_the_highest_logprob():
    told = {"top_logprobs": [{"token": "a", "logprob": -2.0}, {"token": "b", "logprob": 0.0}, {"token": "c", "logprob": None}]}
    assert likeliest(told) == ("b", 1.0)
    assert likeliest({"top_logprobs": []}) is None


DEVIATIONS = read_deviations(resource("conformance", "engine", "deviations.toml"))
TODAY = datetime.date(2026, 12, 1)


def failed(case="a_case[half-streamed]", seen="tool_calls", requirement="FIN-203"):
    return CaseResult(requirement, case, "failed", seen=seen)


def test_a_known_deviation_is_of_its_version_and_never_of_our_own_engines():
    assert [each.requirement for each in in_range(DEVIATIONS, "0.32.0")] == ["FIN-203"]
    assert [in_range(DEVIATIONS, version) for version in (None, "none", "0.31.0", "0.32.0+scripted", "0.32.0+chance")] == [()] * 5


def test_a_known_deviation_excuses_what_looks_like_it_alone():
    deviation = DEVIATIONS[0]
    assert deviation.excuses(failed(), TODAY)
    for other in (failed(case="a_case[half-whole]"), failed(seen="stop"), failed(requirement="FIN-202")):
        assert not deviation.excuses(other, TODAY)
    assert not deviation.excuses(failed(), datetime.date(2030, 1, 1))
    assert json.dumps(deviation.sentence).startswith('"known deviation of vllm')


@pytest.mark.parametrize(
    ("flaky", "results", "missed"),
    [(False, ["passed", "not_exercised"], 1), (False, ["passed", "deviation"], 0), (False, ["not_exercised"], 0), (True, ["passed"], 0)],
)
def test_a_known_deviation_is_missed_where_every_case_passed_unless_it_takes_luck(flaky, results, missed):
    deviation = DEVIATIONS[0].model_copy(update={"flaky": flaky})
    assert len(no_longer_seen([deviation], [CaseResult("FIN-203", "a_case", each) for each in results])) == missed


def test_the_prompt_is_read_beside_the_choices_and_in_each_of_them():
    ids = [7, 8]
    beside = {"prompt_token_ids": ids, "choices": [{"index": 0, "message": {}}]}
    inside = {"choices": [{"index": number, "message": {}, "prompt_token_ids": ids} for number in range(2)]}
    assert read_whole(beside).prompt_ids == read_whole(inside).prompt_ids == ids


def test_choices_with_several_prompts_are_no_reply():
    with pytest.raises(Broken):
        read_whole({"choices": [{"index": number, "message": {}, "prompt_token_ids": [number]} for number in (1, 0)]})
