"""Records that someone made up: no name in one leads out of the folder that was named, and none ends in a traceback or waits for ever."""

from __future__ import annotations

import json
import os
import shutil
import sys

import pytest

from pytest_harness import cli
from pytest_harness.evidence import EvidenceError, find_evidence, read_evidence
from pytest_harness.evidence.seal import SEAL
from pytest_harness.reports.findings import FINDINGS
from pytest_harness.reports.store import REPORT
from pytest_harness.resources import resource

RECORD = resource("fixtures", "evidence", "pi", "local", "scripted", "parallel_calls", "1")
TRAJECTORY = "trial/agent/trajectory.json"


@pytest.fixture
def record(tmp_path):
    """A record without a seal in ``tmp_path/evidence``, nor with the findings of whoever judged it in its place."""
    folder = tmp_path / "evidence" / "1"
    shutil.copytree(RECORD, folder, ignore=shutil.ignore_patterns(FINDINGS))
    (folder / SEAL).unlink(missing_ok=True)
    return folder


def edit(path, change):
    document = json.loads(path.read_text(encoding="utf-8"))
    change(document)
    path.write_text(json.dumps(document), encoding="utf-8")


@pytest.fixture
def judge(record, tmp_path, monkeypatch, capfd):
    """Runs the command on the record and returns its exit code and what it said, on stdout and stderr."""

    def run(*more, evidence=str(record.parent), report_dir=tmp_path / "report"):
        monkeypatch.setattr(sys, "argv", ["harness-conformance", "judge", evidence, "--report-dir", str(report_dir), *map(str, more)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capfd.readouterr()
        return ended.value.code, said.out, said.err

    return run


NOT_NAMES = ["", ".", "..", "../../x", "/x", "a/b", "a\\b", "a\0b", "\ud800"]


@pytest.mark.parametrize("name", NOT_NAMES, ids=ascii)
@pytest.mark.parametrize("what", ["harness", "sandbox", "engine", "scenario"])
def test_a_name_that_is_no_name_of_a_folder_is_refused(record, what, name):
    def change(manifest):
        if what == "scenario":
            manifest["scenario"]["name"] = name
        else:
            manifest[what] = name

    edit(record / "manifest.json", change)
    with pytest.raises(EvidenceError, match=f"the {what}'s name .* is no name of a folder") as caught:
        read_evidence(record)
    assert str(caught.value).isprintable()


def test_nothing_is_written_outside_the_folder_for_the_copies(record, judge, tmp_path):
    edit(record / "manifest.json", lambda manifest: manifest.update(harness="../../outside"))
    code, _, said = judge("--fill-atif", tmp_path / "a" / "b" / "filled")
    assert (code, said.count("\n")) == (cli.USAGE_ERROR, 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["evidence"]


def test_a_lone_surrogate_is_reported_as_its_escape(record, judge, tmp_path):
    edit(record / "manifest.json", lambda manifest: manifest["versions"].update(harness="\ud800"))
    edit(record / TRAJECTORY, lambda document: document["agent"].update(name="\ud801"))
    edit(record / TRAJECTORY, lambda document: document["steps"][-1].update(message="\ud801"))
    code, _, said = judge("--fill-atif", tmp_path / "filled")
    assert (code in (0, 1), said) == (True, "")
    report = (tmp_path / "report" / REPORT).read_text(encoding="utf-8")
    assert json.loads(report)["seams"][0]["version"] == "\ud800"
    assert json.loads((record / FINDINGS).read_text(encoding="utf-8"))["judgements"]


def test_half_of_a_character_in_a_call_is_refused_and_in_a_name_it_breaks_no_check(record, judge):
    edit(record / "manifest.json", lambda manifest: manifest.update(run_id="\ud800"))
    judge()
    judgements = json.loads((record / FINDINGS).read_text(encoding="utf-8"))["judgements"]
    assert "error" not in {each["result"] for each in judgements}
    calls = (record / "calls.ndjson").read_text(encoding="utf-8")
    (record / "calls.ndjson").write_text(calls.replace('"id":"', '"id":"\\ud83d', 1), encoding="utf-8")
    code, _, said = judge()
    assert (code, said.count("\n")) == (cli.USAGE_ERROR, 1)
    assert "calls.ndjson, line 1 holds half of a character" in said


def test_a_name_is_no_markup(record, judge, tmp_path):
    edit(record / "manifest.json", lambda manifest: manifest.update(harness="[bold] [red]x"))
    _, out, said = judge(report_dir=tmp_path / "[" / "red]")
    assert said == ""
    assert out.count("[bold] [red]x in local") >= 2
    assert f"report: {tmp_path}/[/red]/{REPORT}" in out


def test_a_trajectory_that_is_nested_too_deeply_is_not_filled(record, judge, tmp_path):
    deep = "[" * 900 + "]" * 900
    edit(record / TRAJECTORY, lambda document: document.update(extra={"deep": json.loads(deep)}))
    code, out, said = judge("--fill-atif", tmp_path / "filled")
    assert (code, said) == (1, "")
    assert "trajectory.json is nested too deeply to be copied; it is not filled" in out


def test_a_pipe_for_the_seal_is_refused(record):
    os.mkfifo(record / SEAL)
    with pytest.raises(EvidenceError, match=r"seal\.json cannot be read"):
        read_evidence(record)


def test_findings_are_not_written_into_what_is_no_plain_file(record, judge, tmp_path):
    os.mkfifo(record / FINDINGS)
    code, _, said = judge()
    assert (code in (0, 1), said) == (True, "")
    (record / FINDINGS).unlink()
    (tmp_path / "own").write_text("mine")
    (record / FINDINGS).symlink_to(tmp_path / "own")
    judge()
    assert (tmp_path / "own").read_text() == "mine"


def test_a_report_is_not_written_into_a_pipe(judge, tmp_path):
    (tmp_path / "report").mkdir()
    os.mkfifo(tmp_path / "report" / REPORT)
    code, _, said = judge()
    assert (code, said.count("\n")) == (cli.USAGE_ERROR, 1)
    assert "report.json is no plain file" in said


def test_a_copy_is_not_written_into_a_pipe(judge, tmp_path):
    place = tmp_path / "filled" / "pi" / "local" / "scripted" / "parallel_calls" / "1"
    place.mkdir(parents=True)
    os.mkfifo(place / "trajectory.json")
    code, _, said = judge("--fill-atif", tmp_path / "filled")
    assert (code, said.count("\n")) == (cli.USAGE_ERROR, 1)
    assert "trajectory.json is no plain file" in said


def test_a_folder_whose_name_is_not_utf_8_is_judged(record, judge, tmp_path):
    record.rename(record.parent / os.fsdecode(b"\xff"))
    code, _, said = judge()
    assert (code in (0, 1), said) == (True, "")
    report = json.loads((tmp_path / "report" / REPORT).read_text(encoding="utf-8"))
    assert report["seams"][0]["attempts"][0]["evidence"].endswith("\udcff")


@pytest.mark.parametrize("where", [".", "trial/agent"])
def test_a_folder_that_cannot_be_looked_into_is_named(record, judge, monkeypatch, where):
    scandir, closed = os.scandir, record / where

    def refusing(path):
        if os.fspath(path) == str(closed):
            raise PermissionError(13, "Permission denied", str(closed))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)  # not chmod, which root is not stopped by
    with pytest.raises(EvidenceError, match="cannot be read"):
        [read_evidence(folder) for folder in find_evidence(record.parent)]
    code, _, said = judge()
    assert (code, said.count("\n")) == (cli.USAGE_ERROR, 1)
    assert f"{closed} cannot be read: Permission denied" in said


@pytest.mark.parametrize("argument", ["--report-dir=", "--fill-atif="])
def test_an_empty_path_of_an_option_is_refused(judge, argument):
    code, _, said = judge(argument)
    assert (code, "an empty path names no folder" in said) == (cli.USAGE_ERROR, True)


def test_an_empty_path_is_not_the_current_folder(record, judge, monkeypatch):
    monkeypatch.chdir(record.parent)
    code, _, said = judge(evidence="")
    assert (code, "an empty path names no folder" in said) == (cli.USAGE_ERROR, True)


def test_a_path_that_cannot_be_is_one_sentence(judge):
    code, _, said = judge(evidence="x" * 300)
    assert (code, said.count("\n")) == (cli.USAGE_ERROR, 1)
