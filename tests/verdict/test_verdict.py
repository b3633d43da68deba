"""The verdict: computed from judgements, never better than the evidence, and never a mean over what does not count."""

from dataclasses import replace

import pytest

from pytest_harness.contract import model
from pytest_harness.evidence import KnownFailure
from pytest_harness.requirements import load_catalogue
from pytest_harness.saboteurs import apply
from pytest_harness.saboteurs.surgery import replace_text, with_manifest
from pytest_harness.verdict import Rollout, seam_verdict, seam_verdicts

CATALOGUE = load_catalogue("2026.11")  # a frozen one: what the newest asks of a seam changes with every entry
SCENARIOS = ("edit_file", "no_verdict")


@pytest.fixture
def rollouts(healthy):
    """A whole seam: two engines, two scenarios, three attempts."""

    def make(kind=healthy.pi, engines=("scripted", "vllm"), attempts=3, scenarios=SCENARIOS, change=lambda evidence: evidence):
        made = []
        for engine in engines:
            for scenario in scenarios:
                for attempt in range(1, attempts + 1):
                    evidence = kind(graded=scenario != "no_verdict", attempt=attempt, scenario=scenario, engine=engine)
                    seam = evidence.manifest.seam.model_copy(update={"scenarios": SCENARIOS})
                    name = f"{engine}-{scenario}-{attempt}"
                    made.append(change(with_manifest(evidence, seam=seam, attempt_id=name)))
        return made

    return make


def verdict(evidences):
    return seam_verdict((Rollout.of(evidence, CATALOGUE) for evidence in evidences), CATALOGUE)


def only(wanted, saboteur):
    """Applies a saboteur to the rollouts whose attempt id starts so."""
    return lambda evidence: apply(saboteur, evidence) if evidence.manifest.attempt_id.startswith(wanted) else evidence


def test_a_seam_that_passed_everything_everywhere_three_times_is_validated(rollouts):
    found = verdict(rollouts())
    assert (found.label, found.ok) == ("validated", True)
    assert found.ran == found.required == 50
    assert found.families["TOK"] == {"passed": 9}


def test_a_known_deviation_that_still_occurs_does_not_stand_against_the_seam(healthy, rollouts):
    found = verdict(rollouts(healthy.mini))
    assert found.label == "validated"
    assert found.families["ATF"] == {"passed": 5, "deviation": 1}


def test_a_known_deviation_that_no_longer_occurs_fails_the_seam(healthy, rollouts):
    deviations = healthy.mini().manifest.seam.deviations

    def claim(evidence):
        return with_manifest(evidence, seam=evidence.manifest.seam.model_copy(update={"deviations": deviations}))

    found = verdict(rollouts(change=claim))
    assert found.status == "blocked"
    assert not found.ok
    assert found.why == "the known deviation ATF-003 of harbor >=0.26,<0.27 no longer occurs: remove it from the seam's row"


def test_a_known_deviation_may_occur_in_a_scenario_that_was_not_run(healthy, rollouts):
    deviations = healthy.mini().manifest.seam.deviations

    def claim(evidence):
        return with_manifest(evidence, seam=evidence.manifest.seam.model_copy(update={"deviations": deviations}))

    found = verdict(rollouts(scenarios=SCENARIOS[:1], change=claim))
    assert (found.stale, found.status) == ((), "untested")


@pytest.mark.parametrize("other", [{"versions": "<0.26"}, {"flaky": True}])
def test_a_known_deviation_of_another_version_or_of_some_runs_only_is_not_missed(healthy, rollouts, other):
    deviations = tuple(deviation.model_copy(update=other) for deviation in healthy.mini().manifest.seam.deviations)

    def claim(evidence):
        return with_manifest(evidence, seam=evidence.manifest.seam.model_copy(update={"deviations": deviations}))

    assert verdict(rollouts(change=claim)).stale == ()


def knowing(*known):
    return lambda evidence: with_manifest(evidence, seam=evidence.manifest.seam.model_copy(update={"known_failures": known}))


def test_a_seam_that_is_known_to_break_a_must_is_unsupported_however_well_the_rest_goes(rollouts):
    known = KnownFailure(requirement="PAR-001", scenarios=("edit_file",), reason="it loses one", flaky=True)
    found = verdict(rollouts(change=knowing(known)))
    assert found.status == "unsupported"
    assert found.why.startswith("PAR-001 ")
    assert found.why.endswith("(known: it loses one)")


