"""The verifier suite sees a number that is made of no verdict anywhere on the way to the report, and a subject that cannot be."""

import dataclasses

import pytest

from pytest_harness.contract.grading import Grade
from pytest_harness.evidence import Ending
from pytest_harness.verifiers import subject as subjects
from pytest_harness.verifiers.boxes import Box, box_of
from pytest_harness.verifiers.plays import NO_VERDICT
from pytest_harness.verifiers.reported import evidence_of, told_in_reports
from pytest_harness.verifiers.subject import Case, Played, Subject
from pytest_harness.wire.guarding import AdapterError
from pytest_harness.wire.outcome import Broken

SILENT = NO_VERDICT["no_file"]


@pytest.fixture
def case(tmp_path, monkeypatch):
    """A case whose only trial left nothing."""
    played = Played(evidence_of("local", tmp_path, Ending(how="finished")))
    monkeypatch.setattr(Subject, "played", lambda *_: played)
    return Case(Subject("local", Box()))


def test_a_trial_that_left_nothing_is_silent(case):
    case.is_silent(SILENT)


@pytest.mark.parametrize(
    "made",
    [
        {"grade": Grade("ungraded", value=0.0)},
        {"of_json": 0.0},
        {"of_html": 0},
        {"of_markdown": "0"},
        {"graded": 1},
        {"mean": 0.0},
    ],
    ids=lambda made: next(iter(made)),
)
def test_a_zero_made_of_nothing_is_seen(case, monkeypatch, made):
    monkeypatch.setattr(subjects, "told_in_reports", lambda evidence: dataclasses.replace(told_in_reports(evidence), **made))
    with pytest.raises(Broken, match="expected"):
        case.is_silent(SILENT)


def test_a_sandbox_that_never_starts_is_refused_in_a_sentence_instead_of_being_judged(tmp_path):
    nothing = Box(import_path="there.is.no:Sandbox")
    with pytest.raises(AdapterError, match="no agent can be run in it: ") as refused, Subject("docker", nothing):
        pass
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("spec", "sandbox", "said"),
    [
        ("local", "docker", "--sandbox=docker another"),
        ("harbor.verifier.verifier:Verifier", "modal", "--sandbox=modal is none of local, docker, podman"),
        ("pytest_harness.sandboxes.local:LocalSandbox", "local", "it is a sandbox itself"),
    ],
)
def test_a_sandbox_that_contradicts_the_subject_is_refused_in_a_sentence(spec, sandbox, said):
    with pytest.raises(AdapterError, match=said) as refused:
        box_of(spec, sandbox)
    assert str(refused.value).startswith(f"--verifier {spec}: ")


def test_a_verifier_of_ones_own_runs_in_the_sandbox_that_is_named():
    assert box_of("harbor.verifier.verifier:Verifier", "local") == box_of("harbor.verifier.verifier:Verifier")


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("nowhere", "name one of local, docker"),
        ("there.is.no:Thing", "cannot be imported"),
        ("json:JSONDecoder", "must be a subclass of Harbor's BaseEnvironment or BaseVerifier"),
        ("json:Nothing", "must be a subclass of Harbor's BaseEnvironment or BaseVerifier"),
    ],
)
def test_a_subject_that_cannot_be_is_refused_in_a_sentence(spec, said):
    with pytest.raises(AdapterError, match=said) as refused:
        box_of(spec)
    assert str(refused.value).startswith(f"--verifier {spec}: ")
    assert "\n" not in str(refused.value)
