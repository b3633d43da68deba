"""The sandbox, the proxy or the engine dies in the middle of a rollout: it ends with a name, somebody to blame, no reward, and no rest."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from harbor.trial.hooks import TrialEvent

from pytest_harness.contract.grading import grade
from pytest_harness.contract.validity import trial_exception, validity
from pytest_harness.engines.scripted import Script, ScriptedEngine, Step
from pytest_harness.evidence import read_evidence
from pytest_harness.owners import VARIABLE, owner
from pytest_harness.provision import provision
from pytest_harness.rollouts.aftermath import Aftermath
from pytest_harness.rollouts.engines import SharedEngine
from pytest_harness.rollouts.player import Player
from pytest_harness.rollouts.rollout import run_rollout
from pytest_harness.rollouts.spec import RolloutSpec
from pytest_harness.scenarios import ScenarioTable
from pytest_harness.seams import SeamTable
from pytest_harness.serving import BackgroundServer
from pytest_harness.verifiers.reported import told_in_reports

SEAMS = Path(__file__).resolve().parents[2] / "examples" / "own-harness" / "seams"
HOOKED = {"before the agent": TrialEvent.AGENT_START, "after it": TrialEvent.AGENT_END, "before grading": TrialEvent.VERIFICATION_START}
pytestmark = pytest.mark.usefixtures("nothing_left")


def kill_sandboxes() -> None:
    """As the kernel does when memory runs out: the keepers that this process has started, and with each its sandbox."""
    mark = f"{VARIABLE}={owner()}".encode()
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if b"keeper.py" in (place / "cmdline").read_bytes() and mark in (place / "environ").read_bytes():
                os.kill(int(place.name), signal.SIGKILL)
        except OSError:
            continue


class Striking:
    """An engine that strikes when it is asked for the first time."""

    def __init__(self, strike):
        self.engine = ScriptedEngine(Script((Step("Nobody told me."),)), api_key="sk-engine")
        self.strike = strike

    async def __call__(self, scope, receive, send):
        if scope["type"] == "http" and self.strike is not None:
            strike, self.strike = self.strike, None
            await asyncio.to_thread(strike)
        await self.engine(scope, receive, send)


@pytest.fixture
def rolled_out(tmp_path, monkeypatch):
    """Runs the harness of the example; ``first_call`` happens when the engine is asked. The evidence."""
    monkeypatch.setenv("HARBOR_TELEMETRY", "0")
    (tmp_path / "log").touch()

    def run(first_call=None):
        seam = SeamTable.load(SEAMS)["tiny-agent"]
        spec = RolloutSpec(seam, "local", "scripted", ScenarioTable.load()["edit_file"])
        shared = None
        with BackgroundServer(Striking(first_call)) as server:
            if first_call is not None:
                shared = SharedEngine(server.listen().url, "sk-engine", "scripted", str(tmp_path / "log"), {}, {})
            options = {"run_id": "run", "requirements": "2026.12", "shared": shared}
            return read_evidence(run_rollout(spec, provision(seam), evidence_dir=tmp_path / "evidence", **options))

    return run


def outcome(evidence):
    """The name of what happened, whose fault it is, how many rewards count, and their mean."""
    told = told_in_reports(evidence)
    return trial_exception(evidence), validity(evidence).blame, told.graded, told.mean


@pytest.mark.parametrize("phase", ["as it starts", "under the agent", *HOOKED])
def test_a_sandbox_that_dies_is_named_blamed_on_the_surroundings_and_gives_no_reward(rolled_out, monkeypatch, phase):
    async def strike(_event):
        kill_sandboxes()

    if phase in HOOKED:
        watch = Aftermath.watch
        monkeypatch.setattr(Aftermath, "watch", lambda self, trial: (watch(self, trial), trial.add_hook(HOOKED[phase], strike)))
    if phase == "as it starts":
        serve = Player._serve_inside
        monkeypatch.setattr(Player, "_serve_inside", lambda self, sandbox: (serve(self, sandbox), kill_sandboxes()))
    evidence = rolled_out(kill_sandboxes if phase == "under the agent" else None)
    assert outcome(evidence) == ("SandboxDiedError", "surroundings", 0, None)
    assert grade(evidence).value is None


def test_a_proxy_that_dies_under_the_agent_is_our_fault_and_gives_no_reward(rolled_out, monkeypatch):
    servers = []
    serve = Player._serve_inside
    monkeypatch.setattr(Player, "_serve_inside", lambda self, sandbox: (servers.append(self._server), serve(self, sandbox)))
    evidence = rolled_out(lambda: servers[0].close())  # noqa: PLW0108 (there is none yet)
    assert outcome(evidence) == ("NonZeroAgentExitCodeError", "ourselves", 0, None)
    assert [call.outcome for call in evidence.calls] != ["complete"]


def test_an_engine_that_dies_under_the_agent_is_named_and_gives_no_reward(rolled_out):
    def die():
        raise ConnectionResetError("the engine is gone")  # its server cuts the connection

    evidence = rolled_out(die)
    assert outcome(evidence) == ("NonZeroAgentExitCodeError", "ourselves", 0, None)
