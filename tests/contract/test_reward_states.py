"""A rollout's reward is in one of four states, its scalar is chosen by rule, and what was not given is no number.

The faults at the end are named after the reports in which others met them.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_harness.contract import grade, mean
from pytest_harness.contract.grading import REWARD_JSON, REWARD_TEXT, choose, recorded_choice, usable
from pytest_harness.evidence import Ending
from pytest_harness.saboteurs import apply
from pytest_harness.saboteurs.surgery import RESULT, edit_file, with_file, with_manifest

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
NO_NUMBERS = st.one_of(
    st.none(), st.booleans(), st.text(), st.just(math.nan), st.just(math.inf), st.just(-math.inf), st.just(10**400), st.lists(NUMBERS)
)

NOTHING_SAID = "the verifier gave no verdict, and no exception says why"


def with_result(evidence, **changes):
    return edit_file(evidence, RESULT, lambda document: document.update(changes))


def with_rewards(evidence, rewards, named=None):
    scenario = evidence.manifest.scenario.model_copy(update={"reward_key": named})
    written = with_file(with_file(evidence, REWARD_TEXT, None), REWARD_JSON, json.dumps(rewards))
    return with_manifest(with_result(written, verifier_result={"rewards": rewards}), scenario=scenario)


def test_graded_and_valid(healthy):
    found = grade(healthy.pi())
    assert (found.state, found.value, found.key, found.text, found.solved) == ("valid", 1.0, "reward", "1", True)
    assert (found.counted, found.reason) == (1.0, "")


def test_graded_and_not_valid_keeps_the_number_and_says_why(healthy):
    found = grade(apply("reward_marked_invalid", healthy.pi()))
    assert (found.state, found.value, found.text) == ("invalid", 1.0, "1")
    assert (found.counted, found.solved, found.reason) == (None, False, "Harbor does not call it valid")


def test_ungraded_with_an_exception(healthy):
    found = grade(healthy.pi(graded=False))
    assert (found.state, found.value, found.counted, found.solved) == ("ungraded_exception", None, None, False)
    assert found.reason == "RewardFileNotFoundError"


@pytest.mark.parametrize("verdict", [None, {"rewards": {}}, {"rewards": None}, {}])
def test_ungraded_without_an_exception(healthy, verdict):
    found = grade(with_result(healthy.pi(), verifier_result=verdict, reward_valid=False))
    assert (found.state, found.value, found.graded, found.reason) == ("ungraded", None, False, NOTHING_SAID)


@pytest.mark.parametrize("reward", [0.0, -7.5])
def test_only_a_positive_reward_is_solved(healthy, reward):
    found = grade(with_rewards(healthy.pi(), {"reward": reward}))
    assert (found.state, found.counted, found.solved) == ("valid", reward, False)


def dead_engine(evidence):
    return replace(evidence, calls=tuple(call.model_copy(update={"outcome": "unreachable_upstream"}) for call in evidence.calls))


def broken_proxy(evidence):
    return replace(evidence, calls=(evidence.calls[0].model_copy(update={"outcome": "proxy_error", "error": "why"}), *evidence.calls[1:]))


def lost_reply(evidence):
    return replace(evidence, calls=(evidence.calls[0].model_copy(update={"replied": None}), *evidence.calls[1:]))


def dead_sandbox(evidence):
    return with_result(evidence, exception_info={"exception_type": "SandboxDiedError"})


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (lambda evidence: replace(evidence, calls=()), "no call reached the proxy: the verifier's word is not about this model"),
        (dead_engine, "the engine answered no call: unreachable_upstream"),
        (broken_proxy, "the proxy failed in call 0: why"),
        (lost_reply, "the capture is broken: call 0 was answered, and no reply of the engine is recorded"),
        (dead_sandbox, "the trial ended with SandboxDiedError"),
    ],
    ids=["no_call_on_the_wire", "dead_engine", "broken_proxy", "lost_reply", "dead_sandbox"],
)
def test_a_rollout_that_says_nothing_of_its_subject_solves_nothing_whatever_was_graded(healthy, fault, why):
    found = grade(fault(healthy.pi()))
    assert (found.state, found.value, found.text) == ("invalid", 1.0, "1")
    assert (found.counted, found.solved, found.reason) == (None, False, why)


def test_a_verdict_without_a_scalar_is_graded_and_does_not_count(healthy):
    found = grade(with_rewards(healthy.pi(), {"correct": 1.0, "style": 0.5}))
    assert (found.state, found.value, found.solved) == ("invalid", None, False)
    assert found.reason == "the verifier gave 'correct', 'style', and the scenario names none of them as its reward"
    assert grade(with_rewards(healthy.pi(), {"correct": 1.0, "style": 0.5}, named="correct")).counted == 1.0


@given(st.dictionaries(st.text(), NUMBERS, min_size=2))
def test_several_keys_of_which_none_is_named_give_no_scalar(rewards):
    choice = choose(rewards)
    assert choice.key is None
    assert choice.refused.endswith("and the scenario names none of them as its reward")


@given(st.text(), NUMBERS)
def test_the_only_key_is_the_scalars(key, number):
    assert choose({key: number}).key == key


@given(st.dictionaries(st.text(), NUMBERS, min_size=1), st.data())
def test_a_named_key_is_the_scalars_whatever_stands_beside_it(rewards, data):
    named = data.draw(st.sampled_from(sorted(rewards)))
    assert choose(rewards, named).key == named


@given(st.dictionaries(st.text(), NUMBERS), st.text(), NO_NUMBERS)
def test_a_main_key_that_cannot_be_used_promotes_no_other(others, named, value):
    others.pop(named, None)
    assert choose({**others, named: value}, named).key is None
    if others:
        assert choose(others, named).key is None


@given(NO_NUMBERS)
def test_what_is_no_finite_number_is_none(value):
    assert usable(value) is None


@pytest.mark.parametrize("text", ["1", "1.0", "1.00", "0.10000000000000000001", "1e-3"])
def test_the_number_is_kept_as_it_was_written(healthy, text):
    value = float(text)
    in_text = with_result(with_file(healthy.pi(), REWARD_TEXT, f" {text}\n"), verifier_result={"rewards": {"reward": value}})
    in_json = with_file(with_rewards(healthy.pi(), {"reward": value}), REWARD_JSON, f'{{"reward": {text}}}')
    assert [(grade(each).text, grade(each).value) for each in (in_text, in_json)] == [(text, value)] * 2
    assert recorded_choice(in_json).text == text


@given(st.lists(NUMBERS), st.lists(st.none(), min_size=1), st.randoms())
def test_an_attempt_without_a_reward_changes_no_mean(numbers, missing, random):
    mixed = [*numbers, *missing]
    random.shuffle(mixed)
    assert mean(mixed) == mean(numbers)
    assert mean(missing) is None


# The reports, by the fault.


def test_a_rollout_that_never_scored_is_not_given_zero(healthy):
    """trl pull 6427: the default of 0.0 rewarded inaction."""
    assert grade(healthy.pi(graded=False)).value is None


def test_a_group_without_any_reward_has_no_mean():
    """trl pull 5902: rows of which all were None became 0 and biased the group."""
    assert mean([None, None]) is None


def test_a_reward_file_that_was_not_written_is_no_failure_of_the_task(healthy):
    """reef issue 215: the trial solved the task, there was no reward file, and it counted as failed."""
    found = grade(healthy.mini(graded=False))
    assert (found.graded, found.reason) == (False, "RewardFileNotFoundError")


def test_a_masked_timeout_is_in_no_baseline(healthy):
    """NeMo RL pull 4029: masked timeouts entered the baseline and lifted their siblings."""
    timed_out = apply("reward_marked_invalid", with_result(healthy.pi(), exception_info={"exception_type": "VerifierTimeoutError"}))
    assert mean([grade(timed_out).counted, grade(healthy.pi()).counted]) == 1.0


@pytest.mark.parametrize("written", ["nan", "inf", "-inf"])
def test_nan_and_infinities_are_no_rewards(healthy, written):
    """OpenEnv issue 1199: nan and inf were taken from the file."""
    assert grade(with_rewards(healthy.pi(), {"reward": float(written)})).value is None


def test_an_infrastructure_error_is_not_read_as_zero(healthy):
    """cap-evolve issue 306: trials that the infrastructure broke were read as 0.0, and hours were optimised on noise."""
    broken = with_manifest(
        with_file(healthy.pi(graded=False), RESULT, None), ending=Ending(how="raised", exception_type="EnvironmentStartTimeoutError")
    )
    found = grade(broken)
    assert (found.value, found.graded, found.blame) == (None, False, "surroundings")


def test_an_endpoint_that_answers_nothing_looks_valid_to_harbor_and_is_not(healthy):
    """Harbor calls the reward of a run with a dead endpoint valid."""
    found = grade(replace(healthy.pi(), calls=()))
    assert (found.state, found.solved) == ("invalid", False)
