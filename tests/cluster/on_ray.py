"""Episodes and judgements on a real cluster of Ray: two nodes on this machine, of which one is killed. Run by ``make cluster``.

A node is what Ray makes of one: a raylet with its own processors, memory and processes. What runs on which is seen by the folder for
temporary files, of which each node has its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pytest_harness.collect import LEDGER, Ledger
from pytest_harness.evidence import find_evidence, read_evidence

pytestmark = pytest.mark.filterwarnings("ignore")

SEAMS = Path(__file__).resolve().parents[2] / "examples" / "own-harness" / "seams"
NODE = {"num_cpus": 1, "memory": 4 << 30, "object_store_memory": 80 << 20, "num_gpus": 0, "include_dashboard": False}
TICK = 0.05
PATIENCE = 300


class Nodes:
    """A head, and a node that can be killed."""

    def __init__(self, place):
        from ray.cluster_utils import Cluster  # noqa: PLC0415 (it reads the environment)

        self.place = place
        self._cluster = Cluster(initialize_head=True, head_node_args=self._node("head") | {"temp_dir": str(place / "ray")})
        self.address = self._cluster.address
        self._other = None

    def _node(self, name):
        folder = self.place / name
        folder.mkdir(exist_ok=True)
        return NODE | {"env_vars": {"TMPDIR": str(folder)}}

    def add_other(self):
        self._other = self._cluster.add_node(**self._node("other"))
        self._cluster.wait_for_nodes()

    def kill_other(self):
        """As a machine that is switched off; returns the processes that its Ray had, down to those in the sandboxes."""
        (raylet,) = self._other.all_processes["raylet"]
        below = descendants(raylet.process.pid)
        self._cluster.remove_node(self._other, allow_graceful=False)
        return below

    @property
    def other_plays(self):
        """Whether a rollout runs on the other node: below its Ray there is a sandbox."""
        (raylet,) = self._other.all_processes["raylet"]
        return "bwrap" in map(program_of, descendants(raylet.process.pid))

    def end(self):
        self._cluster.shutdown()


def descendants(pid):
    """The processes that a process has started, and theirs."""
    try:
        children = [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]
    except OSError:  # it has just ended
        return []
    return children + [each for child in children for each in descendants(child)]


def program_of(pid):
    """The name of what a process runs; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def processes_of(place):
    """The processes that have their temporary files there."""
    wanted = f"TMPDIR={place}/".encode()
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if wanted in environ.read_bytes():
                found.append(int(environ.parent.name))
        except OSError:
            continue
    return found


def wait_for_the_end_of(pids):
    for pid in pids:
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        assert select.select([handle], [], [], PATIENCE)[0], Path(f"/proc/{pid}/cmdline").read_bytes()
        os.close(handle)


@pytest.fixture(scope="module")
def nodes():
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    with tempfile.TemporaryDirectory(prefix="hc-", dir="/tmp", ignore_cleanup_errors=True) as name:  # a socket's path is 107 bytes at most
        os.environ["RAY_TMPDIR"] = name  # below it Ray writes down the head's address, where no earlier cluster made the folder for it
        (Path(name) / "ray").mkdir()
        made = Nodes(Path(name))
        try:
            yield made
        finally:
            left = processes_of(name)
            made.end()
            wait_for_the_end_of(left)
            assert processes_of(name) == []


def command(*arguments):
    return [sys.executable, "-m", "pytest_harness.cli", *map(str, arguments)]


def run(*arguments):
    ended = subprocess.run(command(*arguments), capture_output=True, text=True, check=False, env=os.environ | {"NO_COLOR": "1"})
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stderr == ""
    return ended.stdout


@contextlib.contextmanager
def started(*arguments):
    """The command while it runs; if the test fails before its end, it is ended."""
    env = os.environ | {"NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


def until(condition, process):
    """What the process has said when the condition holds; it is asked again whenever the process says something, and now and then."""
    said = b""
    while not condition():
        if select.select([process.stdout], [], [], TICK)[0]:
            part = os.read(process.stdout.fileno(), 1 << 16)
            assert part, said.decode()
            said += part
    return said


def judged(folder, report, *arguments):
    """What ``judge`` found: all but where and when."""
    run("judge", folder, "--report-dir", report, *arguments)
    findings = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("findings.json")}
    for path in findings:
        (folder / path).unlink()
    told = json.loads((report / "report.json").read_text())
    del told["written_at"]
    return told, findings


