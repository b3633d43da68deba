"""The plugin under other versions of pytest and beside the plugins that hosts have. Run by ``make examples``, because it installs."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "gate-a-harness"
STRICT = ("-p", "no:cacheprovider", "--strict-markers", "--strict-config", "-W", "error")
FREE = ("pytest", "pytest-xdist", "pytest-asyncio")
KINDS = {
    "oldest": ("pytest==8.3.0", "pytest-xdist==3.6.1"),
    "pytest 8": ("pytest<9", "pytest-xdist", "pytest-asyncio"),
    "newest": ("pytest", "pytest-xdist", "pytest-asyncio", "pytest-randomly", "pytest-rerunfailures", "pytest-timeout"),
}
ASYNCIO = {
    "oldest": (),
    "pytest 8": ("-o", "asyncio_default_fixture_loop_scope=function", "-o", "asyncio_mode=strict"),
    "newest": ("-o", "asyncio_default_fixture_loop_scope=function", "-o", "asyncio_mode=auto"),
}
HOST = """
import pytest
def test_passes(): pass
@pytest.mark.skip(reason="no")
def test_skips(): pass
"""


@pytest.fixture(scope="module", params=KINDS)
def run(request, environment, dist):
    """pytest in an environment of each kind."""
    made = environment(dist.wheel, *KINDS[request.param], free=FREE)
    return lambda *arguments, cwd: made("pytest", *arguments, *ASYNCIO[request.param], cwd=cwd)


@pytest.fixture(scope="module")
def newest(environment, dist):
    """One with all the plugins."""
    return environment(dist.wheel, *KINDS["newest"], free=FREE)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Evidence in which nothing is wrong."""
    bundled = Path(__file__).resolve().parents[2] / "fixtures" / "evidence" / "pi" / "local" / "scripted" / "explore"
    return shutil.copytree(bundled, tmp_path_factory.mktemp("stored") / "evidence")


def standings(folder):
    """How each requirement stands in the report of a replay, and how often it was judged."""
    report = json.loads((folder / ".harness" / "replay" / "report.json").read_text())
    return {each["id"]: (each["standing"], each["results"]) for seam in report["seams"] for each in seam["requirements"]}


def test_a_host_of_any_of_them_is_judged_strictly(run, stored, tmp_path):
    done = run("--replay", stored, *STRICT, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "standard checks were not run" not in done.stdout
    assert len(standings(tmp_path)) > 80


def test_so_it_is_over_workers(run, stored, tmp_path):
    done = run("--replay", stored, *STRICT, "-n", "2", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "standard checks were not run" not in done.stdout


def test_a_host_of_any_of_them_that_asks_for_nothing_sees_nothing(run, tmp_path):
    (tmp_path / "test_host.py").write_text(HOST)
    done = run(*STRICT, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed, 1 skipped" in done.stdout
    assert "conformance" not in re.sub(r"^plugins: .*$", "", done.stdout, flags=re.MULTILINE)


def test_the_order_of_the_tests_changes_nothing(newest, stored, tmp_path):
    seen = []
    for order in (("-p", "no:randomly"), ("--randomly-seed=1",)):
        done = newest("pytest", "--replay", stored, "--sabotage=nan_logprob", *order, cwd=tmp_path)
        assert done.returncode == 1, done.stdout + done.stderr
        seen.append(standings(tmp_path))
    assert seen[0] == seen[1]


def test_what_is_tried_again_is_counted_once_and_fails_again(newest, stored, tmp_path):
    once = newest("pytest", "--replay", stored, "--sabotage=nan_logprob", cwd=tmp_path)
    before = standings(tmp_path)
    again = newest("pytest", "--replay", stored, "--sabotage=nan_logprob", "--reruns=2", cwd=tmp_path)
    assert (once.returncode, again.returncode) == (1, 1), again.stdout
    assert re.search(r"[1-9]\d* rerun", again.stdout)
    assert standings(tmp_path) == before


def test_a_timeout_ends_a_rollout_once_and_every_test_of_it_says_so(newest, tmp_path):
    folder = shutil.copytree(EXAMPLE, tmp_path / "endless")
    program = folder / "bin" / "notes-agent"
    program.write_text(program.read_text().replace('use["input"]["command"]', '"sleep 1000"'))
    options = ("--harness=notes-agent", "--seams=seams", "--scenarios=scenarios", "--scenario=edit_file", "-k", "rollout or TOK-00")
    done = newest("pytest", *options, "--timeout=20", "-p", "no:asyncio", cwd=folder)
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.count("\nthe rollout was broken off: Timeout") == int(re.search(r"(\d+) errors", done.stdout)[1]) > 2
    assert "broken off: .harness/evidence/.running/notes-agent-in-local-edit_file" in done.stdout