def test_a_known_failure_of_what_is_not_required_of_the_seam_changes_nothing(rollouts):
    assert verdict(rollouts(change=knowing(KnownFailure(requirement="PAR-999", reason="nobody asks")))).label == "validated"


def test_a_known_failure_that_is_seen_is_told_once(rollouts):
    known = KnownFailure(requirement="ATF-003", reason="it loses one")
    found = verdict(apply("lost_result", each) for each in rollouts(change=knowing(known)))
    assert found.status == "unsupported"
    assert found.why.count("ATF-003") == 1
    assert "(known" not in found.why


def test_the_scripted_engine_alone_is_not_enough_and_the_verdict_says_so(rollouts):
    found = verdict(rollouts(engines=("scripted",)))
    assert (found.label, found.ok) == ("untested: rollouts on the engine vllm", True)


def test_too_few_attempts_are_not_enough(rollouts):
    found = verdict(rollouts(attempts=2))
    missing = "3 attempts of each scenario on {} (so far 2 of each)"
    assert found.label == f"untested: {missing.format('scripted')}; {missing.format('vllm')}"


def test_a_copy_of_an_attempt_is_no_attempt_of_its_own(rollouts):
    evidences = rollouts(attempts=2)
    assert verdict([*evidences, *evidences]).status == "untested"


def test_a_declared_scenario_that_never_ran_is_missing(rollouts):
    found = verdict(rollouts(scenarios=("edit_file",)))
    assert "no_verdict 0" in found.why
    assert "evidence on scripted that exercises REW-002" in found.why
    assert (found.status, found.ran) == ("untested", found.required - 1)


def test_evidence_that_does_not_name_the_declared_scenarios_is_never_enough(rollouts):
    def forget(evidence):
        return with_manifest(evidence, seam=evidence.manifest.seam.model_copy(update={"scenarios": ()}))

    assert verdict(rollouts(change=forget)).label == "untested: the scenarios that the seam declares, which the evidence does not name"


def test_rollouts_of_two_versions_validate_neither(rollouts):
    def newer(evidence):
        if evidence.manifest.engine == "vllm":
            return apply("another_version", with_manifest(evidence, versions={"harness": "0.0.1", "harbor": "0.26.0", "vllm": "0.26.0"}))
        return evidence

    assert verdict(rollouts(change=newer)).label == "untested: rollouts of one and the same version: these are of 2 versions of the harness"


def test_a_build_of_the_same_version_is_another_harness(rollouts):
    def rebuilt(evidence):
        digest = "2" if evidence.manifest.engine == "vllm" else "1"
        return with_manifest(evidence, digests={"harness": digest * 64})

    assert verdict(rollouts(change=rebuilt)).label == "untested: rollouts of one and the same version: these are of 2 builds of the harness"


def test_a_scenario_that_was_changed_between_its_attempts_is_not_one_scenario(rollouts):
    def shorter(evidence):
        if evidence.manifest.attempt_id != "vllm-edit_file-3":
            return evidence
        return with_manifest(evidence, scenario=evidence.manifest.scenario.model_copy(update={"may_fail": True}))

    found = verdict(rollouts(change=shorter))
    assert found.label == "untested: rollouts of one and the same scenario: those of edit_file ask for different things"


def test_evidence_of_a_vllm_that_names_no_version_of_it_is_not_enough(rollouts):
    def nameless(evidence):
        named = {what: version for what, version in evidence.manifest.versions.items() if what != "vllm"}
        return with_manifest(evidence, versions=named)

    assert verdict(rollouts(change=nameless)).label == "untested: the version of vllm, which 6 of its rollouts do not name"


def deselected(requirements, attempts, evidences):
    """Rollouts of which these attempts were not judged by these requirements, as after pytest's -k."""
    for rollout in (Rollout.of(evidence, CATALOGUE) for evidence in evidences):
        left = tuple(each for each in rollout.judgements if each.requirement.id not in requirements)
        yield replace(rollout, judgements=left) if rollout.manifest.attempt_id in attempts else rollout


def test_a_must_by_which_one_attempt_was_not_judged_may_be_broken_there(rollouts):
    evidences = rollouts(change=only("vllm-edit_file-2", "nan_logprob"))
    found = seam_verdict(deselected({"LGP-003"}, {"vllm-edit_file-2"}, evidences), CATALOGUE)
    assert (found.label, found.ran) == ("untested: a judgement of each rollout by LGP-003", found.required)


