"""COL: what a stop, a crash and a broken file leave, and what a resume makes of it."""

import pytest

from pytest_harness.collect.case import Script, tasks
from pytest_harness.session.case_marks import requirement
from pytest_harness.wire.outcome import expect, same

TASKS = tasks(5)


@requirement("COL-007")
@pytest.mark.parametrize("stop", [1, 2, 4])
def test_an_interrupt_keeps_what_is_done(collecting, stop):
    folder = collecting.folder()
    script = Script(stop_at=TASKS[stop])
    collecting.stopped(TASKS, folder, script, count=5)
    kept = {stored.task for stored in collecting.collected(folder).values()}
    same(kept, {task for task, _ in script.given.values()}, "the tasks on disk after an interrupt")


@requirement("COL-008")
@pytest.mark.parametrize("stop", [0, 2, 4])
def test_what_is_done_is_not_done_again(collecting, stop):
    folder = collecting.folder()
    collecting.stopped(TASKS, folder, Script(stop_at=TASKS[stop]), count=5)
    done = {stored.task for stored in collecting.collected(folder).values()}
    script = Script()
    collecting.run(TASKS, folder, script, count=5)
    same(sorted(map(str, script.asked.elements())), sorted(set(TASKS) - done), "the tasks that the resume ran")


@requirement("COL-008")
def test_a_resume_of_a_whole_collection_runs_nothing(collecting):
    folder = collecting.folder()
    collecting.run(TASKS, folder, Script(), count=5)
    before = collecting.collected(folder)
    script = Script()
    collecting.run(TASKS, folder, script, count=5)
    same(script.calls, [], "the episodes that the resume ran")
    same(collecting.collected(folder), before, "the episodes on disk")


@requirement("COL-009")
@pytest.mark.parametrize("left", ["one byte", "half", "all but the end"])
def test_a_torn_last_line_does_not_stop_a_resume(collecting, left):
    folder = collecting.folder()
    collecting.run(TASKS, folder, Script(), count=4)
    *whole, last = collecting.lines(folder)
    cut = {"one byte": 1, "half": len(last) // 2, "all but the end": len(last.rstrip()) - 1}[left]
    collecting.collector.ledger(folder).write_bytes(b"".join(whole) + last[:cut])
    before = collecting.collected(folder)
    collecting.run(TASKS, folder, Script(), count=4)
    after = collecting.collected(folder)
    same(sorted(str(stored.task) for stored in after.values()), TASKS[:4], f"the tasks on disk after a last line was torn to {left}")
    same({name: after.get(name) for name in before}, before, "the episodes before the torn line")


@requirement("COL-009")
def test_a_second_resume_after_a_torn_line_finds_a_whole_file(collecting):
    folder = collecting.folder()
    collecting.run(TASKS, folder, Script(), count=3)
    ledger = collecting.collector.ledger(folder)
    ledger.write_bytes(ledger.read_bytes()[:-9])
    collecting.run(TASKS, folder, Script(), count=4)
    collecting.run(TASKS, folder, Script(), count=5)
    same(collecting.aligned(folder), collecting.unbroken(TASKS), "each episode's task after two resumes")


@requirement("COL-010")
@pytest.mark.parametrize("stops", [(1,), (3, 3), (0, 2, 4)], ids=str)
def test_no_episode_is_stored_twice(collecting, stops):
    folder = collecting.folder()
    for stop in stops:
        collecting.stopped(TASKS, folder, Script(stop_at=TASKS[stop]), count=5)
    for _ in range(2):
        collecting.run(TASKS, folder, Script(), count=5)
    seen = [stored.task for stored in collecting.collector.stored(folder) if stored.fate == "collected"]
    same(sorted(map(str, seen)), TASKS, "the tasks on disk")


@requirement("COL-011")
@pytest.mark.parametrize("damage", [b"#", b"\x00", b"\xff"], ids=["text", "zeros", "no UTF-8"])
def test_a_broken_line_in_the_middle_loses_nothing_else(collecting, damage):
    folder = collecting.folder()
    collecting.run(TASKS, folder, Script(), count=4)
    lines = collecting.lines(folder)
    lines[1] = damage * (len(lines[1]) - 1) + b"\n"
    ledger = collecting.collector.ledger(folder)
    ledger.write_bytes(b"".join(lines))
    try:
        collecting.collector.job(TASKS, folder).run(4, Script())
    except Exception:  # noqa: BLE001 - a refusal is as good, if it leaves the rest as it was
        same(ledger.read_bytes(), b"".join(lines), "the file after the refusal of a broken line")
        return
    seen = sorted(str(stored.task) for stored in collecting.collected(folder).values())
    expect(seen == TASKS[:4], f"a refusal, or every task on disk once: {TASKS[:4]}", seen)
