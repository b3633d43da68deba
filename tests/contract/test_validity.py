"""Validity: a rollout without a model in it counts for nothing, whatever the verifier said; and whose fault that is."""

from dataclasses import replace

import pytest

from pytest_harness.contract import Validity, reward, trial_exception, validity
from pytest_harness.evidence import Ending
from pytest_harness.saboteurs import apply
from pytest_harness.saboteurs.surgery import RESULT, edit_file, with_file, with_manifest


def with_outcomes(evidence, outcome):
    return replace(evidence, calls=tuple(call.model_copy(update={"outcome": outcome}) for call in evidence.calls))


def with_exception(evidence, name):
    return edit_file(evidence, RESULT, lambda document: document.update(exception_info={"exception_type": name}))


def test_healthy_rollouts_are_valid_graded_or_not(healthy):
    assert validity(healthy.pi()) == validity(healthy.mini(graded=False)) == Validity(True)


def test_a_rollout_without_a_call_on_the_wire_is_invalid_though_the_verifier_said_1(healthy):
    evidence = apply("no_calls", healthy.pi())
    assert reward(evidence) == 1.0
    assert (validity(evidence).valid, validity(evidence).blame) == (False, "surroundings")


def test_calls_that_are_all_refused_are_our_fault(healthy):
    found = validity(with_outcomes(healthy.pi(), "refused"))
    assert (found.valid, found.blame) == (False, "ourselves")


@pytest.mark.parametrize(("engine", "blame"), [("scripted", "ourselves"), ("vllm", "ourselves"), ("elsewhere", "surroundings")])
def test_an_engine_that_is_never_reached_is_the_fault_of_whoever_runs_it(healthy, engine, blame):
    found = validity(with_outcomes(healthy.pi(engine=engine), "unreachable_upstream"))
    assert (found.valid, found.blame) == (False, blame)
    assert found.reason == "the engine answered no call: unreachable_upstream"


def test_one_answered_call_among_failed_ones_makes_the_rollout_valid(healthy):
    evidence = with_outcomes(healthy.pi(), "upstream_error")
    assert validity(replace(evidence, calls=(*evidence.calls[:-1], healthy.pi().calls[-1]))).valid


def with_first_call(evidence, outcome):
    return replace(evidence, calls=(evidence.calls[0].model_copy(update={"outcome": outcome, "error": "why"}), *evidence.calls[1:]))


def test_a_fault_of_the_proxy_is_never_held_against_the_harness(healthy):
    assert validity(with_first_call(healthy.pi(), "proxy_error")) == Validity(False, "ourselves", "the proxy failed in call 0: why")


@pytest.mark.parametrize(("engine", "blame"), [("scripted", "ourselves"), ("elsewhere", "surroundings")])
def test_an_agent_that_stumbled_over_a_broken_engine_is_not_to_blame(healthy, engine, blame):
    evidence = with_exception(with_first_call(healthy.pi(engine=engine), "cut_upstream"), "AgentTimeoutError")
    assert (validity(evidence).valid, validity(evidence).blame) == (False, blame)


def test_an_agent_that_recovered_from_a_broken_engine_counts(healthy):
    assert validity(with_first_call(healthy.pi(), "cut_upstream")).valid
    assert validity(with_first_call(healthy.pi(graded=False), "cut_upstream")).valid


def test_an_agent_that_stumbled_over_an_error_of_the_engine_counts(healthy):
    assert validity(with_exception(with_first_call(healthy.pi(), "upstream_error"), "NonZeroAgentExitCodeError")).valid


@pytest.mark.parametrize("name", ["EnvironmentStartTimeoutError", "AgentSetupTimeoutError", "HealthcheckError", "CancelledError"])
def test_a_sandbox_that_fails_is_the_surroundings(healthy, name):
    found = validity(with_exception(healthy.pi(), name))
    assert (found.valid, found.blame, found.reason) == (False, "surroundings", f"the trial ended with {name}")


@pytest.mark.parametrize("name", ["AgentTimeoutError", "NonZeroAgentExitCodeError"])
def test_an_exception_of_the_agent_counts_against_the_subject_and_excuses_nothing(healthy, name):
    assert validity(with_exception(healthy.pi(), name)).valid


def test_a_verifier_that_fails_where_it_should_speak_is_the_surroundings(healthy):
    found = validity(with_exception(healthy.pi(), "VerifierTimeoutError"))
    assert (found.valid, found.blame) == (False, "surroundings")


@pytest.mark.parametrize(("name", "blame"), [("ValidationError", "ourselves"), ("EnvironmentStartTimeoutError", "surroundings")])
def test_a_trial_that_raised_is_invalid(healthy, name, blame):
    ending = Ending(how="raised", exception_type=name, exception_message="why")
    without_result = with_file(healthy.pi(), "trial/result.json", None)
    found = validity(with_manifest(without_result, ending=ending))
    assert (found.valid, found.blame) == (False, blame)


def test_a_log_that_harbors_converter_chokes_on_is_a_finding_and_no_excuse(healthy):
    ending = Ending(how="raised", exception_type="UnicodeDecodeError", exception_message="why")
    assert validity(with_manifest(healthy.pi(), ending=ending)).valid


def test_no_verdict_is_no_reward(healthy):
    evidence = healthy.pi(graded=False)
    assert reward(evidence) is None
    assert trial_exception(evidence) == "RewardFileNotFoundError"


@pytest.mark.parametrize("rewards", [None, {}, {"reward": 1.0, "style": 1.0}, {"reward": True}, {"reward": "1"}, {"reward": None}])
def test_what_is_no_number_under_one_key_is_no_reward(healthy, rewards):
    evidence = edit_file(healthy.pi(), RESULT, lambda document: document.update(verifier_result={"rewards": rewards}))
    assert reward(evidence) is None


def test_a_trial_without_a_result_has_neither_reward_nor_exception(healthy):
    evidence = apply("no_result", healthy.pi())
    assert reward(evidence) is None
    assert trial_exception(evidence) is None


def test_two_calls_of_one_index_make_the_capture_broken(healthy):
    evidence = healthy.pi()
    twice = replace(evidence, calls=(*evidence.calls, evidence.calls[-1].model_copy(update={"index": 0})))
    assert validity(twice) == Validity(False, "ourselves", "the capture is broken: two calls have the index 0")