@pytest.fixture(scope="module")
def collected(nodes, tmp_path_factory):
    """Six episodes of pi, of which the other node had one when it was killed; what was said, the ledger then, and the node's processes."""
    root = tmp_path_factory.mktemp("collected")
    out, there = root / "out", root / "there"
    nodes.add_other()
    asked = ("rollout", "--harness=pi", "--scenario=edit_file", "-n", 6, "--out", out, "--ray", nodes.address)
    with started(*asked, "--evidence-to", there.as_uri()) as process:
        ledger = out / LEDGER
        said = until(lambda: ledger.exists() and ledger.read_bytes().endswith(b"\n") and nodes.other_plays, process)
        lost = nodes.kill_other()
        before = ledger.read_bytes()
        said += process.stdout.read()
    assert process.returncode == 0, said.decode()
    return out, there, said.decode(), before, lost


def test_a_node_that_is_lost_loses_no_episode_and_repeats_none_that_was_done(collected):
    out, there, said, before, _ = collected
    lines = Ledger(out).read()
    assert sorted(line.attempt for line in lines) == [1, 2, 3, 4, 5, 6]
    assert {(line.state, line.reward) for line in lines} == {("graded", 1.0)}
    assert before.count(b"\n") >= 1
    assert (out / LEDGER).read_bytes().startswith(before)
    assert {line.episode: line.mark for line in lines} == {
        folder.relative_to(there).as_posix(): read_evidence(folder).manifest.attempt_id for folder in find_evidence(there)
    }
    assert said.count("it is run again") == 1, said
    assert sorted(line.tries for line in lines) == [1, 1, 1, 1, 1, 2]
    assert list(find_evidence(out)) == []


def test_the_same_command_again_finds_everything_where_it_was_brought(collected, nodes):
    out, there, *_ = collected
    ledger = (out / LEDGER).read_bytes()
    asked = ("rollout", "--harness=pi", "--scenario=edit_file", "-n", 6, "--out", out, "--ray", nodes.address)
    assert "6 episodes are there, 0 are missing" in run(*asked, "--evidence-to", there)
    assert (out / LEDGER).read_bytes() == ledger


def test_nothing_of_the_lost_node_runs_on(collected, nodes):
    *_, lost = collected
    assert len(lost) > 3  # Ray's own, and below one of them the sandbox with the harness
    wait_for_the_end_of([*lost, *processes_of(nodes.place / "other")])


def test_what_is_judged_on_the_cluster_is_what_is_judged_here(collected, nodes, tmp_path):
    _, there, *_ = collected
    here = judged(there, tmp_path / "report")
    assert judged(there, tmp_path / "report", "--ray", nodes.address) == here
    assert len(here[1]) == 6


def test_a_scenario_of_ones_own_travels_and_its_evidence_comes_back(nodes, tmp_path):
    asked = ("rollout", f"--seams={SEAMS}", "--harness=tiny-agent", "--scenario=edit_file", "-n", 2, "--out", tmp_path / "out")
    said = run(*asked, "--ray", nodes.address, "--export", tmp_path / "rows.jsonl", "--rehearsal")
    assert "2 episodes: mean reward 1 of 2 graded" in said
    lines = Ledger(tmp_path / "out").read()
    assert {line.mark for line in lines} == {read_evidence(folder).manifest.attempt_id for folder in find_evidence(tmp_path / "out")}
    assert {json.loads(row)["episode"] for row in (tmp_path / "rows.jsonl").read_text().splitlines()} == {line.mark for line in lines}
    assert "2 episodes are there, 0 are missing" in run(*asked)


def test_ctrl_c_ends_what_runs_and_the_same_command_goes_on(nodes, tmp_path):
    asked = ("rollout", "--harness=pi", "--scenario=edit_file", "-n", 2, "--out", tmp_path / "out", "--ray", nodes.address)
    running = nodes.place / "head"
    with started(*asked) as process:
        said = until(lambda: any(running.glob("harness-rollout-*/evidence/.running/*")), process)
        process.send_signal(signal.SIGINT)
        said += process.stdout.read()
    assert process.returncode == 130, said.decode()
    assert "interrupted: what is done is kept" in said.decode()
    assert Ledger(tmp_path / "out").read() == []
    assert list(running.glob("harness-rollout-*")) == []
    assert "2 episodes: mean reward 1 of 2 graded" in run(*asked)
