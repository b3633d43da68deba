"""Every saboteur turns exactly its requirements red, every requirement has one that does, and unharmed evidence trips nothing."""

import dataclasses
import re
import runpy
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_harness.contract import judge
from pytest_harness.contract.kills import broken, kill_matrix, to_text
from pytest_harness.requirements import load_catalogue
from pytest_harness.saboteurs import NothingToSabotage, SaboteurError, apply, names

CATALOGUE = load_catalogue()
MATRIX = runpy.run_path(str(Path(__file__).parent / "matrix.py"))
WHOLE_MATRIX = MATRIX["whole_matrix"]
LIVE_MATRIX = MATRIX["live_matrix"]


@pytest.fixture(scope="module")
def evidences(healthy):
    """What is made by hand speaks chat completions; what is recorded of the other dialects joins it."""
    others = [evidence for evidence in MATRIX["recorded"]().values() if evidence.manifest.seam.dialect != "chat"]
    return [*healthy.every().values(), *others]


@pytest.fixture(scope="module")
def small(healthy):
    """A matrix of one requirement over one record."""
    one = dataclasses.replace(CATALOGUE, requirements=(CATALOGUE["LGP-003"],))
    whole = kill_matrix(one, {"pi": healthy.pi()})
    return dataclasses.replace(whole, harmed={name: whole.harmed[name] for name in CATALOGUE["LGP-003"].saboteurs})


def test_the_matrix_over_evidence_made_by_hand_and_recorded_has_no_hole(healthy):
    made = healthy.every()
    matrix = WHOLE_MATRIX(made)
    assert set(made) < set(matrix.unharmed)
    assert matrix.holes == ()


@pytest.mark.parametrize("name", names())
@settings(max_examples=6)
@given(data=st.data())
def test_a_saboteur_turns_exactly_its_requirements_red_wherever_it_strikes(evidences, name, data):
    declared = {requirement.id for requirement in CATALOGUE if name in requirement.saboteurs}
    first = data.draw(st.integers(0, len(evidences) - 1))
    for place in (*evidences[first:], *evidences[:first]):
        try:
            harmed = apply(name, place, aim=lambda count: data.draw(st.integers(0, count - 1)))
        except NothingToSabotage:
            continue
        assert broken(judge(harmed, CATALOGUE)) == declared
        return


def test_a_whole_matrix_is_told_without_holes(small):
    text = to_text(small)
    assert small.holes == ()
    assert re.search(r"^nan_logprob +x +1 of 1$", text, re.MULTILINE)
    assert text.endswith(f"{len(small.harmed)} saboteurs, 1 requirements of {CATALOGUE.version}, 1 unharmed records, 0 holes\n")


def the_hole(small, **changes):
    (hole,) = dataclasses.replace(small, **changes).holes
    return hole


def test_each_kind_of_hole_is_named(small):
    title = "LGP-003 A logprob is finite and not positive"
    trips = {"pi": frozenset({"LGP-003"})}
    harmed = dict(small.harmed)
    assert the_hole(small, unharmed=trips) == "LGP-003 speaks against pi, in which nothing is wrong"
    assert the_hole(small, passed=frozenset()) == f"{title}: no evidence exercises it"
    missing = {name: tripped for name, tripped in harmed.items() if name != "nan_logprob"}
    assert the_hole(small, harmed=missing) == f"{title}: its saboteur nan_logprob does not exist"
    assert the_hole(small, harmed={**harmed, "nan_logprob": {}}) == "nan_logprob: no evidence offers it a place"
    assert the_hole(small, harmed={**harmed, "nan_logprob": {"pi": frozenset()}}) == "nan_logprob in pi: LGP-003 does not notice"
    both = {"pi": frozenset({"LGP-003", "TOK-001"})}
    assert the_hole(small, harmed={**harmed, "nan_logprob": both}) == "nan_logprob in pi: TOK-001 goes red too, and does not declare it"
    nobody = {"nobodys_fault": {"pi": frozenset()}}
    assert the_hole(small, harmed={**harmed, **nobody}) == "nobodys_fault: no requirement declares it"


def test_a_saboteur_leaves_the_evidence_that_it_was_given_alone(healthy):
    evidences = healthy.every()
    before = {kind: (evidence.manifest, evidence.calls, dict(evidence.files)) for kind, evidence in evidences.items()}
    for name in names():
        for evidence in evidences.values():
            try:
                apply(name, evidence)
            except NothingToSabotage:
                continue
    assert {kind: (evidence.manifest, evidence.calls, dict(evidence.files)) for kind, evidence in evidences.items()} == before


def test_an_unknown_saboteur_is_refused_with_the_names_that_are_near(healthy):
    with pytest.raises(SaboteurError, match="no saboteur 'nan_logprobs'; did you mean nan_logprob"):
        apply("nan_logprobs", healthy.pi())


def test_a_live_matrix_has_no_hole_if_each_fault_broke_what_it_must_and_the_sound_one_nothing():
    catalogue = dataclasses.replace(CATALOGUE, requirements=(CATALOGUE["LGP-003"],))
    passed, failed = {"LGP-003": "passed"}, {"LGP-003": "failed"}
    faults = dict.fromkeys(CATALOGUE["LGP-003"].saboteurs, failed)
    assert LIVE_MATRIX("seam", catalogue, {"Sound": passed, **faults}, "Sound").holes == ()
    assert LIVE_MATRIX("seam", catalogue, {"Sound": passed, **faults, "nan_logprob": passed}, "Sound").holes == (
        "nan_logprob in a seam: LGP-003 does not notice",
    )
    assert LIVE_MATRIX("seam", catalogue, {"Sound": {"LGP-003": "not_exercised"}, **faults}, "Sound").holes == (
        "LGP-003 A logprob is finite and not positive: no evidence exercises it",
    )
    assert LIVE_MATRIX("seam", catalogue, {"Sound": failed, **faults}, "Sound").holes[0] == (
        "LGP-003 speaks against a seam without a fault, in which nothing is wrong"
    )


def test_a_matrix_of_an_unknown_subject_is_refused_in_one_sentence(capsys):
    assert MATRIX["main"](["harness"]) == 4
    expected = "error: there is no kill matrix of harness; say seam, proxy, engine, runtime, collector, verifier, or all\n"
    assert capsys.readouterr().err == expected
