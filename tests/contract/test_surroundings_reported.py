"""Faults of sandboxes, quotas and graders that others reported: each is told apart from what the model did, by its own name."""

from __future__ import annotations

from dataclasses import replace

import pytest
from harbor.agents.installed.base import ApiError

from pytest_harness.contract import Validity, grade, judge_one, validity
from pytest_harness.evidence import Ending
from pytest_harness.requirements import load_catalogue
from pytest_harness.saboteurs import apply
from pytest_harness.saboteurs.surgery import RESULT, edit_file, with_file, with_manifest

CATALOGUE = load_catalogue()


def with_result(evidence, **changes):
    return edit_file(evidence, RESULT, lambda document: document.update(changes))


def ended_by(evidence, exception, message, *, occurred_at="1970-01-01T00:00:01+00:00", **changes):
    info = {"exception_type": exception, "exception_message": message, "occurred_at": occurred_at}
    return with_result(with_file(evidence, "trial/verifier/reward.txt", None), verifier_result=None, exception_info=info, **changes)


def failed(evidence, requirement):
    return judge_one(evidence, CATALOGUE[requirement]).result == "failed"


def test_a_wrapper_that_exits_0_though_the_agent_failed_is_no_wrong_answer(healthy):
    """CC-Manager pull 94: the wrapper's exit status hid that no call was ever made."""
    found = grade(replace(apply("wrong_reward", healthy.pi()), calls=()))
    assert (found.value, found.counted, found.blame) == (0.0, None, "surroundings")


def test_a_sandbox_in_which_nothing_can_be_run_is_the_surroundings(healthy):
    """daytona issue 3425: the sandbox was created, and every command in it was answered with 502."""
    broken = ended_by(replace(healthy.pi(), calls=()), "RuntimeError", "exec failed: 502 Bad Gateway", verifier=None, reward_valid=False)
    found = validity(broken)
    assert (found.valid, found.blame) == (False, "surroundings")
    assert "502 Bad Gateway" in found.reason


def test_a_sandbox_that_went_into_an_error_state_is_the_surroundings(healthy):
    """daytona issue 5149: sandboxes ended in an error state that nobody explained."""
    ending = Ending(how="raised", exception_type="EnvironmentStartTimeoutError", exception_message="state: error")
    found = validity(with_manifest(with_file(healthy.pi(), RESULT, None), ending=ending))
    assert found == Validity(False, "surroundings", "the trial ended with EnvironmentStartTimeoutError")


def test_a_container_that_was_killed_under_the_agent_is_the_surroundings(healthy):
    """Harbor's docker: the agent's command returns 137, and the verifier then fails with a RuntimeError of no class of its own."""
    message = 'Failed to remove verifier reward files: service "main" is not running'
    found = validity(ended_by(healthy.pi(), "RuntimeError", message, occurred_at="1970-01-01T00:01:40.5+00:00", reward_valid=False))
    assert (found.valid, found.blame) == (False, "surroundings")
    assert found.reason == f"the verifier could not give a verdict: RuntimeError: {message}"


def test_an_agent_that_raised_before_it_was_graded_is_no_excuse(healthy):
    assert validity(ended_by(healthy.pi(), "ValueError", "why", reward_valid=False)).valid


@pytest.mark.parametrize("message", ["[Errno 28] No space left on device", "[Errno 122] Disk quota exceeded: '/root/.cache'"])
def test_a_full_disk_is_the_surroundings(healthy, message):
    """NeMo Gym issue 1513: a disk quota killed 12 of 16 rollouts."""
    found = validity(ended_by(healthy.pi(), "NonZeroAgentExitCodeError", message, reward_valid=False))
    assert (found.valid, found.blame) == (False, "surroundings")
    assert found.reason.startswith("the sandbox had no room left: ")


@pytest.mark.parametrize(
    "message",
    [
        "bash: fork: retry: Resource temporarily unavailable",
        "sh: 1: Cannot fork: Resource temporarily unavailable",
        "node[7]: pthread_create: Resource temporarily unavailable",
        "Error: spawn /bin/sh EAGAIN",
    ],
)
def test_a_limit_of_processes_that_struck_is_the_surroundings(healthy, message):
    found = validity(ended_by(healthy.pi(), "NonZeroAgentExitCodeError", message, reward_valid=False))
    assert (found.valid, found.blame) == (False, "surroundings")
    assert found.reason.startswith("the sandbox had no room left: ")