def test_a_must_by_which_nothing_was_judged_is_missing(rollouts):
    evidences = rollouts()
    names = {evidence.manifest.attempt_id for evidence in evidences}
    found = seam_verdict(deselected({"LGP-003", "TOK-001", "TOK-002", "TOK-003", "TOK-004"}, names, evidences), CATALOGUE)
    assert found.label == "untested: a judgement of each rollout by TOK-001, TOK-002, TOK-003 and 2 more"


def test_a_should_by_which_nothing_was_judged_is_not_waited_for(rollouts):
    evidences = rollouts()
    shoulds = {requirement.id for requirement in CATALOGUE if not requirement.binding}
    assert seam_verdict(deselected(shoulds, {each.manifest.attempt_id for each in evidences}, evidences), CATALOGUE).status == "validated"


def test_a_must_that_fails_whenever_it_is_tried_makes_the_seam_unsupported(rollouts):
    found = verdict(rollouts(change=only("vllm-edit_file", "nan_logprob")))
    assert (found.label, found.ok) == ("unsupported: LGP-003 A logprob is finite and not positive", False)
    (broken,) = [verdict for verdict in found.requirements if verdict.standing == "failed"]
    assert broken.counts == {"passed": 9, "failed": 3}
    assert len(broken.findings) == 3


def test_a_must_that_fails_in_some_attempts_makes_the_seam_unstable(rollouts):
    found = verdict(rollouts(change=only("vllm-edit_file-2", "nan_logprob")))
    assert (found.label, found.ok) == ("unstable: LGP-003 A logprob is finite and not positive", False)


def test_a_should_that_fails_is_told_and_changes_no_status(rollouts):
    found = verdict(rollouts(change=only("", "rewritten_history")))
    assert found.status == "validated"
    assert found.families["GRF"] == {"passed": 4, "failed": 1}


def test_a_must_that_was_only_unverifiable_is_missing(rollouts):
    found = verdict(rollouts(change=lambda evidence: replace_text(evidence, "token_id:", "text ")))
    assert "evidence on scripted that exercises LGP-004" in found.why
    assert found.ran == found.required - 1


def test_rollouts_without_a_call_block_the_seam_and_blame_the_surroundings(rollouts):
    found = verdict(rollouts(change=only("", "no_calls")))
    assert found.label.startswith("blocked: surroundings: no call reached the proxy")
    assert (found.mean_reward, found.graded, found.ran) == (None, 0, 0)
    assert len(found.invalid) == 12


def test_an_invalid_rollout_is_in_no_mean_and_no_count(rollouts):
    evidences = rollouts(change=only("scripted-edit_file-1", "no_calls"))
    found = verdict(evidences)
    assert (found.mean_reward, found.graded) == (1.0, 5)
    assert found.label == "untested: 3 attempts of each scenario on scripted (so far edit_file 2); 1 rollouts count for nothing"


def test_no_verdict_is_in_no_mean(rollouts):
    assert verdict(rollouts(scenarios=("no_verdict",))).mean_reward is None


def test_a_zero_is_in_the_mean(rollouts):
    found = verdict(rollouts(change=only("vllm-edit_file", "wrong_reward")))
    assert (found.mean_reward, found.graded) == (0.5, 6)


def test_a_reward_that_harbor_calls_invalid_is_in_no_mean(rollouts):
    assert verdict(rollouts(change=only("vllm-edit_file", "reward_marked_invalid"))).graded == 3


def test_a_check_of_ours_that_breaks_blocks_the_verdict(rollouts, monkeypatch):
    monkeypatch.setitem(model._CHECKS, "TOK-001", lambda evidence: 1 / 0)
    found = verdict(rollouts())
    assert (found.label, found.ok) == ("blocked: ourselves: the checks of TOK-001 broke", False)


def test_each_harness_in_each_sandbox_has_a_verdict_of_its_own(healthy, rollouts):
    both = [Rollout.of(evidence, CATALOGUE) for kind in (healthy.mini, healthy.pi) for evidence in rollouts(kind, attempts=1)]
    assert [(found.harness, found.sandbox, len(found.rollouts)) for found in seam_verdicts(both, CATALOGUE)] == [
        ("mini-swe-agent", "local", 4),
        ("pi", "local", 4),
    ]
    assert seam_verdicts([], CATALOGUE) == ()
