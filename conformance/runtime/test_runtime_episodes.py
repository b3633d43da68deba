"""RUN: what is kept of an episode is what happened in it, and in no other."""

from dataclasses import replace

import pytest

from pytest_harness.runtimes.adapter import Limits
from pytest_harness.runtimes.script import BEGINNING, call, say
from pytest_harness.session.case_marks import requirement
from pytest_harness.wire.outcome import NotExercised, expect, same

STEPS = [say("I look.", call("a", "one")), say("", call("b", "two", "write"), call("c", "three")), say("I stop.")]


def tokens(*steps):
    """The steps with ids as an engine gives them: each prompt holds the one before, what was sampled, and what came of it."""
    prompt = (1, 2, 3)
    made = []
    for number, step in enumerate(steps):
        sampled = (100 + number, 200 + number)
        made.append(replace(step, prompt_ids=prompt, sampled_ids=sampled, logprobs=(-0.5 - number, -0.25)))
        prompt = (*prompt, *sampled, 50 + number)
    return made


@requirement("RUN-029")
@pytest.mark.parametrize("error", [RuntimeError("the engine is gone"), TimeoutError("no answer in time")], ids=["error", "timeout"])
@pytest.mark.parametrize("before", [0, 1])
def test_an_episode_whose_model_fails_is_a_failed_one_without_a_reward(case, error, before):
    played = case.play(*STEPS[:before], error, reward=None)
    same(played.episode.ended, "failed", "how it ended")
    case.reward_is(played, None)


@requirement("RUN-030")
def test_two_episodes_share_nothing(case):
    first, second = case.play(*STEPS, reward=1.0), case.play(*STEPS, reward=-0.25)
    same(second.asked[0].messages if second.asked else (), BEGINNING, "what the second episode begins with")
    same(second.model.asked, first.model.asked, "what the model was shown, in the second as in the first")
    same(second.made, first.made, "the calls that were made")
    same(dict(second.episode.metrics), dict(first.episode.metrics), "the metrics")
    case.reward_is(second, -0.25)


@requirement("RUN-030")
def test_an_episode_that_failed_leaves_nothing_to_the_next(case):
    alone = case.play(*STEPS, reward=1.0)
    case.play(STEPS[0], RuntimeError("the engine is gone"), reward=0.5)
    after = case.play(*STEPS, reward=1.0)
    same(after.model.asked, alone.model.asked, "what the model was shown")
    same(
        (after.episode.ended, dict(after.episode.metrics)),
        (alone.episode.ended, dict(alone.episode.metrics)),
        "how it ended, and its metrics",
    )
    case.reward_is(after, 1.0)


@requirement("RUN-031")
@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_ids_of_each_turn_stand_at_their_place(case, count):
    steps = tokens(*STEPS[3 - count :])
    episode = case.play(*steps).episode
    kept = {"prompt_ids": episode.prompt_ids, "sampled_ids": episode.sampled_ids, "logprobs": episode.logprobs}
    if episode.prompt_ids is None:
        raise NotExercised(f"{case.adapter.name} keeps no prompt ids")
    for name, seen in kept.items():
        turns = tuple(getattr(step, name) for step in steps)
        expected, place = (turns, "of each turn") if case.adapter.prompts == "turns" else (turns[-1], "of the last turn")
        same(seen, expected, f"{name} {place}")


@requirement("RUN-032")
@pytest.mark.parametrize("limits", [Limits(), Limits(max_calls=2), Limits(max_turns=2)], ids=["completed", "calls", "turns"])
def test_the_calls_that_it_says_were_made_are_those_that_were(case, limits):
    played = case.play(*STEPS, limits=limits)
    if played.episode.trace is None:
        raise NotExercised(f"{case.adapter.name} keeps no list of the calls it made")
    same(
        [(each.name, dict(each.arguments)) for each in played.episode.trace],
        [(made.name, dict(made.arguments)) for made in played.made],
        "the calls that it says were made",
    )


@requirement("RUN-033")
@pytest.mark.parametrize("limits", [Limits(), Limits(max_calls=2), Limits(max_turns=2)], ids=["completed", "calls", "turns"])
def test_the_record_begins_with_what_the_model_was_shown_last(case, limits):
    played = case.play(*STEPS, limits=limits)
    expect(played.asked, "a model that is asked", played.told)
    last = played.asked[-1].messages
    same(played.episode.messages[: len(last)], last, "the beginning of the record")
    same([message.text for message in played.episode.messages[len(last) :][:1]], [played.model.said[-1].text], "what stands behind it")