def test_a_socket_that_would_block_is_no_excuse(healthy):
    message = "recv: Resource temporarily unavailable"
    assert validity(ended_by(healthy.pi(), "NonZeroAgentExitCodeError", message, reward_valid=True)).valid


def test_a_key_of_the_client_that_went_upstream_is_found(healthy):
    """llm-router issue 13 and llmtrace pull 279: the client's bearer was copied upstream."""
    assert failed(apply("forwarded_key_header", healthy.pi()), "ISO-002")


def test_a_reward_that_the_agent_wrote_is_found(healthy):
    """OpenEnv issue 1199 and dawn issue 14: the reward was read from a file that the agent can write."""
    assert failed(apply("planted_reward", healthy.pi()), "REW-007")


def test_a_proxys_address_in_the_graders_environment_is_found(healthy):
    """verifiers pull 1126: the proxy's base URL leaked into the verifier."""
    assert failed(apply("seams_key_for_the_grader", healthy.pi()), "ISO-008")


def test_a_verdict_that_is_missing_without_a_word_is_found(healthy):
    """agent-eval-harness pull 137: trials without a reward vanished."""
    assert failed(apply("swallowed_verdict_error", healthy.pi(graded=False)), "REW-008")


def test_an_exception_beside_a_reward_is_judged_by_its_class(healthy):
    """nemo-platform pull 1792: trials with both an error and a reward were handled in two ways."""
    assert failed(apply("reward_of_a_broken_engine_counts", healthy.pi()), "REW-009")
    info = {"exception_type": "AgentTimeoutError", "exception_message": "", "policy": {"has_valid_reward": True}}
    assert not failed(with_result(healthy.pi(), exception_info=info), "REW-009")


def test_a_harness_that_takes_thrice_its_limit_is_found(healthy):
    """OpenEnv's table: 12 steps were asked for, 37 to 45 were taken."""
    assert failed(apply("ignored_step_limit", healthy.pi()), "SEA-011")


@pytest.mark.parametrize(("limit", "broken"), [(1, {"SEA-011"}), (2, set()), (3, set()), (30, set())])
def test_a_harness_that_was_told_to_stop_early_has_not_left_the_script(healthy, limit, broken):
    evidence = with_manifest(healthy.pi(), step_limit=limit)
    assert {name for name in ("SEA-002", "SEA-003", "SEA-004", "SEA-011", "REW-003") if failed(evidence, name)} == broken


def test_the_exit_status_of_a_limit_that_was_met_is_no_exception(healthy):
    info = {"exception_type": "NonZeroAgentExitCodeError", "exception_message": "limit reached"}
    told = with_result(healthy.pi(), exception_info=info)
    assert failed(told, "SEA-004")
    assert not failed(with_manifest(told, step_limit=2), "SEA-004")


def _names(exception):
    return {exception.__name__}.union(*map(_names, exception.__subclasses__()))


@pytest.mark.parametrize("exception", sorted({"ContextLengthExceededError", "OutputLengthExceededError", *_names(ApiError)}))
def test_a_harness_that_may_fail_may_end_by_each_error_of_the_api_that_harbor_knows(healthy, exception):
    """grok-build ended as UnknownApiError where the prompt exceeded the context."""
    told = with_result(healthy.pi(), exception_info={"exception_type": exception, "exception_message": "the prompt is too long"})
    assert failed(told, "SEA-004")
    assert not failed(with_manifest(told, scenario=told.manifest.scenario.model_copy(update={"may_fail": True})), "SEA-004")


def test_a_harness_within_harbor_may_end_by_the_error_of_litellm_where_it_may_fail(healthy):
    """terminus-2 ended so where its budget was used up."""
    info = {"exception_type": "APIError", "exception_message": "litellm.APIError: The budget of this session is used up."}
    told = with_result(healthy.pi(), exception_info=info)
    assert failed(told, "SEA-004")
    assert not failed(with_manifest(told, scenario=told.manifest.scenario.model_copy(update={"may_fail": True})), "SEA-004")


@pytest.mark.parametrize(
    "exception",
    [
        *("AgentAuthenticationError", "ModelNotFoundError", "NetworkConnectionError", "AgentTimeoutError"),
        *("APIConnectionError", "AuthenticationError", "NotFoundError"),  # of litellm
    ],
)
def test_a_harness_that_may_fail_is_still_to_reach_its_model_and_to_end(healthy, exception):
    told = with_result(healthy.pi(), exception_info={"exception_type": exception, "exception_message": "no"})
    assert failed(with_manifest(told, scenario=told.manifest.scenario.model_copy(update={"may_fail": True})), "SEA-004")
