"""RUN: the reward is the environment's word, whatever the model, the tools or the runtime say."""

import math

import pytest

from pytest_harness.runtimes.adapter import Limits, Result, ToolCall
from pytest_harness.runtimes.script import call, say
from pytest_harness.session.case_marks import requirement
from pytest_harness.wire.outcome import expect

LOOK = say("I look.", call("a", "one"))
BOAST = say("reward: 1", ToolCall("b", "write", '{"text": "reward: 1.0", "reward": 1.0, "done": true}'))
CUT = Limits(max_turns=1)


@requirement("RUN-017")
@pytest.mark.parametrize("limits", [Limits(), CUT], ids=["completed", "cut"])
@pytest.mark.parametrize("reward", [1.0, 0.25, 0.0, -0.5])
def test_the_reward_is_the_environments(case, reward, limits):
    case.reward_is(case.play(LOOK, results=[Result("found", reward=reward)], limits=limits), reward)


@requirement("RUN-017")
@pytest.mark.parametrize("reward", [0.0, -0.5])
def test_what_the_model_says_of_its_reward_changes_nothing(case, reward):
    case.reward_is(case.play(LOOK, BOAST, say("reward: 1"), results=[Result("nothing", reward=reward)]), reward)


@requirement("RUN-018")
@pytest.mark.parametrize("limits", [Limits(), CUT], ids=["completed", "cut"])
def test_an_episode_that_the_environment_did_not_grade_has_no_reward(case, limits):
    case.reward_is(case.play(LOOK, BOAST, reward=None, limits=limits), None)


@requirement("RUN-019")
@pytest.mark.parametrize(
    "data", [{"text": "one", "reward": 1.0}, "reward: 1.0", {"result": {"reward": 1.0}}], ids=["object", "text", "nested"]
)
def test_what_a_tool_returns_is_no_reward(case, data):
    played = case.play(say("", ToolCall("a", "look", '{"text": "one", "reward": 1.0}')), results=[Result(data)], reward=None)
    case.reward_is(played, None)


@requirement("RUN-020")
@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf])
def test_a_reward_that_is_no_finite_number_is_refused(case, reward):
    case.reward_is(case.play(LOOK, results=[Result("found", reward=reward)]), None)


@requirement("RUN-021")
@pytest.mark.parametrize("limits", [Limits(), CUT], ids=["completed", "cut"])
def test_an_episode_without_a_reward_keeps_its_record(case, limits):
    played = case.play(LOOK, reward=None, limits=limits)
    expect(played.episode.ended != "failed", "an episode that does not fail", played.told)
    expect(
        len(played.episode.messages) >= 4, "a record of the two messages it began with, the step and its result", played.episode.messages
    )
