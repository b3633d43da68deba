"""Names that stand for several rows: ``all`` and ``fast``."""

from __future__ import annotations

import pytest

from pytest_harness.scenarios import ScenarioTable
from pytest_harness.seams import SeamTable
from pytest_harness.session.choice import FAST_SCENARIO

ROLLOUT = "::test_rollout["


def collected(run_pytest, folder, *arguments):
    """The rollouts of a run that only collects."""
    done = run_pytest(folder, "--collect-only", "-q", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return [line.partition(ROLLOUT)[2].removesuffix("]") for line in done.stdout.splitlines() if ROLLOUT in line]


def test_the_fast_tier_is_one_scenario_of_each_row_that_is_fast(tmp_path, run_pytest):
    table = SeamTable.load()
    fast = [name for name in table if table[name].fast]
    assert collected(run_pytest, tmp_path, "--harness=fast") == [f"{name}-in-local-{FAST_SCENARIO}" for name in fast]


def test_a_named_harness_beside_the_fast_tier_runs_all_of_its_scenarios(tmp_path, run_pytest):
    rollouts = collected(run_pytest, tmp_path, "--harness=fast", "--harness=pi")
    assert {each for each in rollouts if each.startswith("pi-in-")} == {f"pi-in-local-{name}" for name in SeamTable.load()["pi"].scenarios}


def test_on_a_real_engine_only_the_full_matrix_has_the_faults_that_we_play(tmp_path, run_pytest):
    scenarios, declared = ScenarioTable.load(), SeamTable.load()["pi"].scenarios
    real = ("--harness=pi", "--engine=vllm", "-k", "test_rollout")
    without = [f"pi-in-local-{name}" for name in declared if not scenarios[name].faults]
    assert collected(run_pytest, tmp_path, *real) == without
    assert collected(run_pytest, tmp_path, *real, "--full-matrix") == [f"pi-in-local-{name}" for name in declared] != without
    assert collected(run_pytest, tmp_path, *real, "--scenario=cut_call") == ["pi-in-local-cut_call"]


ONE_TEST_EACH = ("--harness=all", "--scenario=explore", "-k", "test_rollout")


@pytest.fixture(scope="module")
def anyway(tmp_path_factory, run_pytest):
    """The rollouts of all rows, without a word about the matrix."""
    return collected(run_pytest, tmp_path_factory.mktemp("anyway"), *ONE_TEST_EACH)


@pytest.mark.parametrize("option", ["--full-matrix", "--conformance-full-matrix"])
def test_the_full_matrix_of_one_sandbox_is_what_runs_anyway(tmp_path, run_pytest, anyway, option):
    assert collected(run_pytest, tmp_path, *ONE_TEST_EACH, option) == anyway != []
