"""What episodes took, and who solved what: absent is never zero, missing is never failed, and what was graded stands."""

from __future__ import annotations

import io
import itertools
import json
from dataclasses import replace

import pytest
from rich.console import Console

from pytest_harness.saboteurs import surgery
from pytest_harness.training import account, evaluation_table
from pytest_harness.training.accounting import Prices
from pytest_harness.training.telling import print_accounts

SUBJECT = "pi 1.6.0 in local on scripted"


def rewarded(evidence, reward, *, ended="2026-12-01T00:00:00+00:00", number=1, mark="one"):
    """The evidence with another reward, None for no verdict, at another moment."""
    result = json.loads(evidence.files["trial/result.json"])
    result["verifier_result"] = None if reward is None else {"rewards": {"reward": reward}}
    result["reward_valid"] = reward is not None
    files = {**evidence.files, "trial/result.json": json.dumps(result)}
    scenario = evidence.manifest.scenario.model_copy(update={"reward": None})
    changed = replace(evidence, files=files)
    return surgery.with_manifest(changed, ended_at=ended, attempt=number, attempt_id=mark, scenario=scenario, versions=VERSIONS)


VERSIONS = {"harness": "1.6.0"}


def test_an_account_counts_what_is_in_the_evidence(healthy):
    evidence = healthy.pi()
    (one,) = account([evidence, evidence], Prices(1.0, 10.0))
    calls = evidence.calls
    assert (one.episodes, one.calls, one.turns, one.side_calls, one.graded, one.solved) == (1, len(calls), len(calls), 0, 1, 1)
    assert one.prompt_tokens == sum(len(call.prompt_ids) for call in calls)
    assert one.sampled_tokens == sum(len(call.samples[0].token_ids) for call in calls)
    assert one.cost == pytest.approx((one.prompt_tokens + 10 * one.sampled_tokens) / 1e6)
    assert one.cost_per_solved == one.cost
    assert one.tokens_per_solved == one.prompt_tokens + one.sampled_tokens
    assert one.truncated_share == 0.0


def test_what_failed_is_paid_by_what_was_solved(healthy):
    solved, failed = rewarded(healthy.pi(), 1.0, mark="a"), rewarded(healthy.pi(), 0.0, mark="b", number=2)
    (both,) = account([solved, failed])
    (alone,) = account([solved])
    assert both.tokens_per_solved == 2 * alone.tokens_per_solved
    (none,) = account([failed])
    assert none.tokens_per_solved is None


def test_tokens_that_are_not_known_are_not_zero(healthy):
    evidence = healthy.pi()
    calls = (evidence.calls[0].model_copy(update={"prompt_ids": None}), *evidence.calls[1:])
    (one,) = account([replace(evidence, calls=calls)], Prices(1.0, 1.0))
    assert one.uncounted == 1
    assert (one.tokens, one.cost, one.tokens_per_solved, one.cost_per_solved) == (None, None, None, None)


def test_without_prices_and_without_replies_there_is_no_number(healthy):
    (one,) = account([replace(healthy.pi(), calls=())])
    assert (one.cost, one.truncated_share, one.invalid) == (None, None, 1)


def test_side_calls_and_cut_replies_are_counted_apart(healthy):
    evidence = healthy.pi()
    side = surgery.edit_request(evidence.calls[-1], lambda body: body.pop("tools"))
    cut = side.model_copy(update={"samples": (side.samples[0].model_copy(update={"finish_reason": "length"}),)})
    (one,) = account([replace(evidence, calls=(*evidence.calls[:-1], cut))])
    assert (one.side_calls, one.turns) == (1, len(evidence.calls) - 1)
    assert one.truncated_share == 1 / len(evidence.calls)


def test_a_cell_that_nobody_ran_is_missing_and_in_no_mean(healthy):
    pi, mini = rewarded(healthy.pi(), 0.0), rewarded(healthy.mini(scenario="explore"), 1.0, mark="other")
    table = evaluation_table([pi, mini])
    assert table.scenarios == ("edit_file", "explore")
    assert (table.cell(SUBJECT, "edit_file").state, table.cell(SUBJECT, "edit_file").mean) == ("graded", 0.0)
    missing = table.cell(SUBJECT, "explore")
    assert (missing.state, missing.mean, str(missing)) == ("missing", None, "missing")
    assert (table.mean(SUBJECT), table.coverage(SUBJECT)) == (0.0, (1, 2))


def test_what_ran_and_was_not_graded_is_neither_missing_nor_zero(healthy):
    cell = evaluation_table([rewarded(healthy.pi(), None)]).cell(SUBJECT, "edit_file")
    assert (cell.state, cell.mean, cell.attempts) == ("ungraded", None, 1)


TRIES = ((None, "2026-12-01"), (0.0, "2026-12-02"), (1.0, "2026-12-03"))


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_graded_zero_is_not_replaced_by_a_later_try_in_whatever_order_they_are_read(healthy, order):
    tries = [rewarded(healthy.pi(), TRIES[index][0], ended=TRIES[index][1], mark=str(index)) for index in order]
    cell = evaluation_table(tries).cell(SUBJECT, "edit_file")
    assert (cell.attempts, cell.rewards) == (1, (0.0,))


def test_another_attempt_is_no_try_of_the_first(healthy):
    both = [rewarded(healthy.pi(), 0.0, mark="a"), rewarded(healthy.pi(), 1.0, number=2, mark="b")]
    assert str(evaluation_table(both).cell(SUBJECT, "edit_file")) == "0.5 (2)"


def test_a_scenario_that_is_declared_and_was_never_run_is_missing_and_counts_in_the_coverage(healthy):
    evidence = healthy.pi()
    seam = evidence.manifest.seam.model_copy(update={"scenarios": ("edit_file", "explore")})
    table = evaluation_table([surgery.with_manifest(evidence, seam=seam)])
    assert (table.scenarios, table.never_run) == (("edit_file", "explore"), ("explore",))
    assert (table.cell(SUBJECT, "explore").state, table.mean(SUBJECT), table.coverage(SUBJECT)) == ("missing", 1.0, (1, 2))
    told = io.StringIO()
    print_accounts((), table, Console(file=told, width=160))
    assert "declared, and run by nobody: explore\n" in told.getvalue()
