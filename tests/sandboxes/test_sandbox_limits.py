"""What a sandbox uses has an end: of the disk, of the memory, of what it prints and writes into the logs; and the host has the rest."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from harbor.models.task.config import EnvironmentConfig as TaskEnvironment
from harbor.models.trial.paths import TrialPaths

from pytest_harness.sandboxes.bubblewrap import Sandbox
from pytest_harness.sandboxes.limits import MemoryLimitExceededError, OutputLimitError
from pytest_harness.sandboxes.local import LocalSandbox
from pytest_harness.sandboxes.running import Runner
from pytest_harness.seams.limits import MB, Limits

HOLDS = "import sys; held = b'x' * (int(sys.argv[1]) << 20); print('held', flush=True); sys.stdin.read()"


@pytest.fixture
def made(tmp_path: Path):
    """``async with made(limits) as environment``: a started one, its logs in ``tmp_path / "trial"``."""

    @contextlib.asynccontextmanager
    async def run(**limits):
        (tmp_path / "task").mkdir()
        environment = LocalSandbox(
            environment_dir=tmp_path / "task",
            environment_name="limited",
            session_id="limited__1__env",
            trial_paths=TrialPaths(tmp_path / "trial"),
            task_env_config=TaskEnvironment(),
            limits=Limits(**limits),
        )
        await environment.start(force_build=False)
        try:
            yield environment
        finally:
            await environment.stop(delete=True)

    return run


@pytest.mark.parametrize("folder", ["/root", "/tmp", "/app", "/logs", "/usr/local", "/dev/shm", "/var/tmp"])
async def test_files_have_so_much_room_and_no_more(folder):
    with Sandbox.start(limits=Limits(disk_mb=32)) as sandbox:
        runner = Runner(sandbox)
        script = (
            f"head -c 24M /dev/zero >{folder}/first && head -c 24M /dev/zero >{folder}/second; cat {folder}/first {folder}/second | wc -c"
        )
        finished = await runner.run(["/bin/bash", "-c", script])
        runner.close()
    assert b"No space left on device" in finished.stderr  # of the folder: each file by itself is small enough
    assert 24 * MB < int(finished.stdout) <= 32 * MB


async def test_there_is_no_room_beside_it():
    with Sandbox.start(limits=Limits(disk_mb=32)) as sandbox:
        runner = Runner(sandbox)
        finished = await runner.run(["/bin/bash", "-c", "for at in / /dev /etc /usr /proc /run; do : >$at/probe && echo $at; done"])
        runner.close()
    assert set(finished.stdout.split()) <= {b"/", b"/run"}


async def test_one_file_has_no_more_either_whatever_it_holds():
    with Sandbox.start(limits=Limits(disk_mb=16)) as sandbox:
        runner = Runner(sandbox)
        holes = "truncate -s 1T /root/hole; truncate -s 16M /root/just; stat -c %s /root/*"
        finished = await runner.run(["/bin/bash", "-c", holes])
        runner.close()
    assert finished.stdout.split() == [b"0", b"16777216"]


async def test_who_prints_without_end_is_ended(made):
    async with made(output_mb=1) as environment:
        with pytest.raises(OutputLimitError, match="a command put out more than 1 MB"):
            await environment.exec("yes")
        assert (await environment.exec("echo still here")).stdout == "still here\n"


async def test_what_is_copied_out_has_an_end_too_also_where_it_takes_no_room_inside(made, tmp_path):
    async with made(output_mb=2) as environment:
        await environment.exec("mkdir /root/log && cd /root/log && truncate -s 2M {1..600}")
        with pytest.raises(OutputLimitError):
            await environment.download_dir("/root/log", tmp_path / "log")
    assert not (tmp_path / "log").exists()


async def test_a_harness_that_fills_its_logs_leaves_the_verifier_room_for_its_verdict(made):
    async with made(output_mb=1) as environment:
        flood = "for i in {1..30}; do head -c 100000 /dev/zero >/logs/agent/$i; done; du -s --apparent-size -k /logs/agent"
        finished = await environment.exec(flood)
        assert "No space left on device" in finished.stderr
        assert int(finished.stdout.split()[0]) <= 1100
        verdict = await environment.exec("mkdir -p /logs/verifier && echo 1 >/logs/verifier/reward.txt && cat /logs/verifier/reward.txt")
        assert verdict.stdout == "1\n"


async def test_who_takes_more_memory_is_ended_with_harbors_own_name_for_it(made):
    async with made(memory_mb=100) as environment:
        with pytest.raises(MemoryLimitExceededError, match="more than 100 MB of memory"):
            await environment.exec(f'sleep 1000 | python3 -c "{HOLDS}" 200')


async def test_the_memory_of_all_processes_counts_and_what_they_share_counts_once(made):
    share = "import os, signal; held = b'x' * (60 << 20); [os.fork() or signal.pause() for _ in range(4)]; print('held', flush=True)"
    async with made(memory_mb=200) as environment:
        assert (await environment.exec(f'python3 -c "{share}; import time; time.sleep(2)"; kill -KILL -1; true')).return_code in {0, 137}
        with pytest.raises(MemoryLimitExceededError):
            await environment.exec(f'for i in 1 2 3 4; do sleep 1000 | python3 -c "{HOLDS}" 60 & done; wait')


async def test_what_stays_within_its_limits_is_left_alone(made):
    async with made(output_mb=2, memory_mb=300) as environment:
        work = f"head -c 1M /dev/zero >/logs/agent/log; head -c 1000000 /dev/zero | tr '\\0' x; (sleep 1; echo) | python3 -c \"{HOLDS}\" 50"
        finished = await environment.exec(work)
    assert finished.return_code == 0
    assert len(finished.stdout) > 1000000


async def test_another_sandbox_has_its_own_memory(made):
    with Sandbox.start() as other:
        process = other.spawn(["/usr/bin/python3", "-c", HOLDS.replace("sys.stdin.read()", "import time; time.sleep(1000)"), "200"])
        async with made(memory_mb=100) as environment:
            assert (await environment.exec("sleep 1.5; echo done")).stdout == "done\n"
        process.kill()
        process.wait()
