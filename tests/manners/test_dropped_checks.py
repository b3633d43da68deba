"""A check of the bundled suite that a run did not come to is told, whoever took it away, and where a verdict is required it is no pass."""

from __future__ import annotations

import pytest

from pytest_harness.resources import resource

STORED = resource("fixtures", "evidence") / "pi" / "local" / "scripted" / "explore"
DROPS_AND_SKIPS = """
import pytest
def pytest_collection_modifyitems(items):
    items[:] = [item for item in items if "PAR-003" not in item.nodeid]
    for item in items:
        if "PAR-006" in item.nodeid:
            item.add_marker(pytest.mark.skip(reason="flaky here"))
"""
SHADOWS = """
import pytest
@pytest.fixture
def settle():
    return lambda evidence, requirement: None
"""
OWN = "def test_own(harness_evidence): assert harness_evidence\n"


@pytest.fixture
def judge(tmp_path, run_pytest):
    def run(*arguments, conftest=""):
        (tmp_path / "conftest.py").write_text(conftest)
        (tmp_path / "pytest.ini").write_text("[pytest]\n")
        return run_pytest(tmp_path, "--replay", STORED, *arguments)

    return run


def told(done):
    return [line for line in done.stdout.splitlines() if "standard checks were not run" in line]


def test_a_run_of_the_whole_suite_says_nothing_of_the_kind(judge):
    done = judge()
    assert done.returncode == 0, done.stdout
    assert told(done) == []


def test_what_a_host_takes_out_of_the_collection_or_skips_is_named_and_no_pass_where_a_verdict_is_required(judge):
    done = judge("--require=validated", conftest=DROPS_AND_SKIPS)
    assert done.returncode == 1
    [line] = told(done)
    assert line.startswith("--require validated: 2 of ")
    assert "1 not collected, or taken away without a word (test_requirement[pi-in-local-explore-PAR-003])" in line
    assert "1 skipped, or ended without looking at the subject (test_requirement[pi-in-local-explore-PAR-006])" in line


def test_a_check_whose_fixture_a_host_replaces_is_named(judge):
    [line] = told(judge("-p", "conftest", "-k", "PAR", conftest=SHADOWS))
    assert "test_requirement[pi-in-local-explore-PAR-001]" in line


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "xdist"])
def test_what_was_deselected_is_counted(judge, workers):
    [line] = told(judge("-k", "PAR-003 or rollout", *workers))
    count, total = line.split(" of ")[0], line.split(" of ")[1].split()[0]
    assert int(total) - int(count) == 2
    assert line.endswith(f"{count} deselected")


def test_what_a_run_that_ended_early_did_not_reach_is_counted(judge):
    done = judge("-x", "--sabotage=nan_logprob")
    assert done.returncode == 1
    assert told(done)[0].endswith("not reached before the run ended")


def test_paths_that_are_named_instead_of_the_suite_drop_all_of_it(judge, tmp_path):
    (tmp_path / "test_own.py").write_text(OWN)
    done = judge("test_own.py")
    [line] = told(done)
    count = line.split(" of ")[0]
    assert line.startswith(f"{count} of {count} standard checks were not run: {count} not collected")
    assert judge("test_own.py", "--require=validated").returncode == 1


def test_collecting_alone_drops_nothing(judge):
    done = judge("--collect-only", "-q", "--require=validated")
    assert done.returncode == 0
    assert told(done) == []


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "xdist"])
def test_a_test_of_another_suite_that_is_taken_away_is_named_too(tmp_path, run_pytest, workers):
    (tmp_path / "conftest.py").write_text(
        "def pytest_collection_modifyitems(items):\n    items[:] = [item for item in items if 'concurrent_workers' in item.nodeid]\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = run_pytest(tmp_path, "--runtime=bundled", *workers)
    [line] = told(done)
    assert "not collected, or taken away without a word (test_" in line


def test_paths_that_are_named_instead_of_another_suite_are_told(tmp_path, run_pytest):
    (tmp_path / "test_own.py").write_text("def test_own(): pass\n")
    done = run_pytest(tmp_path, "--proxy=bundled", "test_own.py")
    assert "none of the standard checks of a capture proxy was collected; name no paths to run them" in done.stdout
