"""COL: which episodes there are, and of which task each one is."""

import pytest

from pytest_harness.collect.case import Script, tasks
from pytest_harness.session.case_marks import requirement
from pytest_harness.wire.outcome import expect, same

TASKS = tasks(6)


@requirement("COL-001")
@pytest.mark.parametrize("trouble", ["nothing", "failures", "drops"])
def test_the_returned_ids_are_those_on_disk(collecting, trouble):
    if trouble == "drops":
        collecting.needs_filter()
    bad = {TASKS[1], TASKS[4]}
    script = Script(
        raises={name: ValueError("scripted") for name in bad} if trouble == "failures" else {},
        drops=frozenset(bad) if trouble == "drops" else frozenset(),
    )
    folder = collecting.folder()
    returned = collecting.run(TASKS, folder, script, count=6).episode_ids
    same(sorted(returned), sorted(collecting.collected(folder)), "the returned ids")


@requirement("COL-001")
def test_a_resume_returns_no_id_that_is_not_on_disk(collecting):
    folder = collecting.folder()
    collecting.stopped(TASKS, folder, Script(stop_at=TASKS[3]), count=6)
    before = set(collecting.collected(folder))
    returned = collecting.run(TASKS, folder, Script(), count=6).episode_ids
    there = set(collecting.collected(folder))
    expect(
        len(returned) == len(set(returned)) and set(returned) in (there, there - before),
        f"the ids on disk, {sorted(there)}, or those of them that this run added",
        sorted(returned),
    )


@requirement("COL-002")
@pytest.mark.parametrize("first", [1, 3, 6])
def test_a_second_run_sees_the_tasks_again(collecting, first):
    aligned = collecting.unbroken(TASKS)
    folder = collecting.folder()
    job = collecting.to_its_end(lambda: collecting.collector.job(list(TASKS), folder))
    script = Script()
    collecting.to_its_end(lambda: job.run(first, script))
    collecting.to_its_end(lambda: job.run(6, script))
    expect(None not in script.asked, "a task for every episode of the second run", script.calls)
    same(collecting.aligned(folder), aligned, "each episode's task after a second run")


@requirement("COL-003")
@pytest.mark.parametrize("kind", [list, iter], ids=["list", "iterator"])
@pytest.mark.parametrize("stop", [0, 1, 3, 5])
def test_a_resume_keeps_tasks_and_episodes_aligned(collecting, kind, stop):
    aligned = collecting.unbroken(TASKS)
    folder = collecting.folder()
    collecting.stopped(kind(TASKS), folder, Script(stop_at=TASKS[stop]), count=6)
    collecting.run(kind(TASKS), folder, Script(), count=6)
    same(collecting.aligned(folder), aligned, f"each episode's task after a stop at {TASKS[stop]}")


@requirement("COL-003")
@pytest.mark.parametrize("kind", [list, iter], ids=["list", "iterator"])
def test_failures_shift_no_task(collecting, kind):
    aligned = collecting.unbroken(TASKS)
    folder = collecting.folder()
    collecting.run(kind(TASKS), folder, Script(raises={TASKS[0]: ValueError("scripted"), TASKS[3]: ValueError("scripted")}), count=6)
    collecting.run(kind(TASKS), folder, Script(), count=6)
    seen = collecting.aligned(folder)
    same(seen, {name: aligned.get(name) for name in seen}, "each episode's task after two failures")


@requirement("COL-004")
def test_a_longer_run_adds_to_a_shorter_one(collecting):
    aligned = collecting.unbroken(TASKS)
    folder = collecting.folder()
    collecting.run(list(TASKS), folder, Script(), count=2)
    before = collecting.collected(folder)
    collecting.run(list(TASKS), folder, Script(), count=6)
    after = collecting.collected(folder)
    same({name: after.get(name) for name in before}, before, "the episodes of the shorter run")
    same({name: stored.task for name, stored in after.items()}, aligned, "each episode's task")


@requirement("COL-005")
def test_no_episode_runs_without_a_task(collecting):
    folder = collecting.folder()
    script = Script()
    try:
        collecting.collector.job(TASKS[:3], folder).run(5, script)
    except Exception:  # noqa: BLE001 - a refusal is as good
        return
    expect(None not in script.asked, "no episode without a task where there are fewer tasks than episodes", script.calls)


@requirement("COL-006")
def test_a_resume_with_other_tasks_does_not_mix_them(collecting):
    folder = collecting.folder()
    collecting.stopped(TASKS, folder, Script(stop_at=TASKS[3]), count=6)
    try:
        collecting.collector.job(TASKS[::-1], folder).run(6, Script())
    except Exception:  # noqa: BLE001 - a refusal is as good
        return
    seen = sorted(str(task) for task in collecting.aligned(folder).values())
    same(seen, TASKS, "a refusal, or every task once, after a resume with the tasks in another order")
