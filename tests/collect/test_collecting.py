"""Our collector beyond what every collector is held to: tries, versions of tasks, the lock, the order, interrupts."""

from __future__ import annotations

import os
import signal
import threading

import pytest
from filelock import FileLock

from pytest_harness.collect import LEDGER, CollectError, Interrupted, Ledger, Plan, Result, Task, collect
from pytest_harness.collect.collector import LOCK

TASKS = (Task("one", "1"), Task("two", "1"))


def good(episode):
    return Result(1.0, mark=episode.id)


def ids(collection):
    return list(collection.episode_ids)


def test_the_first_attempts_of_all_tasks_come_before_the_second_ones(tmp_path):
    asked = []
    collect(Plan(TASKS, attempts=2), lambda episode: asked.append(episode.id) or good(episode), tmp_path)
    assert asked == ["one/1", "two/1", "one/2", "two/2"]


def test_more_attempts_add_to_what_is_there(tmp_path):
    collect(Plan(TASKS), good, tmp_path)
    found = collect(Plan(TASKS, attempts=3), good, tmp_path)
    assert (found.ran, ids(found)) == (4, ["one/1", "two/1", "one/2", "two/2", "one/3", "two/3"])


def test_fewer_attempts_take_nothing_away(tmp_path):
    collect(Plan(TASKS, attempts=2), good, tmp_path)
    found = collect(Plan(TASKS[:1]), good, tmp_path)
    assert (found.ran, sorted(ids(found))) == (0, ["one/1", "one/2", "two/1", "two/2"])


@pytest.mark.parametrize("failure", [OSError("no room"), Result(None, failed=True, reason="no room")], ids=["raised", "told"])
def test_a_failure_of_the_surroundings_is_tried_again(tmp_path, failure):
    tried = []

    def second_time_lucky(episode):
        tried.append(episode.id)
        if len(tried) == 1:
            if isinstance(failure, Exception):
                raise failure
            return failure
        return good(episode)

    told = []
    found = collect(Plan(TASKS[:1]), second_time_lucky, tmp_path, told=told.append)
    assert [(line.state, line.tries) for line in found.lines] == [("graded", 2)]
    assert [(event.what, "no room" in event.text) for event in told if event.what == "again"] == [("again", True)]


def test_a_function_that_can_make_no_episode_any_more_ends_the_collection_and_what_is_done_is_kept(tmp_path):
    asked = []

    def until_the_engine_falls(episode):
        asked.append(episode.id)
        if len(asked) > 1:
            raise CollectError("the engine returns no token_ids")
        return good(episode)

    with pytest.raises(CollectError, match="returns no token_ids"):
        collect(Plan(TASKS, attempts=2, tries=3), until_the_engine_falls, tmp_path)
    assert asked == ["one/1", "two/1"]
    found = collect(Plan(TASKS), good, tmp_path)
    assert (found.ran, ids(found)) == (1, ["one/1", "two/1"])


def test_what_fails_every_time_is_dropped_with_its_reason_and_remembered(tmp_path):
    asked = []

    def never(episode):
        asked.append(episode.id)
        raise OSError("no room")

    found = collect(Plan(TASKS[:1], tries=3), never, tmp_path)
    assert [(line.state, line.reward, line.reason, line.tries) for line in found.lines] == [("dropped", None, "OSError: no room", 3)]
    assert (ids(found), len(asked)) == ([], 3)
    assert collect(Plan(TASKS[:1]), never, tmp_path).ran == 0
    assert len(asked) == 3


def test_what_was_dropped_is_run_again_when_that_is_asked_for(tmp_path):
    collect(Plan(TASKS, tries=1), lambda episode: Result(None, failed=episode.task.name == "one"), tmp_path)
    found = collect(Plan(TASKS, retry_dropped=True), good, tmp_path)
    assert (found.ran, ids(found)) == (1, ["one/1", "two/1"])


def test_an_episode_that_is_gone_is_run_again(tmp_path):
    collect(Plan(TASKS), good, tmp_path)
    told = []
    found = collect(Plan(TASKS), good, tmp_path, on_disk=lambda line: line.task != "two", told=told.append)
    assert (found.ran, ids(found)) == (1, ["one/1", "two/1"])
    assert any("two/1 has a line and is not on disk" in event.text for event in told)


def test_a_reward_that_does_not_count_is_kept_and_in_no_mean(tmp_path):
    found = collect(
        Plan(TASKS), lambda episode: Result(1.0 if episode.task.name == "one" else 0.0, counts=episode.task.name == "one"), tmp_path
    )
    assert [(line.state, line.reward) for line in found.lines] == [("graded", 1.0), ("invalid", 0.0)]
    assert found.tally.mean == 1.0


