"""What is sent, and what never is: only what a run wrote, only whole, and nothing in which a secret is seen."""

import gzip
import json
import shutil
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_harness import cli
from pytest_harness.pushing import PushError
from pytest_harness.pushing.records import gather
from pytest_harness.pushing.scan import check, value_in
from pytest_harness.reports.cleaning import secret_values
from pytest_harness.resources import resource

ATTEMPT = "pi/local/scripted/no_verdict/1"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A folder with a report in all forms."""
    folder = tmp_path_factory.mktemp("reported") / "report"
    shutil.copytree(resource("fixtures", "evidence") / ATTEMPT, folder.parent / "judged")
    with pytest.raises(SystemExit):
        cli.app(["judge", str(folder.parent / "judged"), "--report-dir", str(folder)], standalone_mode=False)
    return folder


def names(*folders):
    return [item.name for item in gather(folders)]


def test_an_attempt_is_sent_whole_below_the_name_of_its_folder(evidence):
    here = {path.relative_to(evidence).as_posix() for path in evidence.rglob("*") if path.is_file()}
    assert set(names(evidence)) == {f"evidence/{name}" for name in here}


def test_a_report_is_sent_in_all_forms(report):
    assert set(names(report)) == {f"report/{path.relative_to(report).as_posix()}" for path in report.rglob("*") if path.is_file()}
    assert "report/pages/pi-in-local.md" in names(report)


def test_what_lies_beside_a_report_and_evidence_is_not_sent(report, evidence, tmp_path):
    shutil.copytree(report, tmp_path / "all", dirs_exist_ok=True)
    shutil.copytree(evidence, tmp_path / "all" / "evidence")
    before = names(tmp_path / "all")
    (tmp_path / "all" / "private.txt").write_text("mine")
    (tmp_path / "all" / ".env").write_text("mine")
    (tmp_path / "all" / "evidence" / "notes.md").write_text("mine")
    assert names(tmp_path / "all") == before


def test_the_ledger_of_a_collection_goes_with_its_episodes(evidence):
    (evidence / "episodes.jsonl").write_text("{}\n")
    assert "evidence/episodes.jsonl" in names(evidence)


def test_a_link_leads_nothing_out_of_the_record(evidence, tmp_path):
    (tmp_path / "outside").write_text("mine")
    (evidence / ATTEMPT / "native").mkdir(exist_ok=True)
    (evidence / ATTEMPT / "native" / "link").symlink_to(tmp_path / "outside")
    assert not [name for name in names(evidence) if name.endswith("link")]


def test_evidence_that_was_changed_is_not_sent(evidence, tmp_path, push):
    (evidence / ATTEMPT / "calls.ndjson").write_text("")
    code, _, said = push(evidence, "--to", tmp_path / "there")
    assert (code, said.count("\n")) == (cli.USAGE_ERROR, 1)
    assert "calls.ndjson was changed after the evidence was written" in said
    assert not (tmp_path / "there").exists()


@pytest.mark.parametrize("name", ["report.json", "wire.json"])
def test_what_only_has_the_name_of_a_report_is_refused(tmp_path, name):
    (tmp_path / name).write_text("{}")
    with pytest.raises(PushError, match=rf"{name} is no report that this version reads"):
        gather([tmp_path])


def test_a_folder_without_anything_of_ours_is_refused(tmp_path):
    with pytest.raises(PushError, match="holds neither evidence nor a report"):
        gather([tmp_path])


def test_two_folders_of_one_name_are_refused(evidence, tmp_path):
    shutil.copytree(evidence, tmp_path / "other" / "evidence")
    with pytest.raises(PushError, match="would both be called evidence"):
        gather([evidence, tmp_path / "other" / "evidence"])


@pytest.mark.parametrize("secret", ["sk-" + "a" * 24, "hf_" + "b" * 24, "Authorization: Bearer " + "c" * 20, "https://me:" + "pass@host/"])
def test_a_secret_by_its_shape_keeps_everything_here(report, tmp_path, push, secret):
    shutil.copytree(report, tmp_path / "report")
    with (tmp_path / "report" / "matrix.md").open("a") as page:
        page.write(secret)
    code, _, said = push(tmp_path / "report", "--to", tmp_path / "there")
    assert (code, said.count("\n")) == (cli.USAGE_ERROR, 1)
    assert "matrix.md" in said
    assert "nothing was sent" in said
    assert secret not in said
    assert not (tmp_path / "there").exists()


@given(value=st.text(st.characters(codec="utf-8", exclude_characters="\0", exclude_categories=["Cs"]), min_size=8, max_size=30))
def test_for_every_value_of_a_secret_variable_it_is_found_as_it_is_and_as_json(value):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOME_API_KEY", value)
        values = secret_values()
    assert value_in(f"before {value} behind", values) == "the value of SOME_API_KEY"
    assert value_in(json.dumps({"echoed": f"before {value} behind"}), values) == "the value of SOME_API_KEY"


def test_the_value_of_a_secret_variable_keeps_everything_here(report, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "pi in local")
    with pytest.raises(PushError, match=r"the value of SOME_API_KEY in .+: nothing was sent"):
        check(gather([report]))


def test_what_is_compressed_is_sent_only_if_somebody_says_so(report, tmp_path):
    folder = tmp_path / "report"
    shutil.copytree(report, folder)
    (folder / "matrix.md").write_bytes(gzip.compress(b"sk-" + b"a" * 24))
    with pytest.raises(PushError, match=r"matrix\.md: compressed, so no secret in it can be seen"):
        check(gather([folder]))
    check(gather([folder]), packed=True)


def test_no_other_command_loads_what_a_push_needs():
    code = "import sys, pytest_harness.cli, pytest_harness.plugin; print({'huggingface_hub', 'fsspec'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
