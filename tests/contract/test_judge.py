"""Judging: each check on its own, known deviations apart, answers that are neither a pass nor a failure."""

from dataclasses import replace

import pytest

from pytest_harness.contract import ContractError, Fault, check, check_of, deviations_in_range, judge, judge_one, model
from pytest_harness.contract.chat_wire import line
from pytest_harness.evidence import Deviation
from pytest_harness.requirements import load_catalogue
from pytest_harness.saboteurs import apply
from pytest_harness.saboteurs.surgery import TRAJECTORY, edit_file, with_manifest

CATALOGUE = load_catalogue()


def deviating(evidence, **changes):
    seam = evidence.manifest.seam
    deviations = tuple(deviation.model_copy(update=changes) for deviation in seam.deviations)
    return with_manifest(evidence, seam=seam.model_copy(update={"deviations": deviations}))


def test_every_applicable_requirement_is_judged_in_the_order_of_the_catalogue(healthy):
    evidence = healthy.mini()
    judged = [judgement.requirement.id for judgement in judge(evidence, CATALOGUE)]
    assert judged == [requirement.id for requirement in CATALOGUE.applicable(evidence.manifest.seam, "scripted")]


def test_a_finding_names_requirement_call_and_place_and_shows_what_was_seen(healthy):
    evidence = apply("nan_logprob", healthy.pi())
    (finding,) = judge_one(evidence, CATALOGUE["LGP-003"]).findings
    assert (finding.requirement, finding.call) == ("LGP-003", 2)
    assert finding.where == "calls.ndjson line 3, samples[0].logprobs"
    assert str(finding) == "LGP-003: calls.ndjson line 3, samples[0].logprobs: expected finite numbers of at most 0, seen nan at position 0"


def test_a_check_that_breaks_is_our_fault_and_takes_no_other_with_it(healthy, monkeypatch):
    def broken(evidence):
        raise ZeroDivisionError("no good")

    monkeypatch.setitem(model._CHECKS, "TOK-002", broken)
    results = {judgement.requirement.id: judgement for judgement in judge(healthy.pi(), CATALOGUE)}
    assert results["TOK-002"].result == "error"
    assert results["TOK-002"].reason == "our check broke: ZeroDivisionError: no good"
    assert results["TOK-001"].result == results["TOK-003"].result == "passed"


def test_two_checks_of_one_requirement_are_refused():
    with pytest.raises(ContractError, match="TOK-001 has two checks"):
        check("TOK-001")(lambda evidence: [])


def test_a_check_that_is_not_there_is_refused_with_what_is_near():
    with pytest.raises(ContractError, match="no check is registered for RRW-001; did you mean REW-001"):
        check_of("RRW-001")


def test_a_known_deviation_excuses_the_version_that_has_it(healthy):
    judgement = judge_one(healthy.mini(), CATALOGUE["ATF-003"])
    assert judgement.result == "deviation"
    assert judgement.findings
    assert judgement.reason.startswith("known deviation of harbor >=0.26,<0.27: the converter does not link observations")


@pytest.mark.parametrize(
    "changes", [{"versions": ">=0.27"}, {"versions": "no specifier"}, {"subject": "nobody"}, {"requirement": "ATF-001"}]
)
def test_a_known_deviation_of_another_version_excuses_nothing(healthy, changes):
    assert judge_one(deviating(healthy.mini(), **changes), CATALOGUE["ATF-003"]).result == "failed"


def test_a_known_deviation_of_the_harness_is_told_by_the_version_that_ran(healthy):
    evidence = deviating(healthy.mini(), subject="mini-swe-agent", versions="==1.6.*")
    assert judge_one(evidence, CATALOGUE["ATF-003"]).result == "deviation"
    assert not deviations_in_range(with_manifest(evidence, versions={"harness": "unknown"}).manifest)


def test_a_known_deviation_excuses_only_what_looks_like_it(healthy):
    assert judge_one(deviating(healthy.mini(), seen="that name none$"), CATALOGUE["ATF-003"]).result == "deviation"
    judgement = judge_one(deviating(healthy.mini(), seen="another fault"), CATALOGUE["ATF-003"])
    assert (judgement.result, len(judgement.findings)) == ("failed", 2)
    assert judgement.reason.startswith("this is something else than the known deviation of harbor")


GEMINI = r"^(\S+)__(?P<expected>\S+ \1[(]…[)])$"
"""As in the row of gemini-cli: the name of the function and two underscores before the id of each call."""


def prefixed(evidence, forge):
    """The evidence with the ids in its log as Gemini CLI writes them, its known deviation, and one call forged."""
    deviation = Deviation(requirement="ATF-004", reason="a", link="b", subject="harbor", versions="", expires="2027-01-01", seen=GEMINI)

    def rename(document):
        calls = [call for step in document["steps"] for call in step.get("tool_calls") or ()]
        for call in calls:
            call["tool_call_id"] = f"{call['function_name']}__{call['tool_call_id']}"
        forge(calls[0])

    seam = evidence.manifest.seam.model_copy(update={"deviations": (deviation,)})
    return with_manifest(edit_file(evidence, TRAJECTORY, rename), seam=seam)


