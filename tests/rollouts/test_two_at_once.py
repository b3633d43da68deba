"""Two rollouts of a harness at the same time, run for real: each has what is its own, and a proxy that takes one for the other is seen."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from pytest_harness.capture.sessions import Sessions
from pytest_harness.contract import judge_one
from pytest_harness.engines.scripted import Script, ScriptedEngine, Step
from pytest_harness.evidence import read_evidence
from pytest_harness.provision import provision
from pytest_harness.requirements import load_catalogue
from pytest_harness.rollouts.engines import SharedEngine
from pytest_harness.rollouts.rollout import run_rollout
from pytest_harness.rollouts.spec import RolloutSpec
from pytest_harness.scenarios import ScenarioTable
from pytest_harness.seams import SeamTable
from pytest_harness.serving import BackgroundServer

SEAMS = Path(__file__).resolve().parents[2] / "examples" / "own-harness" / "seams"
CATALOGUE = load_catalogue()
MIXED, REWARDED = "ISO-009", "ISO-010"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs the scenario with the harness of the example; the evidence."""
    monkeypatch.setenv("HARBOR_TELEMETRY", "0")

    def run(shared=None):
        seam = SeamTable.load(SEAMS)["tiny-agent"]
        spec = RolloutSpec(seam, "local", "scripted", ScenarioTable.load()["two_at_once"])
        folder = run_rollout(spec, provision(seam), evidence_dir=tmp_path, run_id="run", requirements=CATALOGUE.version, shared=shared)
        assert not any((tmp_path / ".running").iterdir())
        return read_evidence(folder)

    return run


def result(evidence, requirement):
    return judge_one(evidence, CATALOGUE[requirement]).result


def test_each_has_a_key_calls_and_a_reward_of_its_own_and_the_calls_overlap(run):
    evidence = run()
    (other,) = evidence.manifest.companions
    assert (len(evidence.calls), len(other.calls), other.strayed, other.exception) == (3, 3, 0, None)
    assert not {call.id for call in evidence.calls} & set(other.calls)
    assert len({evidence.manifest.key_digest, other.key_digest, hashlib.sha256(b"").hexdigest()}) == 3
    assert other.began < evidence.calls[0].times.replied
    assert evidence.calls[0].times.received < other.ended
    assert evidence.manifest.reward == other.reward
    assert (other.reward.text, evidence.manifest.sandbox_gone) == ("1", True)
    assert [result(evidence, requirement) for requirement in (MIXED, REWARDED)] == ["passed", "passed"]


def test_a_shared_engine_is_told_the_script_of_each(run, tmp_path):
    (tmp_path / "log").touch()
    with BackgroundServer(ScriptedEngine(Script((Step("Nobody told me."),)), api_key="sk-engine")) as server:
        evidence = run(SharedEngine(server.listen().url, "sk-engine", "scripted", str(tmp_path / "log"), {}, {}))
    assert [result(evidence, requirement) for requirement in (MIXED, REWARDED, "SEA-003")] == ["passed", "passed", "passed"]


def test_a_proxy_that_takes_one_session_for_the_other_is_seen(run, monkeypatch):
    find, asked = Sessions.find, []

    def confused(self, key):
        asked.append(key)
        own = find(self, key)
        # The first call of either waits for that of the other, so these are the first two.
        return own if len(asked) <= 2 else next(session for session in self if session is not own)

    monkeypatch.setattr(Sessions, "find", confused)
    evidence = run()
    assert evidence.manifest.companions[0].strayed > 0
    assert result(evidence, MIXED) == "failed"
