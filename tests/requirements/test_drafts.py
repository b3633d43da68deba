"""A draft is judged and shown, and is part of no verdict, no count and no exit code."""

import io

import pytest
from rich.console import Console

from pytest_harness.contract import Finding, Judgement
from pytest_harness.contract import model as contract
from pytest_harness.contract.model import Fault
from pytest_harness.reports.build import build_report
from pytest_harness.reports.terminal import print_findings, print_matrix, print_remarks
from pytest_harness.requirements import RequirementsError, load_catalogue, read_catalogue, with_drafts
from pytest_harness.session.judged import Judged
from pytest_harness.session.outcome import DRAFT_NOT_MET, category_of, raise_outcome
from pytest_harness.verdict import Rollout, seam_verdicts

DRAFT = """
[[requirement]]
id = "TOK-099"
title = "A draft"
level = "MUST"
subjects = ["seam"]
statement = "A statement."
why = "A reason."
seen = "A place."
saboteurs = ["one"]
"""


@pytest.fixture
def drafts(tmp_path):
    path = tmp_path / "draft.toml"
    path.write_text(DRAFT)
    return path


@pytest.fixture
def catalogue(drafts):
    return with_drafts(load_catalogue(), drafts)


@pytest.fixture(params=["failed", "error"])
def broken_draft(request, monkeypatch):
    """The check of the draft: it finds a fault, or breaks."""

    def check(_):
        if request.param == "error":
            raise ValueError("our own fault")
        return [Fault(0, "something", "nothing", "nowhere")]

    monkeypatch.setitem(contract._CHECKS, "TOK-099", check)


def report_by(catalogue, evidence, folder):
    rollout = Rollout.of(evidence, catalogue)
    verdicts = seam_verdicts([rollout], catalogue)
    return build_report(verdicts, catalogue=catalogue, run_id="r", folders={evidence.manifest.attempt_id: folder})


def test_without_a_file_of_drafts_there_is_only_the_set(tmp_path):
    assert with_drafts(load_catalogue(), tmp_path / "draft.toml") == load_catalogue()


def test_a_draft_stands_behind_the_set_and_binds_nobody(catalogue):
    *scored, draft = catalogue
    assert scored == list(load_catalogue())
    assert (draft.id, draft.since, draft.draft, draft.binding) == ("TOK-099", "draft", True, False)


def test_a_draft_of_what_the_set_has_already_is_refused(drafts):
    with pytest.raises(RequirementsError, match="TOK-099 is in set draft already; remove the draft"):
        with_drafts(read_catalogue(drafts), drafts)


@pytest.mark.usefixtures("broken_draft")
def test_a_draft_that_fails_changes_neither_verdict_nor_count_nor_exit_code(healthy, catalogue, tmp_path):
    report = report_by(catalogue, healthy.pi(), tmp_path)
    without = report_by(load_catalogue(), healthy.pi(), tmp_path)
    assert report.ok
    assert [entry.standing for entry in report.seams[0].requirements if entry.draft] != ["passed"]
    same = {"status", "why", "required", "ran", "families", "stale_deviations"}
    assert report.seams[0].model_dump(include=same) == without.seams[0].model_dump(include=same)
    assert (report.ok, report.required, report.ran) == (without.ok, without.required, without.ran)


@pytest.mark.usefixtures("broken_draft")
def test_a_draft_that_fails_is_shown_as_one_that_is_not_scored(healthy, catalogue, tmp_path):
    report = report_by(catalogue, healthy.pi(), tmp_path)
    console = Console(file=io.StringIO(), width=200)
    print_findings(report, console)
    print_remarks(report, console)
    print_matrix(report, console)
    lines = [line for line in console.file.getvalue().splitlines() if "TOK-099" in line and "--replay" not in line]
    assert lines == ["pi in local: TOK-099 A draft (MUST, a draft that is not scored): A statement."]


@pytest.mark.parametrize("result", ["failed", "error"])
def test_in_pytest_a_draft_that_fails_is_a_skip_of_its_own_name(catalogue, tmp_path, result):
    finding = Finding("TOK-099", 0, "something", "nothing", "nowhere")
    judgement = Judgement(catalogue["TOK-099"], "pi-in-local-edit_file", result, (finding,) if result == "failed" else (), "")
    assert category_of(judgement) == DRAFT_NOT_MET
    with pytest.raises(pytest.skip.Exception):
        raise_outcome(Judged(tmp_path, judgement))
