"""The bundled data tasks are Harbor tasks that their solutions solve, whose data comes with the healthcheck, and that share one grader."""

import shutil
import sys
from collections import Counter
from pathlib import Path

import pytest
from harbor.models.task.task import Task
from harbor.models.trial.config import EnvironmentConfig
from harbor.models.trial.result import TrialResult

from pytest_harness.sandboxes.local import LOCAL_SANDBOX

sys.path.insert(0, str(Path(__file__).parent))

import on_backends
from on_backends import FOLDER, TASKS

# Harbor warns of a property that it uses itself
pytestmark = pytest.mark.filterwarnings("ignore:Task.checksum will be deprecated:DeprecationWarning")


LOCAL = EnvironmentConfig(import_path=LOCAL_SANDBOX)


def play(task: Path, work: Path, agent: str = "oracle") -> TrialResult:
    """One trial of the task in the local sandbox; its folder is ``work/one``."""
    return on_backends.play(task, work, LOCAL, agent)


@pytest.fixture
def altered(tmp_path, monkeypatch):
    """A task with other files."""
    monkeypatch.setenv("HARBOR_TELEMETRY", "0")

    def alter(name: str, **files: str) -> Path:
        task = shutil.copytree(FOLDER / name, tmp_path / "task")
        for path, text in files.items():
            (task / path.replace("__", "/").replace("_", ".")).write_text(text)
        return task

    return alter


def solved_by(text: str) -> dict[str, str]:
    return {"solution__solve_sh": f"#!/bin/bash\n{text}\n"}


def test_there_are_tasks_of_every_kind_of_answer_and_of_three_levels(grader):
    metadata = [Task(task).config.metadata for task in TASKS]
    expected = [grader.read_expected(task / "tests" / "expected.json") for task in TASKS]
    assert len(TASKS) >= 12
    assert [each["answer"] for each in metadata] == [each.kind for each in expected]
    assert {each.kind for each in expected} == set(grader.COMPARISONS)
    assert set(Counter(each["difficulty"] for each in metadata)) == {"easy", "medium", "hard"}


def test_what_the_tasks_share_is_the_same_in_each(maker):
    copies = maker.copies()
    assert len(copies) == 3 * len(TASKS)
    for copy, original in copies.items():
        assert copy.read_bytes() == original.read_bytes(), f"{copy} differs; run python fixtures/tasks/data/make.py"
        assert copy.stat().st_mode == original.stat().st_mode, copy


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_the_solution_solves_the_task_from_the_data_that_the_healthcheck_brought(task, tmp_path, monkeypatch):
    monkeypatch.setenv("HARBOR_TELEMETRY", "0")
    result = play(task, tmp_path)
    assert result.exception_info is None
    assert result.verifier_result.rewards == {"reward": 1.0}


def test_no_answer_earns_0_as_a_valid_reward(altered, tmp_path):
    result = play(altered("count_shipped"), tmp_path, agent="nop")
    assert result.verifier_result.rewards == {"reward": 0.0}
    assert result.reward_valid
    assert (tmp_path / "one" / "verifier" / "reward.txt").read_text() == "0.0\n"


@pytest.mark.parametrize(
    "cheat",
    [
        "echo 18 > answer.txt",
        "ln -s /tests/expected.json answer.txt",
        "mkfifo answer.txt",
        "printf '#!/bin/sh\\necho 1.0\\n' > /usr/local/bin/python3; chmod +x /usr/local/bin/python3; echo 18 > answer.txt",
        "mkdir -p /tests; echo 'print(1.0)' > /tests/grade.py; echo 18 > answer.txt",
        "mkdir -p /tests; echo 'print(1.0); import os; os._exit(0)' > /tests/json.py; echo 18 > answer.txt",
        "echo 1 > /logs/verifier/reward.txt; echo '{\"reward\": 1}' > /logs/verifier/reward.json; echo 18 > answer.txt",
    ],
    ids=["guess", "link", "pipe", "python", "grader", "module", "reward"],
)
def test_a_cheat_earns_0(altered, tmp_path, cheat):
    result = play(altered("count_shipped", **solved_by(cheat)), tmp_path)
    assert result.exception_info is None
    assert result.verifier_result.rewards == {"reward": 0.0}


def test_a_grader_that_fails_gives_no_reward_which_is_not_0(altered, tmp_path):
    result = play(altered("count_shipped", tests__expected_json="{}"), tmp_path)
    assert result.verifier_result is None
    assert result.exception_info.exception_type == "RewardFileNotFoundError"


def test_data_that_does_not_come_is_no_wrong_answer(altered, tmp_path):
    task = altered("count_shipped")
    config = (
        (task / "task.toml")
        .read_text()
        .replace("mkdir -p data &&", "mkdir -p /proc/data &&")
        .replace("interval_sec = 1.0", "interval_sec = 0.0")
    )
    (task / "task.toml").write_text(config)
    result = play(task, tmp_path)
    assert result.verifier_result is None
    assert result.exception_info.exception_type == "HealthcheckError"
