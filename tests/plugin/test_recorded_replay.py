"""Recorded evidence is judged green by the command, and ``--replay`` finds the same, byte for byte."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

from pytest_harness.resources import resource

OF_THE_RUN = ("run_id", "written_at")
SCENARIO = "parallel_calls"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the evidence of one scenario of every recorded harness."""
    root = tmp_path_factory.mktemp("recorded")
    for record in resource("fixtures", "evidence").glob(f"*/*/*/{SCENARIO}"):
        target = root / "evidence" / record.relative_to(resource("fixtures", "evidence"))
        shutil.copytree(record, target, ignore=shutil.ignore_patterns("findings.json"))
    return root


@pytest.fixture(scope="module")
def judged(folder):
    command = [sys.executable, "-m", "pytest_harness.cli", "judge", "evidence", "--report-dir", "judged"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def report(path):
    """A report without what names the run."""
    return "\n".join(line for line in path.read_text(encoding="utf-8").splitlines() if not any(f'"{name}"' in line for name in OF_THE_RUN))


def test_recorded_evidence_of_every_dialect_is_judged_green(folder, judged):
    assert judged.returncode == 0, judged.stdout + judged.stderr
    seams = json.loads((folder / "judged" / "report.json").read_text(encoding="utf-8"))["seams"]
    assert {seam["harness"] for seam in seams} == {"claude-code", "codex", "gemini-cli", "mini-swe-agent", "pi"}


def test_a_replay_finds_what_the_judge_found_byte_for_byte(folder, judged, run_pytest):
    assert judged.returncode == 0
    done = run_pytest(folder, "--replay", "evidence", "--report-dir", "replayed", "-q")
    assert done.returncode == 0, done.stdout + done.stderr
    one, other = (report(folder / name / "report.json") for name in ("judged", "replayed"))
    assert json.loads(one)
    assert one == other


def test_judging_again_writes_the_same_findings(folder, judged):
    assert judged.returncode == 0
    findings = {path: path.read_bytes() for path in folder.rglob("findings.json")}
    assert len(findings) == 5
    command = [sys.executable, "-m", "pytest_harness.cli", "judge", "evidence", "--report-dir", "judged-again"]
    subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    assert {path: path.read_bytes() for path in folder.rglob("findings.json")} == findings


def test_a_report_that_cannot_be_written_in_the_end_is_one_sentence_below_the_matrix(folder, run_pytest):
    (folder / "taken" / "report.json").mkdir(parents=True)
    done = run_pytest(folder, "--replay", "evidence/pi", "--report-dir", "taken", "-q")
    assert done.returncode == 4, done.stdout + done.stderr
    assert "required checks ran" in done.stdout
    assert "ERROR: --report-dir taken cannot be written (report.json is no plain file there); name a folder of yours" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_so_is_one_of_another_subject(tmp_path, run_pytest):
    (tmp_path / "taken" / "runtime.json").mkdir(parents=True)
    done = run_pytest(tmp_path, "--runtime=bundled", "--report-dir=taken", "-q", "-k", "test_nothing_of_one_episode_is_in_another")
    assert "ERROR: --report-dir taken cannot be written (runtime.json is no plain file there)" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 4
