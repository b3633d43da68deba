"""``harness-conformance report``: all forms from evidence, or anew from a report; bad input is one sentence."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pytest_harness import cli
from pytest_harness.reports.again import ReportError, read_report
from pytest_harness.reports.files import page_names
from pytest_harness.reports.published import PublishError
from pytest_harness.reports.published import read_report as read_published
from pytest_harness.requirements import RequirementsError

EVIDENCE = Path(__file__).resolve().parents[2] / "fixtures" / "evidence"
FORMS = {"report.json", "index.html", "matrix.md", "ctrf.json", "junit.xml", "badge.json", "pages"}


@pytest.fixture
def report(capsys):
    def run(*arguments):
        try:
            cli.app(["report", *map(str, arguments)], standalone_mode=False)
        except SystemExit as end:
            return end.code, *capsys.readouterr()
        return 0, *capsys.readouterr()

    return run


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("written")
    shutil.copytree(EVIDENCE / "mini-swe-agent" / "local" / "scripted" / "no_verdict", folder / "evidence" / "no_verdict")
    result = CliRunner().invoke(cli.app, ["report", str(folder / "evidence"), "--report-dir", str(folder / "report")])
    assert result.exit_code == 0, result.output
    return folder


def test_all_forms_are_written_of_evidence(written):
    assert {path.name for path in (written / "report").iterdir()} == FORMS


def test_a_report_is_written_anew_in_its_own_folder_with_the_evidence_that_it_names(written, report):
    before = (written / "report" / "index.html").read_text()
    (written / "report" / "index.html").unlink()
    assert report(written / "report")[0] == 0
    assert (written / "report" / "index.html").read_text() == before


def test_evidence_that_is_not_there_any_more_is_said_on_the_page(written, report, tmp_path):
    document = json.loads((written / "report" / "report.json").read_text())
    document["seams"][0]["attempts"][0]["evidence"] = "gone"
    (tmp_path / "report.json").write_text(json.dumps(document))
    assert report(tmp_path)[0] == 0
    assert "Its evidence could not be read from gone." in (tmp_path / "index.html").read_text()


def test_another_attempt_in_the_same_place_is_not_shown_for_this_one(written, report, tmp_path):
    document = json.loads((written / "report" / "report.json").read_text())
    document["seams"][0]["attempts"][0]["id"] = "another"
    (tmp_path / "report.json").write_text(json.dumps(document))
    assert report(tmp_path)[0] == 0
    assert "Its evidence could not be read from" in (tmp_path / "index.html").read_text()


def test_a_folder_without_evidence_is_one_sentence(report, tmp_path):
    code, _, said = report(tmp_path)
    assert (code, said.count("\n")) == (cli.USAGE_ERROR, 1)
    assert f"{tmp_path} holds no evidence" in said


def test_what_is_no_report_is_one_sentence(report, tmp_path):
    (tmp_path / "report.json").write_text("{}")
    code, _, said = report(tmp_path)
    assert (code, said.count("\n")) == (cli.USAGE_ERROR, 1)
    assert "is no report that this version reads" in said


def test_a_report_is_not_joined_with_evidence(written, report):
    code, _, said = report(written / "report", written / "evidence")
    assert (code, said.count("\n")) == (cli.USAGE_ERROR, 1)
    assert "holds a report already" in said


def test_a_report_is_not_judged_by_another_set(written, report):
    code, _, said = report(written / "report", "--requirements", "2026.11")
    assert (code, said.count("\n")) == (cli.USAGE_ERROR, 1)
    assert "is not judged again" in said


def test_a_place_that_cannot_be_written_is_one_sentence(written, report, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, said = report(written / "evidence", "--report-dir", tmp_path / "file")
    assert (code, said.count("\n")) == (cli.USAGE_ERROR, 1)
    assert "cannot be written" in said


def test_seams_whose_pages_would_have_one_name_have_one_each(judged):
    names = ("pi in local", "pi / in local", "../pi in local", "pi in local~2", "", "...")
    seams = tuple(judged.report.seams[0].model_copy(update={"name": name}) for name in names)
    found = page_names(judged.report.model_copy(update={"seams": seams}))
    assert len(set(found)) == len(names)
    assert all("/" not in name and not name.startswith(".") for name in found)


@pytest.mark.parametrize("content", ["{", '{"report_version": 1}', "\ud800"])
def test_a_published_report_and_one_of_a_run_are_refused_for_the_same_reason(tmp_path, content):
    path = tmp_path / "report.json"
    path.write_text(content, errors="surrogatepass")
    with pytest.raises(ReportError) as of_a_run:
        read_report(tmp_path)
    with pytest.raises(PublishError) as published:
        read_published(path)
    reasons = {str(error.value).rpartition("; ")[0] for error in (of_a_run, published)}
    assert len(reasons) == 1
    assert reasons.pop().startswith(f"{path} ")


def test_a_folder_that_leads_to_itself_is_one_sentence(written, report, tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    for arguments in ((tmp_path / "loop",), (written / "evidence", "--report-dir", tmp_path / "loop" / "below")):
        code, _, said = report(*arguments)
        assert code == 4
        assert "loop" in said
        assert said.count("\n") == 1


def test_an_empty_requirement_set_is_not_the_newest(written, tmp_path):
    with pytest.raises(RequirementsError, match="there is no requirement set ''"):
        cli.app(["judge", str(written / "evidence"), "--requirements", "", "--report-dir", str(tmp_path)], standalone_mode=False)
