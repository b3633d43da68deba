"""Checks of what happened around grading: what is no fault must not be taken for one, and what nobody saw is no pass."""

from __future__ import annotations

import hashlib
import json

import pytest

from pytest_harness.contract import judge_one
from pytest_harness.requirements import load_catalogue
from pytest_harness.saboteurs import apply
from pytest_harness.saboteurs.surgery import RESULT, edit_file, with_file, with_manifest

CATALOGUE = load_catalogue()
CONFIG = "trial/config.json"


def result(evidence, requirement):
    return judge_one(evidence, CATALOGUE[requirement]).result


def seen(evidence, requirement):
    (finding,) = judge_one(evidence, CATALOGUE[requirement]).findings
    return finding.seen


def with_grading(evidence, **changes):
    return with_manifest(evidence, grading=evidence.manifest.grading.model_copy(update=changes))


@pytest.mark.parametrize(
    "requirement", ["REW-006", "REW-007", "ISO-004", "ISO-006", "ISO-007", "ISO-008", "SBX-001", "SBX-002", "SBX-003", "SEA-008"]
)
def test_what_an_older_version_did_not_record_is_unverifiable(healthy, requirement):
    assert result(healthy.unobserved(), requirement) == "unverifiable"


def test_a_file_time_of_whole_seconds_is_not_held_against_the_verifier(healthy):
    evidence = healthy.pi()
    began = evidence.manifest.grading.began
    assert result(with_grading(evidence, began=100.7, reward_written=100.0), "REW-007") == "passed"
    assert result(with_grading(evidence, began=101.7, reward_written=100.0), "REW-007") == "failed"
    assert result(with_grading(evidence, reward_written=began - 0.05), "REW-007") == "passed"
    assert result(with_grading(evidence, reward_written=began - 0.25), "REW-007") == "failed"


def test_without_a_clock_in_common_it_is_enough_that_nobody_else_was_there(healthy):
    evidence = with_grading(healthy.pi(), reward_written=None)
    assert result(evidence, "REW-007") == "passed"
    assert result(with_grading(evidence, survivors=None), "REW-007") == "unverifiable"


@pytest.mark.parametrize(
    ("file", "text", "exception"),
    [
        ("reward.txt", "", "RewardFileEmptyError"),
        ("reward.txt", "banana", "VerifierOutputParseError"),
        ("reward.json", "[1]", "VerifierOutputParseError"),
        ("reward.json", " \n", "RewardFileEmptyError"),
    ],
)
def test_empty_and_unreadable_verdicts_have_their_own_names(healthy, file, text, exception):
    evidence = with_file(healthy.pi(graded=False), f"trial/verifier/{file}", text)
    named = edit_file(evidence, RESULT, lambda document: document["exception_info"].update(exception_type=exception))
    assert (result(evidence, "REW-008"), result(named, "REW-008")) == ("failed", "passed")


@pytest.mark.parametrize("exception", ["VerifierTimeoutError", "AgentTimeoutError"])
def test_an_earlier_exception_hides_what_was_wrong_with_the_verdict(healthy, exception):
    changed = edit_file(healthy.pi(graded=False), RESULT, lambda document: document["exception_info"].update(exception_type=exception))
    assert result(changed, "REW-008") == "not_exercised"


def test_a_verifier_that_was_switched_off_owes_no_verdict(healthy):
    off = with_file(apply("swallowed_verdict_error", healthy.pi(graded=False)), CONFIG, json.dumps({"verifier": {"disable": True}}))
    assert result(off, "REW-008") == "not_exercised"


def test_an_exception_of_the_agent_alone_does_not_void_a_reward(healthy):
    policy = {"should_retry": False, "should_grade": True, "has_valid_reward": True}
    info = {"exception_type": "AgentTimeoutError", "exception_message": "", "policy": policy}
    assert result(edit_file(healthy.pi(), RESULT, lambda document: document.update(exception_info=info)), "REW-009") == "passed"


def test_a_grader_that_asks_a_model_of_its_own_is_no_fault(healthy):
    env = {"verifier": {"env": {"JUDGE_API_KEY": "<redacted>"}}}
    evidence = with_file(healthy.pi(), CONFIG, json.dumps(env))
    assert (result(evidence, "ISO-003"), result(evidence, "ISO-008")) == ("passed", "passed")
    assert result(with_grading(evidence, seam_variables=("JUDGE_API_KEY",)), "ISO-003") == "failed"
    assert result(with_manifest(evidence, grading=None), "ISO-003") == "failed"


def test_a_graders_key_that_is_missing_or_another_is_told_so(healthy):
    lost = with_grading(healthy.pi(), own_variables={"JUDGE_API_KEY": False}, variables=("PATH",))
    other = with_grading(healthy.pi(), own_variables={"JUDGE_API_KEY": False}, variables=("JUDGE_API_KEY", "PATH"))
    assert (seen(lost, "ISO-008"), seen(other, "ISO-008")) == ("no such variable", "another value")


def test_a_finding_about_a_key_never_holds_a_digest_that_could_be_guessed_at(healthy):
    evidence = with_manifest(healthy.pi(), key_digest=hashlib.sha256(b"pi-1").hexdigest())
    assert seen(evidence, "ISO-007") == "'pi-1'"


def test_an_open_network_says_nothing_of_what_left_it(healthy):
    assert result(with_manifest(healthy.pi(), network="open"), "SEA-008") == "unverifiable"
    assert result(with_manifest(healthy.pi(), network="watched"), "SEA-008") == "passed"


def test_every_connection_past_the_proxy_is_named(healthy):
    assert seen(apply("bypassed_proxy", healthy.pi()), "SEA-008") == "api.vendor.example:443"


def test_an_engine_without_a_signature_is_taken_at_its_word(healthy):
    assert result(healthy.pi(engine="vllm"), "SEA-010") == "passed"
    assert seen(apply("row_of_another_harness", healthy.pi()), "SEA-009") == "not-pi"


def test_a_sandbox_with_a_network_may_have_a_way_out(healthy):
    bridged = apply("bridged_sandbox", healthy.pi())
    assert {each.seen for each in judge_one(bridged, CATALOGUE["SBX-005"]).findings} == {"eth0", "1 of them"}
    assert result(with_manifest(bridged, network="open"), "SBX-005") == "unverifiable"


def test_a_clock_that_tells_no_time_is_no_right_one(healthy):
    evidence = healthy.pi()
    for ahead, expected in ((1.9, "passed"), (-1.9, "passed"), (2.1, "failed"), (float("nan"), "failed")):
        inside = evidence.manifest.inside.model_copy(update={"clock_ahead": ahead})
        assert result(with_manifest(evidence, inside=inside), "SBX-004") == expected
