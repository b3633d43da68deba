"""What is found in a real sandbox between the agent's end and the verifier's start, in real trials of Harbor."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from harbor.models.trial.config import AgentConfig, EnvironmentConfig

from pytest_harness.evidence import Grading
from pytest_harness.rollouts.aftermath import Aftermath, kept
from pytest_harness.rollouts.player import is_gone
from pytest_harness.rollouts.trial import run_trial
from pytest_harness.sandboxes.bubblewrap import Sandbox
from pytest_harness.sandboxes.local import LOCAL_SANDBOX

pytestmark = pytest.mark.filterwarnings("ignore")  # Harbor's own; a rollout does not hear them either

KEY = "sk-hc-" + hashlib.sha256(b"a key of a test").hexdigest()
ADDRESS = "127.0.0.1:8555"

TASK = """
schema_version = "1.4"
[task]
name = "tests/aftermath"
[environment]
env = {{ {environment} }}
[verifier]
env = {{ {verifier} }}
"""


def said(work: Path) -> str:
    """What the verifier printed."""
    path = work / "trial" / "verifier" / "test-stdout.txt"
    return path.read_text() if path.exists() else ""


@pytest.fixture
def graded(tmp_path, monkeypatch):
    """Runs one trial with this solution as its agent, and gives what was found and what the verifier wrote."""
    monkeypatch.setenv("HARBOR_TELEMETRY", "0")
    monkeypatch.setenv("OPENAI_API_KEY", "the operators")

    async def run(
        solution: str, *, tests: str = "echo 1 >/logs/verifier/reward.txt", environment: str = "", verifier: str = ""
    ) -> tuple[Grading | None, str]:
        task, work = tmp_path / "task", tmp_path / "work"
        files = {"instruction.md": "Do it.", "task.toml": TASK.format(environment=environment, verifier=verifier)}
        files |= {
            "solution/solve.sh": f"#!/bin/bash\n{solution}\n",
            "tests/test.sh": f"#!/bin/bash\n{tests}\n",
            "environment/Dockerfile": "",
        }
        for name, text in files.items():
            (task / name).parent.mkdir(parents=True, exist_ok=True)
            (task / name).write_text(text)
        work.mkdir()
        aftermath = Aftermath(work=work, secret=KEY, address=ADDRESS)
        ending = await run_trial(
            agent=AgentConfig(name="oracle", env={"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"http://{ADDRESS}/v1"}),
            task=task,
            sandbox=EnvironmentConfig(import_path=LOCAL_SANDBOX),
            work=work,
            native_log=None,
            aftermath=aftermath,
        )
        assert ending.how == "finished", ending
        return aftermath.grading(), said(work)

    return run


async def test_an_agent_that_ends_leaves_nothing_and_its_verifier_writes_the_reward(graded):
    grading, _ = await graded("true")
    assert (grading.running, grading.survivors, grading.seam_variables, grading.key_in_files) == ((), (), (), ())
    assert grading.began - 0.1 <= grading.reward_written <= grading.began + 60


async def test_a_daemon_is_found_by_its_name_and_ended_before_anything_is_graded(graded):
    grading, seen = await graded("setsid sleep 1000 >/dev/null 2>&1 &", tests="cat /proc/[0-9]*/comm; echo 1 >/logs/verifier/reward.txt")
    assert (grading.running, grading.survivors) == (("sleep",), ())
    assert "sleep" not in seen.split()


async def test_the_grader_gets_its_operators_key_and_nothing_of_the_seam(graded):
    """verifiers pull 1126: the proxy's base URL leaked into the verifier."""
    tests = '[ "$OPENAI_API_KEY" = "the operators" ] && echo "own, and [$OPENAI_BASE_URL]"; echo 1 >/logs/verifier/reward.txt'
    grading, seen = await graded("true", tests=tests, verifier='OPENAI_API_KEY = "${OPENAI_API_KEY}"')
    assert seen.strip() == "own, and []"
    assert grading.own_variables == {"OPENAI_API_KEY": True}
    assert "OPENAI_API_KEY" in grading.variables
    assert "OPENAI_BASE_URL" not in grading.variables
    assert grading.seam_variables == ()


async def test_a_variable_of_the_seam_that_all_processes_get_is_found(graded):
    grading, _ = await graded("true", environment=f'SOME_URL = "http://{ADDRESS}"')
    assert grading.seam_variables == ("SOME_URL",)


async def test_a_printed_key_is_found_before_it_is_redacted(graded):
    grading, _ = await graded('echo "my key is $OPENAI_API_KEY" >/logs/agent/debug.log')
    assert grading.key_in_files == ("trial/agent/debug.log",)


async def test_a_reward_that_the_agent_planted_is_not_the_verifiers(graded):
    """dawn issue 14: a reward file that the agent had planted won over the verifier's."""
    grading, _ = await graded("echo 1 >/logs/verifier/reward.txt", tests="true")
    assert grading.reward_written is None


def test_a_variable_with_another_value_is_not_kept():
    assert kept({"A": "1", "B": "2", "C": "3"}, {"A": "1", "B": "other"}) == {"A": True, "B": False, "C": False}


def test_a_sandbox_that_still_runs_is_noticed_and_ended():
    sandbox = Sandbox.start()
    assert [is_gone(sandbox), is_gone(sandbox)] == [False, True]
