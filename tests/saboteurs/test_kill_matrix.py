"""Every saboteur turns exactly its requirement red, every requirement has one that does, and healthy evidence trips nothing."""

import pytest

from pytest_harness.contract import judge
from pytest_harness.requirements import load_catalogue
from pytest_harness.saboteurs import NothingToSabotage, SaboteurError, apply, names

CATALOGUE = load_catalogue()
TARGETS = {
    name: {requirement.id for requirement in CATALOGUE if name in requirement.saboteurs}
    for name in {name for requirement in CATALOGUE for name in requirement.saboteurs}
}


@pytest.fixture(scope="session")
def evidences(healthy):
    return {
        "pi": healthy.pi(),
        "pi without a verdict": healthy.pi(graded=False),
        "mini": healthy.mini(),
        "mini without a verdict": healthy.mini(graded=False),
    }


def results(evidence):
    judgements = judge(evidence, CATALOGUE)
    broken = [f"{judgement.requirement.id}: {judgement.reason}" for judgement in judgements if judgement.result == "error"]
    assert not broken
    return {judgement.requirement.id: judgement.result for judgement in judgements}


def failed(evidence):
    return {name for name, result in results(evidence).items() if result == "failed"}


def test_healthy_evidence_trips_nothing(evidences):
    assert {name: failed(evidence) for name, evidence in evidences.items()} == {name: set() for name in evidences}


def test_healthy_evidence_exercises_every_requirement(evidences):
    passed = {name for evidence in evidences.values() for name, result in results(evidence).items() if result == "passed"}
    assert passed == {requirement.id for requirement in CATALOGUE}


def test_the_catalogue_names_exactly_the_saboteurs_that_there_are():
    assert sorted(TARGETS) == list(names())


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_a_run_with_one_saboteur_goes_red_on_exactly_its_requirement(name, evidences):
    tripped = {}
    for kind, evidence in evidences.items():
        try:
            sabotaged = apply(name, evidence)
        except NothingToSabotage:
            continue
        tripped[kind] = failed(sabotaged)
    assert tripped
    assert all(requirements == TARGETS[name] for requirements in tripped.values()), tripped


def test_a_saboteur_leaves_the_evidence_that_it_was_given_alone(evidences):
    before = {kind: (evidence.manifest, evidence.calls, dict(evidence.files)) for kind, evidence in evidences.items()}
    for name in names():
        for evidence in evidences.values():
            try:
                apply(name, evidence)
            except NothingToSabotage:
                continue
    assert {kind: (evidence.manifest, evidence.calls, dict(evidence.files)) for kind, evidence in evidences.items()} == before


def test_an_unknown_saboteur_is_refused_with_the_names_that_are_near(evidences):
    with pytest.raises(SaboteurError, match="no saboteur 'nan_logprobs'; did you mean nan_logprob"):
        apply("nan_logprobs", evidences["pi"])
