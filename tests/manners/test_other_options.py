"""A conformance run obeys pytest's own options, and the plugins that hosts have, as any other run does."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from pytest_harness.resources import resource

STORED = resource("fixtures", "evidence") / "pi" / "local" / "scripted" / "explore"


def test_collecting_alone_lists_the_tests_and_writes_nothing(tmp_path, run_pytest):
    done = run_pytest(tmp_path, "--replay", STORED, "--collect-only", "-q")
    assert done.returncode == 0, done.stdout
    listed = [line for line in done.stdout.splitlines() if "::test_" in line]
    assert listed[0].endswith("::test_rollout[pi-in-local-explore]")
    assert f"{len(listed)} tests collected" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_mark_that_no_test_has_leaves_nothing_to_judge(tmp_path, run_pytest):
    done = run_pytest(tmp_path, "--replay", STORED, "-m", "skip")
    assert done.returncode == 5
    assert re.search(r"(\d+) of \1 standard checks were not run: \1 deselected", done.stdout)


@pytest.mark.parametrize("subject", ["proxy", "runtime"])
def test_the_mark_of_a_suite_is_registered(tmp_path, run_pytest, subject):
    done = run_pytest(tmp_path, f"--{subject}=bundled", "--strict-markers", "--markers")
    assert done.returncode == 0, done.stdout
    assert "@pytest.mark.requirement(id): the requirement of a " in done.stdout


def test_last_failed_runs_again_what_failed(tmp_path):
    """With the cache, which the other tests do without."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}

    def run(*arguments):
        command = [sys.executable, "-m", "pytest", "--replay", str(STORED), "--sabotage=nan_logprob", "-q", *arguments]
        return subprocess.run(command, cwd=tmp_path, env=clean, capture_output=True, text=True, check=False)

    first = run("-k", "LGP")
    failed = int(re.search(r"(\d+) failed", first.stdout)[1])
    again = run("--lf")
    assert again.returncode == 1
    assert re.search(r"(\d+) failed", again.stdout)[1] == str(failed)
    assert "passed" not in again.stdout.splitlines()[-1]


def test_a_strict_host_in_asyncios_auto_mode_has_its_own_coroutines_beside_a_rollouts_evidence(tmp_path, run_pytest):
    (tmp_path / "test_own.py").write_text(
        "import asyncio\n"
        "async def test_own(harness_evidence):\n"
        "    await asyncio.sleep(0)\n"
        "    folder, evidence = harness_evidence\n"
        "    assert len(evidence.calls) > 1\n"
    )
    strict = ("--strict-markers", "--strict-config", "-W", "error", "-o", "asyncio_default_fixture_loop_scope=function")
    done = run_pytest(tmp_path, "--replay", STORED, "test_own.py", "-o", "asyncio_mode=auto", *strict)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
    assert "standard checks were not run" in done.stdout