def test_another_version_of_a_task_is_refused(tmp_path):
    collect(Plan(TASKS), good, tmp_path)
    with pytest.raises(CollectError, match="one/1 is of another version of its task, its harness or its seam; name another --out"):
        collect(Plan((Task("one", "2"),)), good, tmp_path)


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (Plan(()), "there is no task"),
        (Plan((TASKS[0], TASKS[0])), "the task one is named twice"),
        (Plan(TASKS, attempts=0), "attempts must be 1 or more, not 0"),
        (Plan(TASKS, workers=-1), "workers must be 1 or more, not -1"),
        (Plan(TASKS, tries=0), "tries must be 1 or more, not 0"),
    ],
)
def test_a_plan_that_cannot_be_is_one_sentence(tmp_path, plan, said):
    with pytest.raises(CollectError, match=said):
        collect(plan, good, tmp_path)


def test_two_collections_in_one_folder_are_refused(tmp_path):
    with FileLock(tmp_path / LOCK), pytest.raises(CollectError, match="another collection is running"):
        collect(Plan(TASKS), good, tmp_path)


def test_a_folder_that_cannot_be_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CollectError, match=r"cannot be written .*; name a folder of yours with --out"):
        collect(Plan(TASKS), good, tmp_path / "file" / "out")


@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_keeps_what_is_done_and_what_is_just_running(tmp_path, workers):
    began = threading.Barrier(workers)

    def pressed(episode):
        if episode.attempt == 2:
            began.wait(10)
            os.kill(os.getpid(), signal.SIGINT)
        return good(episode)

    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(Interrupted) as interrupt:
        collect(Plan(TASKS, attempts=4, workers=workers), pressed, tmp_path)
    kept = ids(interrupt.value.collection)
    assert set(kept) >= {"one/1", "two/1", "one/2"}
    assert len(kept) < 8
    assert len((tmp_path / LEDGER).read_bytes().splitlines()) == len(kept)
    assert signal.getsignal(signal.SIGINT) is handler
    assert len(ids(collect(Plan(TASKS, attempts=4), good, tmp_path))) == 8


def test_what_does_not_hear_the_first_ctrl_c_is_told_of_it(tmp_path):
    """Episodes that run elsewhere: nothing ends them unless somebody does."""
    told = threading.Event()

    def far_away(_):
        os.kill(os.getpid(), signal.SIGINT)
        assert told.wait(10)
        raise OSError("it was ended")

    with pytest.raises(Interrupted) as interrupt:
        collect(Plan(TASKS), far_away, tmp_path, interrupt=told.set)
    assert ids(interrupt.value.collection) == []
    assert ids(collect(Plan(TASKS), good, tmp_path)) == ["one/1", "two/1"]


def test_the_numbers_told_with_each_episode_are_those_so_far(tmp_path):
    told = []
    collect(Plan(TASKS, attempts=2), good, tmp_path, told=lambda event: told.append((event.what, event.done, event.total)))
    assert told == [("ended", 1, 4), ("ended", 2, 4), ("ended", 3, 4), ("ended", 4, 4)]


def test_a_line_of_an_episode_that_is_not_asked_for_stays_whatever_is_on_disk(tmp_path):
    collect(Plan(TASKS, attempts=2), good, tmp_path)
    before = (tmp_path / LEDGER).read_bytes()
    told = []
    found = collect(Plan(TASKS[:1]), good, tmp_path, on_disk=lambda line: line.episode == "one/1", told=told.append)
    assert (found.ran, ids(found)) == (0, ["one/1"])
    assert (tmp_path / LEDGER).read_bytes() == before
    assert [event.text.partition(" ")[0] for event in told if "its line is kept" in event.text] == ["two/1", "one/2", "two/2"]
    assert not any("run again" in event.text for event in told)


def test_what_was_dropped_of_another_task_is_not_forgotten_by_retry_dropped(tmp_path):
    collect(Plan(TASKS, tries=1), lambda _: Result(None, failed=True, reason="no room"), tmp_path)
    found = collect(Plan(TASKS[:1], retry_dropped=True), good, tmp_path)
    assert {line.episode: line.state for line in found.lines} == {"one/1": "graded", "two/1": "dropped"}
    assert {line.episode for line in Ledger(tmp_path).read()} == {"one/1", "two/1"}


def test_what_is_on_disk_and_cannot_be_read_is_refused_and_its_line_kept(tmp_path):
    collect(Plan(TASKS), good, tmp_path)
    before = (tmp_path / LEDGER).read_bytes()

    def damaged(line):
        raise CollectError(f"{line.episode} is damaged")

    with pytest.raises(CollectError, match="one/1 is damaged"):
        collect(Plan(TASKS), good, tmp_path, on_disk=damaged)
    assert (tmp_path / LEDGER).read_bytes() == before
