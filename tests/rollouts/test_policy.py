"""Which rollouts the bundled policy follows by itself, and that all others are steered."""

from __future__ import annotations

import dataclasses

import pytest

from pytest_harness.engines.scripted import Script, Step
from pytest_harness.resources import resource
from pytest_harness.rollouts.engines import SharedEngine, engine_of
from pytest_harness.rollouts.policy import follows
from pytest_harness.scenarios import ScenarioTable
from pytest_harness.seams import SeamTable

SCENARIOS, SEAMS = ScenarioTable.load(), SeamTable.load()
LARGEST = 2_000_000


@pytest.mark.parametrize("harness", ["pi", "mini-swe-agent"])
@pytest.mark.parametrize("scenario", ["edit_file", "explore", "parallel_calls", "rate_limited", "server_error", "no_verdict"])
def test_what_it_was_taught_it_follows_in_the_version_that_the_row_pins(harness, scenario):
    assert follows(harness, SEAMS[harness].version, SCENARIOS[scenario])


def test_a_wrong_answer_to_the_same_task_is_steered():
    assert not follows("pi", SEAMS["pi"].version, SCENARIOS["wrong_answer"])


@pytest.mark.parametrize(("harness", "version"), [("pi", "0.0.1"), ("codex", SEAMS["codex"].version)])
def test_another_harness_and_another_version_are_steered(harness, version):
    assert not follows(harness, version, SCENARIOS["edit_file"])


def test_another_task_and_other_commands_are_steered(tmp_path):
    (tmp_path / "instruction.md").write_text("Do something else.")
    scenario = SCENARIOS["edit_file"]
    assert not follows("pi", SEAMS["pi"].version, dataclasses.replace(scenario, task=tmp_path))
    assert not follows("pi", SEAMS["pi"].version, dataclasses.replace(scenario, steps=scenario.steps[1:]))


@pytest.mark.parametrize(("policy", "taught", "steered"), [(True, True, False), (True, False, True), (False, True, True)])
def test_only_the_policy_is_told_nothing_and_only_where_it_was_taught(policy, taught, steered, tmp_path):
    log = tmp_path / "log"
    log.touch()
    shared = SharedEngine("http://127.0.0.1:9", None, "m", str(log), {}, {}, policy=policy)
    assert SharedEngine.from_json(shared.to_json()) == shared
    with engine_of(Script((Step("Hi."),)), shared, salt="", taught=taught) as engine:
        assert (engine.steer is not None) == steered


def test_what_is_shipped_is_small():
    sizes = [path.stat().st_size for path in resource("fixtures", "policy").rglob("*") if path.is_file()]
    assert sum(sizes) < LARGEST
