"""What several attempts show only together: one key for a scenario, one key for an attempt, and no mean over what was not given."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_harness.contract import ContractError, groups
from pytest_harness.reports.build import build_report
from pytest_harness.requirements import load_catalogue
from pytest_harness.saboteurs import apply
from pytest_harness.saboteurs.surgery import RESULT, edit_file, with_file, with_manifest
from pytest_harness.verdict import Rollout, seam_verdict

CATALOGUE = load_catalogue()


def together(*evidences):
    return seam_verdict((Rollout.of(evidence, CATALOGUE) for evidence in evidences), CATALOGUE)


def standing(verdict, requirement):
    return next(each for each in verdict.requirements if each.requirement.id == requirement)


def under_the_key(evidence, key):
    """The verifier wrote its number under this key."""
    rewards = {key: 1.0}
    choice = evidence.manifest.reward.model_copy(update={"key": key, "text": "1.0"})
    written = with_file(with_file(evidence, "trial/verifier/reward.txt", None), "trial/verifier/reward.json", json.dumps(rewards))
    changed = edit_file(written, RESULT, lambda document: document.update(verifier_result={"rewards": rewards}))
    return with_manifest(changed, reward=choice)


def test_attempts_of_a_scenario_that_take_different_keys_break_the_rule_and_have_no_mean(healthy):
    first, second = healthy.pi(), under_the_key(healthy.pi(attempt=2), "score")
    found = together(first, second)
    rule = standing(found, "REW-006")
    assert (rule.standing, rule.counts, found.mean_reward, found.graded) == ("unstable", {"passed": 1, "failed": 1}, None, 2)
    (finding,) = rule.findings
    assert finding.expected == "the key 'reward', as in pi-in-local-edit_file, another attempt of the scenario"
    assert finding.seen == "'score'"


def test_scenarios_may_have_different_keys(healthy):
    found = together(healthy.pi(), under_the_key(healthy.pi(scenario="explore"), "score"))
    assert (standing(found, "REW-006").standing, found.mean_reward) == ("passed", 1.0)


def test_two_attempts_with_one_key_break_the_rule(healthy):
    first, second = healthy.pi(), healthy.pi(attempt=2)
    found = together(first, with_manifest(second, key_digest=first.manifest.key_digest))
    (finding,) = standing(found, "ISO-007").findings
    assert (finding.expected, finding.seen) == ("a key of its own", "the key of pi-in-local-edit_file on scripted")


def test_a_copy_of_an_attempt_shares_nothing_with_itself(healthy):
    assert standing(together(healthy.pi(), healthy.pi()), "ISO-007").standing == "passed"


def test_a_rollout_that_counts_for_nothing_shows_nothing(healthy):
    first = healthy.pi()
    second = apply("no_calls", with_manifest(healthy.pi(attempt=2), key_digest=first.manifest.key_digest))
    assert standing(together(first, second), "ISO-007").standing == "passed"


def test_a_requirement_has_one_group_check():
    with pytest.raises(ContractError, match="ISO-007 has two group checks: no_two_attempts_share_a_key and another; remove one"):

        @groups.group_check("ISO-007")
        def another(group):
            yield from ()


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(graded=st.lists(st.booleans(), min_size=1, max_size=5))
def test_an_ungraded_attempt_changes_no_mean_and_is_counted(healthy, graded):
    given_, all_ = [], []
    for number, is_graded in enumerate(graded, start=1):
        evidence = healthy.pi(graded=is_graded, attempt=number)
        evidence = apply("wrong_reward", evidence) if is_graded and number % 2 else evidence
        all_.append(evidence)
        given_ += [evidence] if is_graded else []
    found = seam_verdict([Rollout.of(evidence, CATALOGUE.of("runtime")) for evidence in all_], CATALOGUE.of("runtime"))
    expected = {"valid": graded.count(True), "ungraded_exception": graded.count(False)}
    assert found.rewards == {state: count for state, count in expected.items() if count}
    rewards = [0.0 if number % 2 else 1.0 for number, is_graded in enumerate(graded, start=1) if is_graded]
    assert found.mean_reward == (sum(rewards) / len(rewards) if rewards else None)


def test_the_report_tells_what_was_not_given_as_null_and_trials_without_reward_do_not_vanish(healthy, tmp_path):
    """agent-eval-harness pull 137: trials without reward vanished from the totals."""
    evidences = [healthy.pi(), healthy.pi(graded=False, attempt=2), apply("reward_marked_invalid", healthy.pi(attempt=3))]
    verdict = together(*evidences)
    folders = {evidence.manifest.attempt_id: tmp_path for evidence in evidences}
    (seam,) = json.loads(build_report((verdict,), catalogue=CATALOGUE, run_id="r", folders=folders).model_dump_json())["seams"]
    assert (seam["mean_reward"], seam["graded"]) == (1.0, 1)
    assert seam["rewards"] == {"valid": 1, "ungraded_exception": 1, "invalid": 1}
    told = [(each["reward"], each["reward_state"], each["reward_key"], each["reward_text"], each["solved"]) for each in seam["attempts"]]
    assert told == [
        (1.0, "valid", "reward", "1", True),
        (None, "ungraded_exception", None, None, False),
        (1.0, "invalid", "reward", "1", False),
    ]
