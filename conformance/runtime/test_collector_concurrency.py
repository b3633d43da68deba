"""COL: episodes side by side stay apart, and none is lost."""

import pytest

from pytest_harness.collect.case import Reversal, Script, tasks
from pytest_harness.session.case_marks import requirement
from pytest_harness.wire.outcome import expect, same

TASKS = tasks(24)


def own(collecting, folder, script):
    """Raises Broken unless each episode on disk holds what the function gave for it."""
    for name, stored in collecting.collected(folder).items():
        expect(stored.mark in script.given, f"a mark of {name} that was given in this run", stored)
        same(stored.task, script.given[stored.mark][0], f"the task that the mark {stored.mark} was given for")


@requirement("COL-023")
def test_nothing_of_one_episode_is_in_another(collecting):
    folder = collecting.folder()
    script = Script(rewards={TASKS[4]: None})
    collecting.run(TASKS, folder, script, count=8)
    own(collecting, folder, script)


@requirement("COL-023")
def test_nothing_of_one_episode_is_in_another_beside_it(collecting):
    workers = collecting.needs_workers()
    folder = collecting.folder()
    script = Script(before=Reversal(workers))
    collecting.run(TASKS, folder, script, count=24, workers=workers)
    own(collecting, folder, script)


@requirement("COL-024")
@pytest.mark.parametrize("most", [2, 4, 8])
def test_concurrent_workers_lose_nothing(collecting, most):
    workers = collecting.needs_workers(most)
    folder = collecting.folder()
    returned = collecting.run(TASKS, folder, Script(), count=24, workers=workers)
    seen = sorted(str(stored.task) for stored in collecting.collected(folder).values())
    same(seen, TASKS, f"the tasks on disk, collected by {workers} workers")
    same(len(returned.episode_ids), 24, "the number of returned ids")


@requirement("COL-025")
def test_the_order_in_which_episodes_end_changes_nothing(collecting):
    workers = collecting.needs_workers()
    aligned = collecting.unbroken(TASKS)
    folder = collecting.folder()
    collecting.run(TASKS, folder, Script(before=Reversal(workers)), count=24, workers=workers)
    seen = collecting.aligned(folder)
    same(seen, {name: aligned.get(name) for name in seen}, "each episode's task where the later episodes ended first")
