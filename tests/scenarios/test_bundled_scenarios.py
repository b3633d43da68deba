"""The bundled scenarios are valid Harbor tasks, and their scripts earn exactly the reward that they declare."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from harbor.models.task.config import TaskConfig
from harbor.models.task.task import Task

from pytest_harness.resources import resource
from pytest_harness.scenarios import ScenarioTable

SCENARIOS = ScenarioTable.load()
TASKS = sorted(path for path in resource("fixtures", "tasks").iterdir() if path.is_dir())


def run(script: str, root: Path) -> None:
    """Run a shell script with Harbor's absolute paths moved below ``root``."""
    moved = re.sub(r"(?<!\w)/(app|logs)\b", rf"{root}/\1", script)
    subprocess.run(["bash", "-c", moved], cwd=root / "app", check=False, capture_output=True)


def verify(task: Path, root: Path) -> float | None:
    """What the task's verifier writes."""
    run((task / "tests" / "test.sh").read_text(), root)
    reward = root / "logs" / "verifier" / "reward.txt"
    return float(reward.read_text()) if reward.exists() else None


@pytest.fixture
def root(tmp_path):
    (tmp_path / "app").mkdir()
    (tmp_path / "logs" / "verifier").mkdir(parents=True)
    return tmp_path


def test_the_nine_scenarios_are_there():
    assert {name: SCENARIOS[name].reward for name in SCENARIOS} == {
        "cut_call": 1.0,
        "cut_text": 1.0,
        "edit_file": 1.0,
        "explore": 1.0,
        "no_verdict": None,
        "parallel_calls": 1.0,
        "rate_limited": 1.0,
        "server_error": 1.0,
        "wrong_answer": 0.0,
    }
    assert {SCENARIOS[name].task for name in SCENARIOS} == set(TASKS)
    assert SCENARIOS["explore"].facts.steps == 4
    assert len(SCENARIOS["parallel_calls"].steps[0].shell) == 2


@pytest.mark.parametrize("name", list(SCENARIOS))
def test_the_script_earns_the_reward_that_the_scenario_declares(name, root):
    each = SCENARIOS[name]
    for step in each.steps:
        for command in step.shell:
            run(command, root)
    assert verify(each.task, root) == each.reward


def test_four_scenarios_have_one_fault_of_the_engine_each_and_no_long_wait():
    faults = {name: SCENARIOS[name].faults for name in SCENARIOS if SCENARIOS[name].faults}
    assert {name: [(fault.kind, fault.status, fault.turn) for fault in each] for name, each in faults.items()} == {
        "cut_call": [("cut", None, 1)],
        "cut_text": [("cut", None, 2)],
        "rate_limited": [("error", 429, 2)],
        "server_error": [("error", 500, 1)],
    }
    assert all((fault.times, fault.retry_after or 0) <= (1, 1) for each in faults.values() for fault in each)


@pytest.mark.parametrize("name", list(SCENARIOS))
def test_only_the_first_command_of_explore_fails(name, root):
    codes = [
        subprocess.run(["sh", "-c", command], cwd=root / "app", check=False, capture_output=True).returncode
        for step in SCENARIOS[name].steps
        for command in step.shell
    ]
    assert [bool(code) for code in codes] == ([True, False, False] if name == "explore" else [False] * len(codes))


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_the_verifier_tells_the_solution_from_nothing(task, root):
    silent = task.name == "no_verdict"
    assert verify(task, root) == (None if silent else 0.0)
    shutil.rmtree(root / "logs" / "verifier")
    (root / "logs" / "verifier").mkdir()
    run((task / "solution" / "solve.sh").read_text(), root)
    assert verify(task, root) == (None if silent else 1.0)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_harbor_loads_the_task_and_reads_every_key_of_it(task):
    loaded = Task(task)
    assert loaded.config.schema_version == "1.4"
    assert loaded.config.environment.workdir == "/app"
    assert loaded.instruction.strip()
    assert "WORKDIR /app\n" in (task / "environment" / "Dockerfile").read_text()
    written = TaskConfig.model_validate_toml((task / "task.toml").read_text())
    assert written.agent.timeout_sec == 60.0
    assert written.verifier.timeout_sec == 20.0
    for script in ("solution/solve.sh", "tests/test.sh"):
        assert (task / script).stat().st_mode & 0o111