@pytest.mark.parametrize(
    ("forged", "result"),
    [
        ({}, "deviation"),
        ({"arguments": {"command": "true"}}, "failed"),
        ({"tool_call_id": "bash__another"}, "failed"),
        ({"tool_call_id": "sh__call_0"}, "failed"),
        ({"function_name": "sh"}, "failed"),
        ({"function_name": ""}, "failed"),
    ],
)
def test_ids_with_a_known_prefix_excuse_no_other_call_behind_them(healthy, forged, result):
    judgement = judge_one(prefixed(healthy.pi(), lambda call: call.update(forged)), CATALOGUE["ATF-004"])
    assert (judgement.result, len(judgement.findings)) == (result, 1 if forged else 3)


def test_a_known_deviation_beside_another_fault_shows_the_other_fault_alone(healthy):
    def twice(document):
        result = document["steps"][1]["observation"]["results"][0]
        result["source_call_id"] = document["steps"][1]["tool_calls"][0]["tool_call_id"]
        document["steps"][1]["observation"]["results"].append(result)

    evidence = edit_file(deviating(healthy.mini(), seen="that name none$"), TRAJECTORY, twice)
    judgement = judge_one(evidence, CATALOGUE["ATF-003"])
    assert (judgement.result, [finding.seen for finding in judgement.findings]) == ("failed", ["2"])


def test_a_known_deviation_of_other_scenarios_excuses_nothing(healthy):
    evidence = healthy.mini()
    here = deviating(evidence, scenarios=("another", evidence.manifest.scenario.name))
    assert judge_one(here, CATALOGUE["ATF-003"]).result == "deviation"
    elsewhere = judge_one(deviating(evidence, scenarios=("another",)), CATALOGUE["ATF-003"])
    assert (elsewhere.result, elsewhere.reason, len(elsewhere.findings)) == ("failed", "", 2)


def test_two_known_deviations_excuse_what_each_of_them_looks_like_and_nothing_else(healthy):
    known = [
        Deviation(requirement="ATF-004", reason=reason, link="b", subject="harbor", versions="", expires="2027-01-01", seen=seen)
        for reason, seen in (("the first", "^{}$"), ("the second", "'reset': False"), ("unseen", "^never$"))
    ]

    def evidence(*told):
        def tell(document):
            calls = [call for step in document["steps"] for call in step.get("tool_calls") or ()]
            for call, arguments in zip(calls, told, strict=False):
                call["arguments"] = arguments

        seam = healthy.pi().manifest.seam.model_copy(update={"deviations": tuple(known)})
        return with_manifest(edit_file(healthy.pi(), TRAJECTORY, tell), seam=seam)

    both = judge_one(evidence({}, {"reset": False}), CATALOGUE["ATF-004"])
    assert (both.result, len(both.findings)) == ("deviation", 2)
    assert [reason in both.reason for reason in ("the first", "the second", "unseen")] == [True, True, False]
    forged = judge_one(evidence({}, {"command": "true"}), CATALOGUE["ATF-004"])
    assert (forged.result, [finding.seen for finding in forged.findings]) == ("failed", ["{'command': 'true'}"])


def test_a_pattern_that_is_none_is_refused_in_one_sentence(healthy):
    with pytest.raises(ValueError, match="is no regular expression"):
        Deviation(requirement="ATF-003", reason="a", link="b", subject="harbor", versions="", expires="2027-01-01", seen="(")


def test_an_expired_deviation_excuses_nothing_and_says_so(healthy):
    judgement = judge_one(deviating(healthy.mini(), expires="2026-11-28"), CATALOGUE["ATF-003"])
    assert judgement.result == "failed"
    assert judgement.reason.startswith("the known deviation of harbor expired on 2026-11-28")


def test_without_a_call_nothing_passes_that_is_about_calls(healthy):
    results = {judgement.requirement.id: judgement.result for judgement in judge(replace(healthy.pi(), calls=()), CATALOGUE)}
    assert results.pop("SEA-001") == "failed"
    about_calls = {name: result for name, result in results.items() if name[:3] in {"TOK", "LGP", "GRF", "PAR", "STR"}}
    assert set(about_calls.values()) <= {"not_exercised", "unverifiable"}


def test_every_answer_that_is_neither_a_pass_nor_a_failure_has_a_reason(healthy):
    for evidence in (healthy.pi(), healthy.mini(graded=False), replace(healthy.pi(), calls=(), files={})):
        for judgement in judge(evidence, CATALOGUE):
            assert (judgement.reason != "") == (judgement.result in {"not_exercised", "unverifiable", "deviation"})


def test_a_fault_names_the_line_of_the_call_in_the_file(healthy):
    assert line(healthy.pi().calls[2]) == "calls.ndjson line 3"
    assert Fault(2, "a", "b", "c").call == 2
