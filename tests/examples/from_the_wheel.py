"""The example repositories, and the bundled suite, with the package as others get it. Run by ``make examples``, because it installs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DATA = "pytest_harness/_data/"


@pytest.fixture(scope="module")
def installed(environment, dist):
    """The wheel alone, with what the wire suite needs."""
    return environment(f"{dist.wheel}[wire]", "pytest-xdist")


@pytest.fixture
def repository(tmp_path):
    """A copy of an example, as somebody has it who cloned it alone."""

    def copied(name):
        return shutil.copytree(ROOT / "examples" / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", ".*"))

    return copied


def command_of(readme):
    """The arguments of the first pytest command in a README, as a reader would copy it."""
    [command, *_] = re.findall(r"^pytest (--.*)$", readme.read_text(), re.MULTILINE)
    return command.split()


def carried(wheel):
    """The names of the bundled data in a wheel."""
    return {name.removeprefix(DATA) for name in zipfile.ZipFile(wheel).namelist() if name.startswith(DATA)}


def test_wheel_and_sdist_carry_all_the_data_of_the_checkout(dist):
    tracked = subprocess.run(
        ["git", "ls-files", "conformance", "fixtures", "seams"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert len(tracked) > 100
    assert set(tracked) <= carried(dist.direct)
    assert set(tracked) <= carried(dist.wheel)
    with tarfile.open(dist.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert set(tracked) <= names
    assert not {name for name in names if "__pycache__" in name or name.startswith((".venv", ".harness"))}


def test_nothing_of_the_wheel_lands_beside_the_package(dist):
    top = {name.partition("/")[0] for name in zipfile.ZipFile(dist.wheel).namelist()}
    assert {name for name in top if not name.endswith(".dist-info")} == {"pytest_harness"}


def test_a_repository_gates_its_own_harness(installed, repository):
    folder = repository("gate-a-harness")
    own = installed("pytest", cwd=folder)
    assert own.returncode == 0, own.stdout + own.stderr
    assert not (folder / ".harness").exists()
    gate = installed("pytest", *command_of(folder / "README.md"), cwd=folder)
    assert gate.returncode == 0, gate.stdout + gate.stderr
    report = json.loads((folder / ".harness" / "report" / "report.json").read_text())
    assert [seam["harness"] for seam in report["seams"]] == ["notes-agent"]
    assert {attempt["scenario"]: attempt["reward"] for attempt in report["seams"][0]["attempts"]} == {
        "edit_file": 1.0,
        "parallel_calls": 1.0,
        "sum_numbers": 1.0,
    }
    assert report["ran"] > 60


def test_the_gate_of_that_repository_is_red_where_a_result_is_lost(installed, repository):
    folder = repository("gate-a-harness")
    program = folder / "bin" / "notes-agent"
    program.write_text(program.read_text().replace("for use in uses]", "for use in uses[-1:]]"))
    gate = installed("pytest", *command_of(folder / "README.md"), "--scenario=parallel_calls", cwd=folder)
    assert gate.returncode == 1, gate.stdout + gate.stderr
    assert "PAR-00" in gate.stdout


def test_a_repository_tests_its_agent_with_the_fixtures(environment, dist, repository):
    folder = repository("test-an-agent")
    done = environment(dist.wheel, folder)("pytest", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "8 passed" in done.stdout


def test_a_repository_judges_its_own_proxy(environment, dist, repository):
    folder = repository("judge-a-proxy")
    run = environment(f"{dist.wheel}[wire]", "pytest-xdist", folder)
    own = run("pytest", cwd=folder)
    assert own.returncode == 0, own.stdout + own.stderr
    judged = run("pytest", *command_of(folder / "README.md"), cwd=folder)
    assert judged.returncode == 0, judged.stdout + judged.stderr
    report = json.loads((folder / ".harness" / "report" / "wire.json").read_text())
    assert report["versions"]["ledger-proxy"] == "0.1.0"
    assert report["ok"]
    assert report["ran"] >= 72


def test_a_seam_of_the_table_is_judged_outside_the_checkout(installed, tmp_path):
    done = installed("pytest", "--harness=pi", "--scenario=edit_file", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rollout pi-in-local-edit_file: " in done.stdout
    assert str(ROOT) not in done.stdout


def test_so_it_is_from_the_sdist_where_the_commands_work_too(environment, dist, tmp_path):
    run = environment(dist.sdist)
    done = run("pytest", "--harness=pi", "--scenario=edit_file", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rollout pi-in-local-edit_file: " in done.stdout
    judged = run("harness-conformance", "judge", ".harness/evidence", cwd=tmp_path)
    assert judged.returncode == 0, judged.stdout + judged.stderr
