"""What a harness reaches from a real rollout: its own session at the proxy, and nothing else of proxy, engine or grading."""

from __future__ import annotations

import json

import pytest

from pytest_harness.contract.grading import grade
from pytest_harness.engines.scripted import Script, ScriptedEngine, Step
from pytest_harness.evidence import read_evidence
from pytest_harness.provision import provision
from pytest_harness.rollouts.engines import SharedEngine
from pytest_harness.rollouts.rollout import run_rollout
from pytest_harness.rollouts.spec import RolloutSpec
from pytest_harness.scenarios import ScenarioTable
from pytest_harness.seams import SeamTable
from pytest_harness.serving import BackgroundServer

PROBE = """#!/usr/bin/python3
import json, os, socket, urllib.error, urllib.request
from pathlib import Path

def ask(path, key=None, method="GET", body=None):
    headers = {"Content-Type": "application/json"} | ({"Authorization": "Bearer " + key} if key else {})
    data = json.dumps(body).encode() if body is not None else None
    try:
        with urllib.request.urlopen(urllib.request.Request(URL + path, data, headers, method=method), timeout=60) as reply:
            return reply.status
    except urllib.error.HTTPError as error:
        return error.code

def connects(address):
    try:
        socket.create_connection(address, timeout=5).close()
        return True
    except OSError:
        return False

def listening(table):
    rows = [line.split() for line in Path(table).read_text().splitlines()[1:]]
    return [row[1].rpartition(":")[2] for row in rows if row[3] == "0A"]

URL, KEY, MODEL = (os.environ[name] for name in ("PROBE_URL", "PROBE_KEY", "PROBE_MODEL"))
call = {"model": MODEL, "messages": [{"role": "user", "content": "x"}]}
found = {
    "own": ask("/v1/chat/completions", KEY, "POST", call),
    "keys": {key: ask("/v1/chat/completions", key, "POST", call) for key in (None, "sk-hc-another", KEY[:-1], KEY + "x", "sk-engine")},
    "admin": {path: ask(path, KEY) for path in ("/admin", "/sessions", "/v1/sessions", "/metrics", "/docs", "/openapi.json")},
    "deletes": ask("/sessions/" + KEY, KEY, "DELETE"),
    "engine": connects(("127.0.0.1", ENGINE)),
    "ports": [int(port, 16) for family in ("tcp", "tcp6") for port in listening("/proc/net/" + family)],
    "variables": sorted(name for name, value in os.environ.items() if "sk-engine" in value or "OPERATOR" in value),
    "files": [str(path) for path in (Path("/tests"), Path("/solution"), Path("/logs/verifier/reward.txt")) if path.exists()],
}
Path("/logs/agent/found.json").write_text(json.dumps(found))
"""


@pytest.fixture(scope="module")
def looked(tmp_path_factory, write_toy):
    """What the harness found, and the evidence."""
    folder = tmp_path_factory.mktemp("looked")
    (folder / "log").touch()
    with (
        pytest.MonkeyPatch.context() as patch,
        BackgroundServer(ScriptedEngine(Script((Step("Nothing."),)), api_key="sk-engine")) as server,
    ):
        patch.setenv("HARBOR_TELEMETRY", "0")
        patch.setenv("OPERATORS_KEY", "OPERATOR")
        url = server.listen().url
        shared = SharedEngine(url, "sk-engine", "scripted", str(folder / "log"), {}, {})
        env = {"PROBE_URL": "{url}", "PROBE_KEY": "{key}", "PROBE_MODEL": "{model}"}
        write_toy(folder, "probe", PROBE.replace("ENGINE", url.rpartition(":")[2]), does="looks around", seconds=120, env=env)
        seam = SeamTable.load(folder / "seams")["probe"]
        spec = RolloutSpec(seam, "local", "scripted", ScenarioTable.load()["edit_file"])
        options = {"evidence_dir": folder / "evidence", "run_id": "run", "requirements": "2026.12", "shared": shared}
        evidence = run_rollout(spec, provision(seam), **options)
        return json.loads((evidence / "trial" / "agent" / "found.json").read_text()), read_evidence(evidence)


def test_its_own_key_opens_its_own_session_and_only_that_call_is_recorded(looked):
    found, evidence = looked
    assert found["own"] == 200
    assert [call.outcome for call in evidence.calls] == ["complete"]


def test_no_other_key_opens_anything_and_each_try_is_counted(looked):
    found, evidence = looked
    assert set(found["keys"].values()) == {401}
    assert evidence.manifest.rejected >= len(found["keys"])


def test_nothing_answers_that_is_not_a_route_of_a_model(looked):
    found, _ = looked
    assert set(found["admin"].values()) | {found["deletes"]} <= {401, 404, 405}


def test_no_port_but_the_proxys_is_open(looked):
    found, _ = looked
    assert found["engine"] is False
    assert found["ports"] == [8555]


def test_no_key_of_the_engine_or_of_the_operator_and_nothing_of_the_grading_is_there(looked):
    found, evidence = looked
    assert (found["variables"], found["files"]) == ([], [])
    assert grade(evidence).value in {None, 0.0}
