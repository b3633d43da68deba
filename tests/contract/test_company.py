"""Rollouts at the same time: what is no fault must not be taken for one, and what was not at the same time is no pass."""

from __future__ import annotations

import json

import pytest

from pytest_harness.contract import judge_one
from pytest_harness.contract.company import says
from pytest_harness.requirements import load_catalogue
from pytest_harness.saboteurs import apply
from pytest_harness.saboteurs.surgery import edit_replied, with_call, with_manifest

CATALOGUE = load_catalogue()
MIXED, REWARDED = "ISO-009", "ISO-010"


@pytest.fixture
def beside(healthy):
    return healthy.every()["pi beside another"]


def judged(evidence, requirement):
    return judge_one(evidence, CATALOGUE[requirement])


def with_other(evidence, **changes):
    (other,) = evidence.manifest.companions
    return with_manifest(evidence, companions=(other.model_copy(update=changes),))


@pytest.mark.parametrize("requirement", [MIXED, REWARDED])
def test_who_runs_alone_is_judged_by_neither(healthy, requirement):
    assert judged(healthy.pi(), requirement).result == "not_exercised"


@pytest.mark.parametrize(("began", "ended"), [(None, None), (-9.0, -1.0), (90.0, 99.0)])
def test_what_was_not_at_the_same_time_shows_nothing(beside, began, ended):
    assert judged(with_other(beside, began=began, ended=ended), MIXED).result == "unverifiable"


@pytest.mark.parametrize(("began", "ended"), [(-9.0, 0.0), (0.5, 0.6), (2.0, 99.0)])
def test_calls_that_touch_were_at_the_same_time(beside, began, ended):
    assert judged(with_other(beside, began=began, ended=ended), MIXED).result == "passed"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("call_in_two_records", "call-2, which is in another's record too"),
        ("companions_words", "rollout-birch, which only the script of another rollout says"),
        ("companions_file", "rollout-birch, which only the script of another rollout says"),
        ("strayed_words", "such words in 1 of its calls"),
        ("key_of_the_companion", "the key of this rollout"),
    ],
)
def test_each_way_to_mix_is_said(beside, name, said):
    (finding,) = judged(apply(name, beside), MIXED).findings
    assert finding.seen == said


def test_who_has_done_its_task_without_a_call_has_made_them_in_another_record(beside):
    silent = with_other(beside, calls=(), began=None, ended=None)
    (finding,) = judged(silent, MIXED).findings
    assert finding.seen == "none, and yet it has done its task"
    assert judged(with_other(silent, reward=None), MIXED).result == "unverifiable"


def test_words_are_found_in_a_reply_whose_stream_has_cut_them(beside):
    call = beside.calls[0]

    def cut(parts):
        deltas = [choice["delta"] for part in parts for choice in part["choices"] if choice["delta"].get("content")]
        for delta, piece in zip(deltas, ("rollout-", "birch"), strict=True):
            delta["content"] = piece

    struck = edit_replied(call, cut)
    assert "rollout-birch" not in struck.model_dump_json()
    assert says(struck, "rollout-birch")
    assert not says(call, "rollout-birch")
    assert judged(with_call(beside, struck), MIXED).findings[0].call == 0


@pytest.mark.parametrize(
    ("reward", "exception", "seen"),
    [
        (None, None, "None"),
        (None, "NonZeroAgentExitCodeError", "None, after NonZeroAgentExitCodeError"),
        ({"key": "reward", "text": "0"}, None, "0"),
        ({"key": "reward", "text": "banana"}, None, "banana"),
        ({"key": None, "refused": "two numbers"}, None, "None"),
    ],
)
def test_a_reward_that_the_other_did_not_get_is_said(beside, reward, exception, seen):
    other = beside.manifest.companions[0]
    given = json.loads(other.model_dump_json()) | {"reward": reward, "exception": exception}
    evidence = with_manifest(beside, companions=(type(other).model_validate(given),))
    (finding,) = judged(evidence, REWARDED).findings
    assert (finding.expected, finding.seen) == ("a reward of 1.0", seen)


def test_one_that_earns_another_notation_of_the_number_has_earned_it(beside):
    other = beside.manifest.companions[0]
    reward = other.reward.model_copy(update={"text": "1.00"})
    assert judged(with_other(beside, reward=reward), REWARDED).result == "passed"
