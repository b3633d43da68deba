"""How the tests of a run are dealt out to workers: an attempt to one of them, with all that is asked of it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_harness.session.plan import Attempt
from pytest_harness.session.scheduling import AttemptScheduling

ATTEMPTS = ("pi-in-local-explore", "codex-in-local-explore", "codex-in-local-cut_call")
TESTS = {
    name: Attempt(attempt, None, "scripted", lambda: None)
    for attempt in ATTEMPTS
    for name in (f"test_rollout[{attempt}]", f"test_requirement[{attempt}-TOK-001]", f"test_requirement[{attempt}-PAR-001]")
}
SUITE = [f"seam/test_seam.py::{name}" for name in sorted(TESTS, reverse=True)]
HOST = [f"tests/test_ours.py::test_of_ours[{ATTEMPTS[0]}]", "tests/test_ours.py::test_alone", "tests/test_ours.py::test_other[1]"]


class Worker:
    """What the scheduling sees of a worker."""

    def __init__(self, name):
        self.gateway = SimpleNamespace(id=name)
        self.shutting_down = False
        self.waiting = []

    def send_runtest_some(self, places):
        self.waiting += places

    def shutdown(self):
        self.shutting_down = True


@pytest.fixture
def scheduled():
    """The scheduling of two workers that have collected the same tests, and the workers."""
    config = SimpleNamespace(option=SimpleNamespace(loadscopereorder=True, debug=False), getvalue=lambda _: ["popen", "popen"])
    scheduling = AttemptScheduling(config, None, TESTS)
    workers = [Worker("gw0"), Worker("gw1")]
    for worker in workers:
        scheduling.add_node(worker)
    for worker in workers:
        scheduling.add_node_collection(worker, [*SUITE, *HOST])
    scheduling.schedule()
    return scheduling, workers


def played(scheduling, workers):
    """The tests that each worker ran, in order, when all of them take the same time."""
    ran = {worker.gateway.id: [] for worker in workers}
    while any(worker.waiting for worker in workers):
        for worker in workers:
            if worker.waiting:
                place = worker.waiting.pop(0)
                ran[worker.gateway.id].append([*SUITE, *HOST][place])
                scheduling.mark_test_complete(worker, place)
    return ran


def test_each_test_runs_once_and_those_of_an_attempt_on_one_worker(scheduled):
    scheduling, workers = scheduled
    ran = played(scheduling, workers)
    assert sorted([*ran["gw0"], *ran["gw1"]]) == sorted([*SUITE, *HOST])
    for attempt in ATTEMPTS:
        assert sum(any(attempt in test for test in tests) for tests in ran.values()) == 1
    assert scheduling.tests_finished
    assert not scheduling.has_pending


def test_what_has_ended_is_not_looked_at_again(scheduled):
    scheduling, workers = scheduled
    while any(worker.waiting for worker in workers):
        for worker in workers:
            if worker.waiting:
                scheduling.mark_test_complete(worker, worker.waiting.pop(0))
                assert all(False in unit.values() for unit in scheduling.assigned_work[worker].values())
    assert scheduling.assigned_work == {worker: {} for worker in workers}


def test_what_a_dead_worker_left_is_run_by_the_other(scheduled):
    scheduling, workers = scheduled
    dead, living = workers
    crashed = [*SUITE, *HOST][dead.waiting[0]]
    assert scheduling.remove_node(dead) == crashed
    dead.waiting.clear()
    assert sorted(played(scheduling, [living])["gw1"]) == sorted([*SUITE, *HOST])
