"""The formats that other programs read: they are well-formed, a blocked seam is never green, and what nobody said is no number."""

import json
from dataclasses import replace
from xml.etree import ElementTree

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_harness.reports.badge import badge
from pytest_harness.reports.build import build_report
from pytest_harness.reports.counts import reward_of
from pytest_harness.reports.ctrf import ctrf
from pytest_harness.reports.entries import VERDICT, entries, outcome_of
from pytest_harness.reports.junit import junit
from pytest_harness.reports.markdown import seam_page
from pytest_harness.reports.summary import LARGEST, VARIABLE, append_step_summary, step_summary
from pytest_harness.requirements import load_catalogue
from pytest_harness.verdict import Rollout, seam_verdicts

COUNT = {"type": "integer", "minimum": 0}
CTRF = {
    "type": "object",
    "required": ["reportFormat", "specVersion", "results"],
    "properties": {
        "reportFormat": {"const": "CTRF"},
        "specVersion": {"pattern": r"^\d+\.\d+\.\d+$"},
        "results": {
            "required": ["tool", "summary", "tests"],
            "properties": {
                "tool": {"required": ["name"]},
                "summary": {
                    "required": ["tests", "passed", "failed", "skipped", "pending", "other", "start", "stop"],
                    "properties": dict.fromkeys(("tests", "passed", "failed", "skipped", "pending", "other", "start", "stop"), COUNT),
                },
                "tests": {
                    "items": {
                        "required": ["name", "status", "duration"],
                        "properties": {
                            "name": {"type": "string", "minLength": 1},
                            "status": {"enum": ["passed", "failed", "skipped", "pending", "other"]},
                            "duration": COUNT,
                            "suite": {"type": "array", "minItems": 1, "items": {"type": "string"}},
                            "labels": {"additionalProperties": {"type": ["string", "number", "boolean"]}},
                        },
                    }
                },
            },
        },
    },
}
"""What the published schema of the format asks for, of the parts that are written here."""


def with_status(report, *statuses):
    seam = report.seams[0]
    seams = tuple(seam.model_copy(update={"name": f"seam {number}", "status": status}) for number, status in enumerate(statuses))
    return report.model_copy(update={"seams": seams})


def with_standing(requirement, standing, **more):
    return requirement.model_copy(update={"standing": standing, **more})


def test_ctrf_is_what_its_schema_asks_for_and_its_counts_are_those_of_its_tests(judged):
    document = json.loads(json.dumps(ctrf(judged.report)))
    jsonschema.validate(document, CTRF)
    results = document["results"]
    for status in ("passed", "failed", "skipped", "pending", "other"):
        assert results["summary"][status] == sum(test["status"] == status for test in results["tests"])
    assert results["summary"]["tests"] == len(results["tests"])


@pytest.mark.parametrize(
    ("status", "outcome"),
    [("validated", "passed"), ("untested", "skipped"), ("unstable", "failed"), ("unsupported", "failed"), ("blocked", "failed")],
)
def test_a_verdict_that_is_not_validated_is_never_passed(judged, status, outcome):
    (verdict,) = [entry for entry in entries(with_status(judged.report, status)) if entry.id == VERDICT]
    assert verdict.outcome == outcome


@pytest.mark.parametrize(
    ("standing", "must", "should", "draft"),
    [
        ("passed", "passed", "passed", "passed"),
        ("failed", "failed", "noted", "noted"),
        ("unstable", "failed", "noted", "noted"),
        ("error", "error", "error", "noted"),
        ("deviation", "noted", "noted", "noted"),
        ("unverifiable", "skipped", "skipped", "skipped"),
        ("not_exercised", "skipped", "skipped", "skipped"),
    ],
)
def test_only_what_speaks_against_the_seam_is_failed(judged, standing, must, should, draft):
    requirement = judged.report.seams[0].requirements[0]
    assert outcome_of(with_standing(requirement, standing, level="MUST", draft=False)) == must
    assert outcome_of(with_standing(requirement, standing, level="SHOULD", draft=False)) == should
    assert outcome_of(with_standing(requirement, standing, level="MUST", draft=True)) == draft


@given(st.text(max_size=30))
def test_junit_is_xml_whatever_a_finding_says(judged, text):
    seam = judged.report.seams[0].model_copy(update={"name": text, "why": text})
    root = ElementTree.fromstring(junit(judged.report.model_copy(update={"seams": (seam,)})))
    assert int(root.get("tests")) == len(root.findall(".//testcase"))
    assert int(root.get("failures")) == len(root.findall(".//failure"))
    assert int(root.get("skipped")) == len(root.findall(".//skipped"))


@pytest.mark.parametrize(
    ("statuses", "message", "color"),
    [
        (["validated"], "validated", "brightgreen"),
        (["validated", "untested", "untested"], "1 validated, 2 untested", "yellow"),
        (["validated", "blocked", "unsupported"], "1 validated, 1 blocked, 1 unsupported", "red"),
        ([], "no seam", "lightgrey"),
    ],
)
def test_a_badge_has_the_colour_of_the_worst_seam(judged, statuses, message, color):
    shown = badge(with_status(judged.report, *statuses))
    assert (shown["schemaVersion"], shown["message"], shown["color"]) == (1, message, color)


def test_a_badge_of_broken_evidence_is_no_news_of_the_seam(judged):
    assert badge(judged.report.model_copy(update={"sabotage": "nan_logprob"}))["message"] == "sabotaged"


def test_the_summary_is_appended_to_what_other_steps_wrote(judged, tmp_path, monkeypatch):
    path = tmp_path / "summary.md"
    path.write_text("before\n")
    monkeypatch.setenv(VARIABLE, str(path))
    append_step_summary(judged.report)
    assert path.read_text() == "before\n" + step_summary(judged.report)
    assert "pytest --replay evidence/pi/local/scripted/explore/1 -k LGP-003" in path.read_text()


def test_without_a_job_of_github_no_summary_is_written(judged, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert append_step_summary(judged.report) is None


def test_a_summary_that_github_would_refuse_is_one_sentence(judged):
    seams = judged.report.seams[:1] * 5000
    summary = step_summary(judged.report.model_copy(update={"seams": seams}))
    assert len(summary.encode()) < LARGEST
    assert "5000 seams" in summary


def test_a_missing_reward_and_missing_ids_are_none_and_not_zero(judged):
    evidence = judged.evidence_of(judged.report.seams[2].attempts[0])
    calls = tuple(call.model_copy(update={"prompt_ids": None, "samples": ()}) for call in evidence.calls)
    catalogue = load_catalogue("2026.12")
    rollout = Rollout.of(replace(evidence, calls=calls), catalogue)
    places = {evidence.manifest.attempt_id: "evidence"}
    report = build_report(
        seam_verdicts([rollout], catalogue), catalogue=catalogue, run_id="run", folders=dict.fromkeys(places, judged.folder)
    )
    (attempt,) = report.seams[0].attempts
    assert (attempt.prompt_tokens, attempt.sampled_tokens, attempt.reward) == (None, None, None)
    assert reward_of(attempt) == "none"
    assert "| none | 2 | none | none |" in seam_page(report, report.seams[0])
