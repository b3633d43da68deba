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
TASKS = sorted(path.parent for path in resource("fixtures", "tasks").glob("*/task.toml"))


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


def test_the_scenarios_are_there():
    rewards = {name: SCENARIOS[name].reward for name in SCENARIOS}
    assert set(rewards) == {
        *("budget_stop", "compaction", "context_overflow", "cut_by_length", "cut_call", "cut_text", "edit_file", "empty_reply", "explore"),
        *("failing_parallel_call", "long_session", "malformed_arguments", "no_verdict", "parallel_calls", "rate_limited"),
        *("reasoning_with_call", "server_error", "split_unicode", "subagent", "text_around_call", "two_at_once", "unknown_tool"),
        *("write_file", "wrong_answer"),
    }
    assert {name: reward for name, reward in rewards.items() if reward != 1.0} == {"no_verdict": None, "wrong_answer": 0.0}
    assert {SCENARIOS[name].task for name in SCENARIOS} == set(TASKS)
    assert (SCENARIOS["explore"].facts.steps, SCENARIOS["long_session"].facts.steps) == (4, 40)
    assert len(SCENARIOS["parallel_calls"].steps[0].shell) == 2


def test_a_harness_is_free_only_where_the_model_the_engine_or_the_session_gives_out():
    free = {
        name: (SCENARIOS[name].turns, SCENARIOS[name].may_fail) for name in SCENARIOS if SCENARIOS[name].turns or SCENARIOS[name].may_fail
    }
    assert free == {
        "budget_stop": ((1, 4), True),
        "compaction": ((3, 9), False),
        "context_overflow": ((1, 8), True),
        "cut_by_length": ((2, 4), True),
        "empty_reply": ((2, 3), False),
        "malformed_arguments": ((3, 4), False),
        "unknown_tool": ((3, 4), False),
    }
    assert [name for name in SCENARIOS if SCENARIOS[name].facts.splits] == ["reasoning_with_call", "text_around_call"]


def test_a_scenario_that_only_some_rows_can_play_says_what_it_needs():
    assert {name: SCENARIOS[name].needs for name in SCENARIOS if SCENARIOS[name].needs} == {
        **dict.fromkeys(("cut_by_length", "malformed_arguments", "reasoning_with_call", "unknown_tool"), "tools"),
        "compaction": "compaction",
        "subagent": "subagent",
        "write_file": "edit",
    }


@pytest.mark.parametrize("name", list(SCENARIOS))
def test_the_script_earns_the_reward_that_the_scenario_declares(name, root):
    each = SCENARIOS[name]
    for step in each.steps:
        for command in step.shell:
            run(command, root)
        for path, content in step.files:
            (root / "app" / path).write_text(content)
    assert verify(each.task, root) == each.reward


def test_nine_scenarios_have_one_fault_of_the_engine_each_and_no_long_wait():
    faults = {name: SCENARIOS[name].faults for name in SCENARIOS if SCENARIOS[name].faults}
    assert {name: [(fault.kind, fault.status, fault.turn) for fault in each] for name, each in faults.items()} == {
        "context_overflow": [("overflow", None, 2)],
        "cut_by_length": [("length", None, 2)],
        "cut_call": [("cut", None, 1)],
        "cut_text": [("cut", None, 2)],
        "empty_reply": [("empty", None, 2)],
        "malformed_arguments": [("malformed", None, 1)],
        "rate_limited": [("error", 429, 2)],
        "server_error": [("error", 500, 1)],
        "unknown_tool": [("unknown_tool", None, 1)],
    }
    assert all((fault.times, fault.retry_after or 0) <= (1, 1) for each in faults.values() for fault in each)


@pytest.mark.parametrize("name", list(SCENARIOS))
def test_only_the_first_commands_of_explore_and_failing_parallel_call_fail(name, root):
    codes = [
        subprocess.run(["sh", "-c", command], cwd=root / "app", check=False, capture_output=True).returncode
        for step in SCENARIOS[name].steps
        for command in step.shell
    ]
    fails = name in ("explore", "failing_parallel_call")
    assert [number for number, code in enumerate(codes) if code] == ([0] if fails else [])


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
