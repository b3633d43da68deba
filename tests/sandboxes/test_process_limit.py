"""A sandbox has so many processes and no more, all its commands together, and no other sandbox has fewer for it; memory hogs go first."""

import contextlib

import pytest

from pytest_harness.sandboxes.bubblewrap import Sandbox
from pytest_harness.sandboxes.running import Runner
from pytest_harness.seams.limits import Limits

FORKS = """
import os, signal, sys
children = []
try:
    for _ in range(int(sys.argv[1])):
        child = os.fork()
        if child == 0:
            signal.pause()
        children.append(child)
except BlockingIOError:
    pass
print(len(children), flush=True)
for child in children:
    os.kill(child, signal.SIGKILL)
"""


@pytest.fixture
def limited():
    """``limited(processes)``: runs commands in a sandbox with so many processes."""
    with contextlib.ExitStack() as stack:

        def start(processes):
            runner = Runner(stack.enter_context(Sandbox.start(limits=Limits(processes=processes))), 1 << 20)
            stack.callback(runner.close)
            return runner

        yield start


async def forked(runner, count):
    """How many children a program could make that tries this many."""
    finished = await runner.run(["/usr/bin/python3", "-c", FORKS, str(count)])
    assert finished.code == 0, finished
    return int(finished.stdout)


async def test_a_fork_loop_ends_at_the_limit_and_the_sandbox_lives_on(limited):
    runner = limited(50)
    assert 40 <= await forked(runner, 300) < 50
    assert await forked(runner, 10) == 10


async def test_fewer_processes_than_the_limit_are_no_fault(limited):
    assert await forked(limited(200), 100) == 100


async def test_all_commands_of_a_sandbox_share_its_limit_and_another_sandbox_has_its_own(limited):
    runner = limited(50)
    hold = "for _ in {1..40}; do sleep 1000 & done; echo held"
    finished = await runner.run(["/bin/bash", "-c", hold])
    assert finished.stdout == b"held\n"
    assert await forked(runner, 100) < 10
    assert await forked(limited(50), 100) >= 40


async def test_the_limit_cannot_be_raised_inside(limited):
    finished = await limited(50).run(["/bin/bash", "-c", "ulimit -u; ulimit -u 1000 || ulimit -u"])
    assert finished.stdout.split() == [b"50", b"50"]


async def test_when_memory_runs_out_a_sandbox_is_the_first_to_go(limited):
    finished = await limited(50).run(["/bin/cat", "/proc/self/oom_score_adj"])
    assert finished.stdout == b"1000\n"
