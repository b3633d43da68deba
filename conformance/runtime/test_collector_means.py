"""COL: the numbers that a collector tells of what it collected."""

import json
import math

import pytest

from pytest_harness.collect.case import Script, mean, same_mean, tasks
from pytest_harness.session.case_marks import requirement
from pytest_harness.wire.outcome import NotExercised, expect, same

TASKS = tasks(6)
REWARDS = dict(zip(TASKS, [1.0, 0.25, 0.0, 1.0, -0.5, 0.125], strict=True))
GRADED = list(REWARDS.values())


def no_mean(seen):
    return seen is None or (isinstance(seen, float) and math.isnan(seen))


@requirement("COL-019")
@pytest.mark.parametrize("trouble", ["nothing", "ungraded", "failures", "drops"])
def test_the_mean_is_that_of_the_graded_episodes(collecting, trouble):
    if trouble == "drops":
        collecting.needs_filter()
    odd = (TASKS[0], TASKS[3])
    rewards = REWARDS | dict.fromkeys(odd) if trouble == "ungraded" else REWARDS
    raises = {name: ValueError("scripted") for name in odd} if trouble == "failures" else {}
    script = Script(rewards=rewards, raises=raises, drops=frozenset(odd) if trouble == "drops" else frozenset())
    seen = collecting.run(TASKS, collecting.folder(), script, count=6).mean
    same_mean(seen, mean(reward for name, reward in REWARDS.items() if trouble == "nothing" or name not in odd), "the mean reward")


@requirement("COL-019")
def test_the_mean_after_a_resume_is_that_of_all_or_of_the_new_ones(collecting):
    folder = collecting.folder()
    collecting.stopped(TASKS, folder, Script(rewards=REWARDS, stop_at=TASKS[2]), count=6)
    seen = collecting.run(TASKS, folder, Script(rewards=REWARDS), count=6).mean
    whole, new = mean(GRADED), mean(GRADED[2:])
    close = seen is not None and (math.isclose(seen, whole or 0) or math.isclose(seen, new or 0))
    expect(close, f"the mean of all episodes, {whole}, or of those that the resume added, {new}", seen)


@requirement("COL-020")
@pytest.mark.parametrize("trouble", ["ungraded", "failed"])
def test_where_nothing_is_graded_there_is_no_mean(collecting, trouble):
    script = (
        Script(rewards=dict.fromkeys(TASKS)) if trouble == "ungraded" else Script(raises={name: ValueError("scripted") for name in TASKS})
    )
    seen = collecting.run(TASKS, collecting.folder(), script, count=6).mean
    expect(no_mean(seen), f"no mean where every episode is {trouble}", seen)


@requirement("COL-020")
def test_a_resume_that_adds_nothing_tells_no_zero(collecting):
    folder = collecting.folder()
    collecting.run(TASKS, folder, Script(rewards=REWARDS), count=6)
    seen = collecting.run(TASKS, folder, Script(rewards=REWARDS), count=6).mean
    if not no_mean(seen):
        same_mean(seen, mean(GRADED), "no mean, or that of all episodes")


@requirement("COL-021")
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf], ids=str)
def test_a_reward_that_is_no_finite_number_spoils_nothing(collecting, value):
    folder = collecting.folder()
    seen = collecting.run(TASKS, folder, Script(rewards=REWARDS | {TASKS[1]: value}), count=6).mean
    same_mean(seen, mean(reward for name, reward in REWARDS.items() if name != TASKS[1]), "the mean of the other rewards")
    for stored in collecting.collector.stored(folder):
        expect(
            not isinstance(stored.reward, float) or math.isfinite(stored.reward),
            f"no reward on disk for {stored.task}",
            stored.reward,
        )


@requirement("COL-021")
@pytest.mark.parametrize("value", [math.nan, math.inf], ids=str)
def test_every_line_is_json_whatever_the_reward(collecting, value):
    folder = collecting.folder()
    collecting.run(TASKS, folder, Script(rewards={TASKS[1]: value}), count=6)

    def refuse(constant):
        same(constant, "a number", "a line of JSON, which has no such constant")

    for line in collecting.lines(folder):
        json.loads(line, parse_constant=refuse)


@requirement("COL-022")
def test_every_running_mean_is_that_of_the_graded_episodes_so_far(collecting):
    rewards = REWARDS | {TASKS[0]: None, TASKS[3]: None}
    folder = collecting.folder()
    running = collecting.run(TASKS, folder, Script(rewards=rewards), count=6).running
    if running is None:
        raise NotExercised(f"{collecting.collector.name} tells no running mean")
    kept = [rewards.get(str(stored.task)) for stored in collecting.collector.stored(folder) if stored.fate == "collected"]
    same(len(running), len(kept), "the number of running means")
    for number, seen in enumerate(running, start=1):
        same_mean(seen, mean(kept[:number]), f"the running mean after {number} episodes")
