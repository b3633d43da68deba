"""A run of many attempts: what it holds does not grow with them, and those that share an engine share nothing else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from pytest_harness.contract import validity
from pytest_harness.engines.scripted import Script, ScriptedEngine, Step
from pytest_harness.evidence import find_evidence, read_evidence
from pytest_harness.resources import resource
from pytest_harness.rollouts.engines import SharedEngine
from pytest_harness.serving import BackgroundServer

ROOT = Path(__file__).resolve().parents[2]
SEAMS = ROOT / "examples" / "own-harness" / "seams"
RECORDED = ROOT / "fixtures" / "evidence" / "pi" / "local" / "scripted" / "explore" / "1"

COUNTING = """
import gc, json, os, threading, weakref
from pathlib import Path
from pytest_harness.evidence import Evidence

made, most, make = [], {}, Evidence.__init__

def remembered(self, *arguments, **named):
    make(self, *arguments, **named)
    made.append(weakref.ref(self))

Evidence.__init__ = remembered

def alive():
    return sum(each() is not None for each in made)

def pytest_runtest_logreport(report):
    if alive() > 4:
        gc.collect()
    now = {"evidences": alive(), "files": len(os.listdir("/proc/self/fd")), "threads": threading.active_count()}
    most.update({what: max(number, most.get(what, 0)) for what, number in now.items()})

def pytest_unconfigure():
    gc.collect()
    most["evidences at the end"] = alive()
    Path(f"held-{os.environ.get('PYTEST_XDIST_WORKER', 'controller')}.json").write_text(json.dumps(most))
"""

SHARING = """
import os
import pytest
from pytest_harness.rollouts.engines import SharedEngine

@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        session = config.pluginmanager.getplugin("harness-conformance")
        session.plan.pool.engine = SharedEngine.from_json(os.environ["SHARED"])
"""


class Counted:
    """An engine, and how many completions were asked of it."""

    def __init__(self, engine):
        self.engine = engine
        self.asked = 0

    async def __call__(self, scope, receive, send):
        self.asked += scope["path"].endswith("/chat/completions")
        await self.engine(scope, receive, send)


@pytest.fixture
def held(tmp_path, run_pytest):
    """``held(attempts)``: what each process of a replay of so many attempts held at most, by its name."""

    def run(attempts):
        folder = tmp_path / str(attempts)
        for number in range(attempts):
            shutil.copytree(RECORDED, folder / "evidence" / str(number))
        (folder / "counting.py").write_text(COUNTING)
        tests = f"{resource('conformance', 'seam', 'test_seam.py')}::test_rollout"
        options = ("--replay", "evidence", "-n", 2, "-p", "counting", tests)
        ended = run_pytest(folder, *options, env={"PYTHONPATH": str(folder)})
        assert f"{attempts} passed" in ended.stdout, ended.stdout + ended.stderr
        return {path.stem: json.loads(path.read_text()) for path in folder.glob("held-*.json")}

    return run


def test_what_a_run_holds_does_not_grow_with_its_attempts(held):
    few, many = held(8), held(80)
    assert set(few) == set(many) == {"held-controller", "held-gw0", "held-gw1"}
    for process, at_most in many.items():
        assert at_most["evidences"] <= 4, process
        assert at_most["evidences at the end"] <= 4, process
        assert at_most["files"] <= few[process]["files"] + 4, process
        assert at_most["threads"] == few[process]["threads"], process


def test_attempts_that_share_an_engine_over_two_workers_share_no_session(tmp_path, run_pytest):
    engine = Counted(ScriptedEngine(Script((Step("Nobody told me."),)), api_key="sk-engine"))
    (tmp_path / "sharing.py").write_text(SHARING)
    (tmp_path / "log").touch()
    with BackgroundServer(engine) as server:
        shared = SharedEngine(server.listen().url, "sk-engine", "scripted", str(tmp_path / "log"), {}, {})
        tests = f"{resource('conformance', 'seam', 'test_seam.py')}::test_rollout"
        options = ("--harness=tiny-agent", f"--seams={SEAMS}", "--scenario=edit_file", "--attempts", 20, "-n", 2, "-p", "sharing", tests)
        ended = run_pytest(tmp_path, *options, env={"PYTHONPATH": str(tmp_path), "SHARED": shared.to_json()})
    assert "20 passed" in ended.stdout, ended.stdout + ended.stderr
    evidences = [read_evidence(folder) for folder in find_evidence(tmp_path / ".harness" / "evidence")]
    assert len(evidences) == len({evidence.manifest.key_digest for evidence in evidences}) == 20
    assert all(validity(evidence).valid and not evidence.manifest.rejected for evidence in evidences)
    assert engine.asked == sum(len(evidence.calls) for evidence in evidences)
    said: dict[str, str] = {}
    for evidence in evidences:
        for call in evidence.calls:
            for name in told(call):
                assert said[name] == evidence.manifest.attempt_id, "a call tells of what was sampled in another attempt"
            said.update(dict.fromkeys(asked_for(call), evidence.manifest.attempt_id))
    assert len(said) >= len(evidences)


def told(call):
    """The ids of the tool calls in the history that a request brings."""
    messages = json.loads(call.received.body)["messages"]
    return [each["id"] for message in messages for each in message.get("tool_calls") or ()]


def asked_for(call):
    """The ids of the tool calls in a reply."""
    choices = json.loads(call.replied.body)["choices"]
    return [each["id"] for choice in choices for each in choice["message"].get("tool_calls") or ()]
