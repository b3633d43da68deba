"""Life of a sandbox: start, commands, death, end. Run as root, and by test_ordinary_user.py again as an ordinary user."""

import asyncio
import os
import select
import signal
import subprocess
import sys
import threading
import uuid
from pathlib import Path

import pytest

from pytest_harness.sandboxes.bubblewrap import Sandbox, SandboxDiedError, SandboxError, check
from pytest_harness.sandboxes.layout import Layout, Mount

# The rest of a killed process group dies, and is reaped by process 1, a moment after its leader: look again, boundedly
NO_SLEEP_IS_LEFT = "for i in $(seq 1000); do pgrep sleep >/dev/null || exit 0; done; exit 1"
SANDBOX_OF_A_CHILD = """
import sys, time
from pytest_harness.sandboxes.bubblewrap import Sandbox
sandbox = Sandbox.start()
process = sandbox.spawn(["/bin/bash", "-c", "setsid bash -c 'exec -a $0 sleep 1000' $0 & exec -a $0 sleep 1000", sys.argv[1]])
while sandbox.spawn(["/bin/bash", "-c", "[ $(pgrep -c sleep) = 2 ]"]).wait(): pass
print(sandbox._keeper.pid, flush=True)
time.sleep(1000)
"""


def processes(*marks: str) -> set[int]:
    """The host's processes with one of these words in the command line."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_text().split("\0")
        except (OSError, UnicodeDecodeError):
            continue
        if any(mark in words for mark in marks):
            found.add(int(folder.name))
    return found


def assert_they_end(pids: set[int], within: float = 20) -> None:
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            assert select.select([descriptor], [], [], within)[0], f"process {pid} is still there"
        finally:
            os.close(descriptor)


def test_a_sandbox_starts_here():
    assert check() is None


async def test_exit_status_and_both_outputs_come_back(shell):
    finished = await shell("echo out; echo err >&2; exit 3")
    assert (finished.code, finished.stdout, finished.stderr) == (3, b"out\n", b"err\n")
    assert (await shell("kill -9 $$")).code == 137


async def test_a_command_that_is_not_there_says_so(shell):
    finished = await shell.runner.run(["/no/such"])
    assert (finished.code, finished.stderr) == (126, b"sandbox: /no/such: No such file or directory\n")
    finished = await shell("true", cwd="/nowhere")
    assert (finished.code, finished.stderr) == (126, b"sandbox: /nowhere: No such file or directory\n")


async def test_the_inside_has_its_own_name_user_home_and_process_1(shell):
    assert await shell.text("hostname; id -un; id -u; echo ~; stat -c %a /tmp; echo $LANG") == "sandbox\nroot\n0\n/root\n1777\nC.UTF-8"
    assert "sleep" not in await shell.text("cat /proc/1/cmdline | tr '\\0' ' '")


async def test_harbors_absolute_paths_can_be_made_and_written(shell):
    folders = "/logs/agent /logs/verifier /tests /solution /app /installed-agent /opt/x /usr/local/bin /root/.config"
    await shell.text(f"for d in {folders}; do mkdir -p $d && touch $d/x || exit; done")


async def test_files_shims_and_mounts_are_where_they_were_asked_for(opened, cache):
    layout = {"mounts": (Mount(cache, str(cache)),), "shims": {"ls": "#!/bin/sh\necho shim\n"}, "files": {"~/.a/b c": "text\n"}}
    async with opened(**layout) as shell:
        assert await shell.text(f"ls; cat '/root/.a/b c' {cache}/program") == "shim\ntext\ngenuine"


async def test_a_writable_mount_can_be_written(opened, tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs").chmod(0o777)
    async with opened(mounts=(Mount(tmp_path / "logs", "/logs", writable=True),)) as shell:
        await shell.text("echo seen >/logs/x")
    assert (tmp_path / "logs" / "x").read_text() == "seen\n"


@pytest.mark.parametrize(
    ("layout", "complaint"),
    [
        ({"mounts": (Mount(Path("/no/such/folder"), "/x"),)}, "there is no /no/such/folder"),
        ({"shims": {"../x": ""}}, "name must be that of a command"),
        ({"files": {"relative": ""}}, "must be absolute"),
        ({"files": {"/a/../../b": ""}}, "without '..'"),
        ({"mounts": (Mount(Path("/etc"), "/usr/no-such-place"),)}, "mkdir"),
    ],
)
def test_what_cannot_be_put_in_is_refused_in_one_sentence(layout, complaint):
    with pytest.raises(SandboxError, match=complaint):
        Sandbox.start(layout=Layout(**layout))


async def test_background_processes_survive_commands_and_die_with_the_sandbox(opened):
    mark = uuid.uuid4().hex
    async with opened() as shell:
        await shell.text(
            f"(exec -a {mark} sleep 1000) & setsid bash -c 'exec -a {mark} sleep 1000' & until [ $(pgrep -c sleep) = 2 ]; do :; done"
        )
        assert await shell.text("pgrep -c sleep") == "2"
        pids = processes(mark)
        assert len(pids) == 2
    assert not processes(mark)
    with pytest.raises(ProcessLookupError):
        os.kill(shell.sandbox._keeper.pid, 0)


async def test_orphans_are_reaped(shell):
    await shell.text("for i in 1 2 3 4 5; do (setsid sh -c 'exit 0' &) ; done")
    # an orphan is reaped by process 1 in its own time: wait for it in the sandbox, boundedly
    assert await shell.text("for i in $(seq 1000); do ps -e -o stat= | grep -q Z || { echo none; break; }; done") == "none"


async def test_killing_everything_inside_leaves_the_sandbox_usable(shell):
    await shell("kill -9 -1; kill -9 1; kill -TERM 1; kill -HUP 1")
    await shell("pkill -9 bash")
    assert await shell.text("echo alive") == "alive"


async def test_a_flood_of_output_is_cut_in_the_middle(opened):
    async with opened(limit=1000) as shell:
        out = (await shell("echo head; yes | head -c 10000000; echo tail")).stdout
        assert len(out) < 1100
        assert out.startswith(b"head\ny\n")
        assert b"\n[... 9999010 bytes left out ...]\n" in out
        assert out.endswith(b"y\ntail\n")


async def test_a_background_writer_neither_holds_up_a_command_nor_is_killed_by_its_end(shell):
    assert await shell.text("yes & echo started >&2; echo $! >/tmp/pid", timeout=60) is not None
    assert (await shell("kill -0 $(cat /tmp/pid)")).code == 0


async def test_a_timeout_kills_the_process_group(shell):
    with pytest.raises(TimeoutError):
        await shell("sleep 1000 & sleep 1000", timeout=0.2)
    await shell.text(NO_SLEEP_IS_LEFT)


async def test_a_cancellation_kills_the_process_group(shell):
    running = asyncio.ensure_future(shell("touch /tmp/begun; sleep 1000 & sleep 1000"))
    await shell.text("until [ -e /tmp/begun ]; do sleep 0.01; done", timeout=20)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await shell.text(NO_SLEEP_IS_LEFT)


async def test_a_dead_sandbox_raises_whatever_is_asked_of_it(opened):
    async with opened() as shell:
        running = asyncio.ensure_future(shell("touch /tmp/begun; sleep 1000"))
        await shell.text("until [ -e /tmp/begun ]; do sleep 0.01; done", timeout=20)
        keeper = shell.sandbox._keeper.pid
        (bwrap,) = await asyncio.to_thread(_bwrap_of, keeper)
        os.kill(bwrap, signal.SIGKILL)
        with pytest.raises(SandboxDiedError):
            await running
        with pytest.raises(SandboxDiedError):
            await shell("true")


async def test_a_dead_keeper_means_a_dead_sandbox(opened):
    mark = uuid.uuid4().hex
    async with opened() as shell:
        running = asyncio.ensure_future(shell(f"touch /tmp/begun; exec -a {mark} sleep 1000"))
        await shell.text("until [ -e /tmp/begun ]; do sleep 0.01; done", timeout=20)
        pids = processes(mark)
        shell.sandbox._keeper.kill()
        with pytest.raises(SandboxDiedError):
            await running
        with pytest.raises(SandboxDiedError):
            await shell("true")
        with pytest.raises(SandboxDiedError):
            shell.sandbox.listener(1)
        assert_they_end(pids)


def test_a_sandbox_outlives_the_thread_that_started_it():
    started = []
    thread = threading.Thread(target=lambda: started.append(Sandbox.start()))
    thread.start()
    thread.join()
    with started[0] as sandbox:
        assert sandbox.spawn(["/bin/true"]).wait() == 0


def test_nothing_is_left_of_a_run_that_was_killed(tmp_path):
    mark = uuid.uuid4().hex
    mounts = Path("/proc/self/mountinfo").read_text()
    with subprocess.Popen(
        [sys.executable, "-c", SANDBOX_OF_A_CHILD, mark], stdout=subprocess.PIPE, env={**os.environ, "TMPDIR": str(tmp_path)}
    ) as child:
        assert child.stdout is not None
        keeper = int(child.stdout.readline())
        pids = processes(mark) - {child.pid}
        assert len(pids) >= 2
        child.kill()
    assert_they_end({keeper, *pids})
    assert not processes(mark)
    assert Path("/proc/self/mountinfo").read_text() == mounts
    assert not list(tmp_path.iterdir())


def test_where_namespaces_are_refused_the_check_says_why_and_what_to_do():
    script = """
import os
uid, gid = os.getuid(), os.getgid()
os.unshare(os.CLONE_NEWUSER)
open("/proc/self/setgroups", "w").write("deny")
open("/proc/self/uid_map", "w").write(f"0 {uid} 1")
open("/proc/self/gid_map", "w").write(f"0 {gid} 1")
open("/proc/sys/user/max_user_namespaces", "w").write("0")
from pytest_harness.sandboxes.bubblewrap import check
print(check())
"""
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert told.startswith("the local sandbox cannot start on this machine (bwrap: ")
    assert "max_user_namespaces" in told
    assert "--sandbox" in told
    assert len(told.splitlines()) == 1


def _bwrap_of(keeper: int) -> list[int]:
    children = Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()
    return [int(pid) for pid in children if Path(f"/proc/{pid}/comm").read_text().strip() == "bwrap"]
