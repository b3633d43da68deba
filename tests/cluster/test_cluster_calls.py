"""What is said of a cluster that cannot be used, and what becomes of calls whose node is gone; without Ray."""

from __future__ import annotations

import _thread
import os
import pickle
import signal
import subprocess
import sys
import threading
from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from pytest_harness import __version__, cli
from pytest_harness.cluster import Cluster, ClusterError, LostError, called, connected, interruptible, one_line


class RayError(Exception):
    pass


class RayTaskError(RayError):
    def __init__(self, cause):
        super().__init__(f"ray::called()\n\nTraceback …\n{cause}")
        self.cause = cause


class NodeDiedError(RayError):
    pass


class Reference:
    def __init__(self):
        self.result = Future()

    def future(self):
        return self.result


class Ray:
    """As much of Ray as is used: ``play`` says what becomes of a call."""

    exceptions = SimpleNamespace(RayTaskError=RayTaskError)

    def __init__(self, play):
        self.play, self.options, self.cancelled = play, [], []

    def remote(self, function):
        def start(*arguments):
            reference = Reference()
            self.play(reference, lambda: function(*arguments))
            return reference

        def options(**options):
            self.options.append(options)
            return SimpleNamespace(remote=start)

        return SimpleNamespace(options=options)

    def cluster_resources(self):
        return {"CPU": 2.0}

    def nodes(self):
        return [
            {"Alive": True, "Resources": {"CPU": 1.0, "memory": 100.0}},
            {"Alive": False, "Resources": {"CPU": 64.0, "memory": 1e12}},
            {"Alive": True, "Resources": {"memory": 200.0}},
        ]

    def cancel(self, reference, *, force=False):
        self.cancelled.append(force)
        if not reference.result.done():
            reference.result.set_exception(RayError("the task was cancelled"))


def at_once(reference, call):
    try:
        reference.result.set_result(call())
    except ValueError as error:
        reference.result.set_exception(RayTaskError(error))


def never(_reference, _call):
    pass


def double(number):
    if number == 13:
        raise ValueError("13 is not doubled")
    return 2 * number


def test_a_call_is_made_once_and_spread():
    ray = Ray(at_once)
    assert Cluster(ray).run(double, 4, memory=7) == 8
    (options,) = ray.options
    assert (options["max_retries"], options["retry_exceptions"], options["scheduling_strategy"]) == (0, False, "SPREAD")
    assert (options["num_cpus"], options["memory"]) == (1, 7)


def test_what_a_call_raises_is_raised_as_it_was():
    with pytest.raises(ValueError, match=r"^13 is not doubled$"):
        Cluster(Ray(at_once)).run(double, 13)


def test_a_lost_node_is_told_in_one_line():
    def lost(reference, _call):
        reference.result.set_exception(NodeDiedError("The node died\nunexpectedly.\n\nA page of advice"))

    with pytest.raises(LostError, match=r"^NodeDiedError: The node died unexpectedly$"):
        Cluster(Ray(lost)).run(double, 1)


def test_many_calls_give_their_results_in_order_and_may_be_made_again():
    ray = Ray(at_once)
    assert list(Cluster(ray).each(double, range(40, 70))) == [(number, 2 * number) for number in range(40, 70)]
    assert {options["max_retries"] for options in ray.options} == {-1}


def test_not_all_of_many_calls_are_made_at_once():
    ray, taken = Ray(at_once), []
    results = Cluster(ray).each(double, (taken.append(number) or number for number in range(100, 1000)))
    next(results)
    assert len(taken) < 20


def test_a_call_that_runs_is_cancelled_and_so_is_one_that_begins_later():
    ray = Ray(never)
    cluster = Cluster(ray)
    running = cluster._start(double, (1,), (), memory=0, repeats=0)
    cluster.cancel()
    with pytest.raises(LostError, match="cancelled"):
        running.result(0)
    with pytest.raises(LostError, match="cancelled"):
        cluster.run(double, 1)
    assert ray.cancelled == [False, False]


def test_nobody_waits_for_a_call_that_was_given_up_though_the_cluster_says_nothing_any_more():
    ray = Ray(never)
    ray.cancel = lambda *_, **__: 1 / 0
    cluster = Cluster(ray)
    running = cluster._start(double, (1,), (), memory=0, repeats=0)
    cluster.give_up()
    with pytest.raises(LostError, match="given up"):
        running.result(0)


def test_room_is_what_one_node_that_lives_has():
    cluster = Cluster(Ray(never))
    assert cluster.processors == 2
    assert cluster.has_room(processors=1, memory=100)
    assert not cluster.has_room(processors=1, memory=150)
    assert not cluster.has_room(processors=2, memory=0)


@pytest.mark.parametrize("address", ["", "here", "HOST:", ":6379", "ray://", "http://h:1", "h:1:2", "h o:1", "127.0.0.1:123456"])
def test_what_is_no_address_is_refused(address):
    with pytest.raises(ClusterError) as refused, connected(address):
        pass
    assert str(refused.value).endswith("is no address of a cluster; write auto, local, HOST:PORT or ray://HOST:PORT")


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "[::1]:1", "127.0.0.1:99999", f"{'x' * 300}:1"])
def test_what_does_not_answer_is_said_at_once(address):
    said = r"nothing answers there \(.+\); start the cluster, or name the address of one"
    with pytest.raises(ClusterError, match=said) as refused, connected(address):
        pass
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("command", [("judge", "."), ("rollout", "--harness=pi")])
def test_a_command_says_it_in_one_sentence(command, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["harness-conformance", *command, "--ray=127.0.0.1:1"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    said = capsys.readouterr().err
    assert ended.value.code == cli.USAGE_ERROR
    assert said.startswith("error: --ray 127.0.0.1:1: nothing answers there")
    assert said.count("\n") == 1


def test_an_error_that_says_nothing_is_told_by_its_name():
    assert one_line(ValueError()) == "ValueError"
    assert one_line(ValueError("a.\n")) == "a"


def waits(descriptor):
    threading.Thread(target=_thread.interrupt_main).start()
    os.read(descriptor, 1)


def test_a_main_thread_that_waits_hears_at_once_that_its_task_is_cancelled():
    """As Ray cancels one: without a signal, and where signals are ignored. Twice, as a worker makes many calls."""
    ignored = signal.signal(signal.SIGINT, signal.SIG_IGN)
    for _ in range(2):
        reads, writes = os.pipe()
        give_up = threading.Timer(30, os.write, (writes, b"nobody heard"))
        give_up.start()
        try:
            with pytest.raises(KeyboardInterrupt), interruptible():
                waits(reads)
        finally:
            give_up.cancel()
            give_up.join()
            os.close(reads)
            os.close(writes)
    assert signal.signal(signal.SIGINT, ignored) is signal.SIG_IGN


def test_what_a_call_starts_has_the_signals_of_a_usual_process_and_its_thread_keeps_its_own():
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    handler = signal.getsignal(signal.SIGURG)
    try:
        with interruptible():
            status = subprocess.run(["/bin/cat", "/proc/self/status"], capture_output=True, text=True, check=True).stdout
        blocked = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigBlk"))
        assert not blocked & 1 << signal.SIGINT - 1
        assert signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())
        assert signal.getsignal(signal.SIGURG) is handler
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_called_makes_the_call():
    assert called(__version__, pickle.dumps((double, (3,)))) == 6
