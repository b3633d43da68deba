"""COL: what becomes of episodes that fail, that are dropped, and that have no reward."""

import pytest

from pytest_harness.collect.case import Script, tasks
from pytest_harness.session.case_marks import requirement
from pytest_harness.wire.outcome import Broken, expect, same

TASKS = tasks(6)
BAD = (TASKS[1], TASKS[4])
GOOD = sorted(set(TASKS) - set(BAD))


def failing(error=ValueError):
    return Script(raises={name: error("scripted") for name in BAD})


def dropping():
    return Script(drops=frozenset(BAD))


def followed(collecting, rule, first, fate):
    """Raises Broken unless a resume does with the bad episodes of the first run what the rule says."""
    if rule is None:
        raise Broken(f"a stated rule for episodes that were {fate}", "the documentation states none")
    folder = collecting.folder()
    collecting.run(TASKS, folder, first, count=6)
    script = Script()
    collecting.run(TASKS, folder, script, count=6)
    again = sorted(str(task) for task in script.asked if task in BAD)
    same(
        again,
        sorted(BAD) if rule == "run again" else [],
        f"those of the {fate} that a resume ran, by the rule: {rule}",
    )
    seen = sorted(str(stored.task) for stored in collecting.collected(folder).values())
    same(seen, TASKS if rule == "run again" else GOOD, "the tasks collected after the resume")


@requirement("COL-012")
@pytest.mark.parametrize("error", [ValueError, TimeoutError, OSError, AssertionError, KeyError], ids=lambda error: error.__name__)
def test_a_failed_episode_does_not_end_the_run(collecting, error):
    folder = collecting.folder()
    collecting.run(TASKS, folder, failing(error), count=6)
    seen = sorted(str(stored.task) for stored in collecting.collected(folder).values())
    expect(set(GOOD) <= set(seen), f"the other episodes on disk: {GOOD}", seen)


@requirement("COL-013")
def test_a_failed_episode_is_not_collected(collecting):
    folder = collecting.folder()
    collecting.run(TASKS, folder, failing(), count=6)
    for stored in collecting.collector.stored(folder):
        expect(
            stored.task not in BAD or (stored.fate != "collected" and stored.reward is None),
            f"no reward of {stored.task}, which failed, and no collected episode",
            stored,
        )


@requirement("COL-014")
def test_failed_episodes_follow_the_stated_rule(collecting):
    followed(collecting, collecting.collector.failed_rule, failing(), "failed")


@requirement("COL-015")
def test_dropped_episodes_follow_the_stated_rule(collecting):
    collecting.needs_filter()
    followed(collecting, collecting.collector.dropped_rule, dropping(), "dropped")


@requirement("COL-016")
def test_failed_episodes_are_told_on_disk(collecting):
    folder = collecting.folder()
    collecting.run(TASKS, folder, failing(), count=6)
    told = sorted(str(stored.task) for stored in collecting.collector.stored(folder) if stored.fate == "failed")
    same(told, sorted(BAD), "the failed episodes on disk, told from the collected ones")


@requirement("COL-016")
def test_dropped_episodes_are_told_on_disk(collecting):
    collecting.needs_filter()
    folder = collecting.folder()
    collecting.run(TASKS, folder, dropping(), count=6)
    told = sorted(str(stored.task) for stored in collecting.collector.stored(folder) if stored.fate == "dropped")
    same(told, sorted(BAD), "the dropped episodes on disk, told from the collected ones")


@requirement("COL-017")
def test_an_ungraded_episode_is_no_zero_on_disk(collecting):
    folder = collecting.folder()
    collecting.run(TASKS, folder, Script(rewards=dict.fromkeys(BAD)), count=6)
    for stored in collecting.collector.stored(folder):
        if stored.task in BAD:
            same(stored.reward, None, f"the reward on disk of {stored.task}, which has none")


@requirement("COL-018")
def test_an_ungraded_episode_is_kept(collecting):
    folder = collecting.folder()
    collecting.run(TASKS, folder, Script(rewards=dict.fromkeys(BAD)), count=6)
    seen = sorted(str(stored.task) for stored in collecting.collected(folder).values())
    same(seen, TASKS, "the tasks collected, those without a reward among them")
