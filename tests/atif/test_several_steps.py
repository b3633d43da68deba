"""A trial of several steps: its trajectories are not read, and that is said; it is never taken for a trial without one."""

import pytest

from pytest_harness.atif import PATH
from pytest_harness.contract import judge_one
from pytest_harness.filling import FillError, fill
from pytest_harness.requirements import load_catalogue
from pytest_harness.saboteurs.surgery import RESULT, edit_file, with_file

CATALOGUE = load_catalogue()


@pytest.fixture
def several(healthy):
    """The evidence as of a trial with two steps, the second of which has the trajectory."""
    evidence = healthy.pi()
    told = with_file(evidence, "trial/steps/second/agent/trajectory.json", evidence.files[PATH])
    return with_file(with_file(told, "trial/steps/first/agent/trajectory.json", evidence.files[PATH]), PATH, None)


def test_no_requirement_on_the_log_is_met_or_broken(several):
    answers = [judge_one(several, requirement) for requirement in CATALOGUE if requirement.family == "ATF"]
    assert {answer.result for answer in answers} <= {"unverifiable", "not_exercised"}
    answer = judge_one(several, CATALOGUE["ATF-001"])
    assert answer.result == "unverifiable"
    assert answer.reason == (
        "this is a trial of several steps, whose trajectories (trial/steps/first/agent/trajectory.json and 1 more) are not read: "
        "judge the harness by tasks of one step"
    )


def test_a_trajectory_of_the_whole_trial_is_read_though_there_are_steps(several, healthy):
    whole = with_file(several, PATH, healthy.pi().files[PATH])
    assert judge_one(whole, CATALOGUE["ATF-001"]).result == "passed"


def test_without_any_trajectory_there_is_none(healthy):
    none = with_file(healthy.pi(), PATH, None)
    assert judge_one(none, CATALOGUE["ATF-001"]).result == "failed"
    other = with_file(none, "trial/steps/first/agent/mini-swe-agent.trajectory.json", "{}")
    assert judge_one(other, CATALOGUE["ATF-001"]).result == "failed"


def test_nothing_is_filled_and_it_is_said_why(several):
    with pytest.raises(FillError, match="this is a trial of several steps"):
        fill(several, CATALOGUE)


@pytest.mark.parametrize("steps", [None, "x", [None], [{"step_name": 1, "exception_info": "x"}], [{"exception_info": None}]])
def test_odd_results_of_steps_are_no_exceptions(healthy, steps):
    assert (
        judge_one(edit_file(healthy.pi(), RESULT, lambda document: document.update(step_results=steps)), CATALOGUE["SEA-004"]).result
        == "passed"
    )


def test_an_exception_of_a_step_is_one_of_the_trial(healthy):
    failed = [{"step_name": "first"}, {"step_name": "second", "exception_info": {"exception_type": "AgentTimeoutError"}}]
    judgement = judge_one(edit_file(healthy.pi(), RESULT, lambda document: document.update(step_results=failed)), CATALOGUE["SEA-004"])
    assert [finding.seen for finding in judgement.findings] == ["AgentTimeoutError in step second"]


def test_a_step_without_a_verdict_where_none_is_foreseen_is_no_exception(healthy):
    none = [{"step_name": "first", "exception_info": {"exception_type": "RewardFileNotFoundError"}}]
    evidence = edit_file(healthy.pi(graded=False), RESULT, lambda document: document.update(step_results=none))
    assert judge_one(evidence, CATALOGUE["SEA-004"]).result == "passed"
