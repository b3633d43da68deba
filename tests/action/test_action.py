"""The example workflow that gates a seam row, and our action in it, run here step by step on a repository with a new row."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOW = ROOT / "examples" / "workflows" / "gate-a-seam.yml"
GH = """#!/bin/sh
echo "$@" >>"$GH_LOG"
[ -z "$GH_FAILS" ] || exit 1
case "$*" in
*--jq*) [ -z "$GH_FOUND" ] || echo "$GH_FOUND" ;;
*body=@*) cat "${*##*body=@}" >>"$GH_LOG" ;;
esac
"""


def load_job():
    spec = importlib.util.spec_from_file_location("workflow_steps", Path(__file__).with_name("workflow_steps.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Job


@pytest.fixture
def repository(tmp_path):
    """A repository in which the last commit adds a row; and what it takes to run its workflow."""
    folder, tools = tmp_path / "repository", tmp_path / "tools"
    shutil.copytree(ROOT / "examples" / "own-harness", folder)
    tools.mkdir()
    for name, text in (("gh", GH), ("sudo", '#!/bin/sh\necho "sudo $*" >>"$GH_LOG"\n')):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    row = folder / "seams" / "tiny-agent.toml"
    text = row.read_text()
    row.unlink()
    (folder / "expected-failures.toml").write_text("")
    git = ["git", "-c", "user.name=nobody", "-c", "user.email=nobody@example.org"]

    def commit(message):
        subprocess.run([*git, "add", "--all"], cwd=folder, check=True)
        subprocess.run([*git, "commit", "--quiet", "--message", message], cwd=folder, check=True)
        return subprocess.run([*git, "rev-parse", "HEAD"], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()

    subprocess.run([*git, "init", "--quiet"], cwd=folder, check=True)
    base = commit("base")

    def run(change=lambda text: text, **env):
        row.write_text(change(text))
        commit("a row")
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "PYTEST_"))}
        path = f"{tools}:{os.environ['PATH']}"
        known = {
            "PATH": path,
            "GH_LOG": str(tmp_path / "log"),
            "RUNNER_TEMP": str(tmp_path),
            "GITHUB_REPOSITORY": "somebody/something",
            "GITHUB_SERVER_URL": "https://example.org",
            "GITHUB_RUN_ID": "7",
        }
        facts = {
            "github.token": "token",
            "github.event_name": "pull_request",
            "github.event.pull_request.base.sha": base,
            "github.event.pull_request.number": "5",
            "inputs.environment": sys.prefix,
        }
        job = load_job()(folder, clean | known | env, facts)
        job.run(yaml.safe_load(WORKFLOW.read_text())["jobs"]["gate"]["steps"])
        return job, (tmp_path / "log").read_text(), folder

    return run


def one_scenario(text):
    return text.replace('scenarios = ["edit_file", "explore", "parallel_calls", "wrong_answer", "no_verdict"]', 'scenarios = ["edit_file"]')


def test_a_new_row_is_really_run_and_its_matrix_commented(repository):
    job, log, folder = repository(one_scenario)
    assert job.code == 0, job.said
    assert "tiny-agent in local: 1 rollout, 1 graded; untested" in job.said
    assert (folder / ".harness" / "report" / "report.json").exists()
    assert "api --silent --method POST repos/somebody/something/issues/5/comments -F body=@" in log
    assert "<!-- harness-conformance: tiny-agent -->" in log
    assert "| tiny-agent in local |" in log
    assert "(pages/" not in log
    assert "https://example.org/somebody/something/actions/runs/7" in log


def test_a_row_that_does_not_load_makes_the_job_red_and_the_comment_says_so(repository):
    job, log, _ = repository(lambda text: text.replace("streams = false", 'streams = "sometimes"'), GH_FOUND="42")
    assert job.code == 4
    assert "streams" in job.said
    assert "--method PATCH repos/somebody/something/issues/comments/42" in log
    assert "came to no report" in log


def test_a_comment_that_cannot_be_written_is_a_warning_and_no_failure(repository):
    job, _, _ = repository(lambda text: text.replace("streams = false", 'streams = "sometimes"'), GH_FAILS="1")
    assert job.code == 4
    assert "::warning::the matrix could not be commented" in job.said


def test_every_input_reaches_a_step_and_no_expression_stands_in_a_script():
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    told = yaml.safe_dump(action["runs"]["steps"])
    assert [name for name in action["inputs"] if f"inputs.{name}" not in told] == []
    assert [step["name"] for step in action["runs"]["steps"] if "${{" in step.get("run", "")] == []
