"""Published reports say what the evidence says, the same everywhere, without this machine; and whatever disagrees with them is found."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_harness.evidence import KnownFailure, write_evidence
from pytest_harness.reports.claims import broken_claims
from pytest_harness.reports.cleaning import Machine, Unpublishable
from pytest_harness.reports.model import ReportedSeam
from pytest_harness.reports.publish import disagreements, publish
from pytest_harness.reports.published import BEGIN, END, PublishError
from pytest_harness.requirements import load_catalogue
from pytest_harness.seams import SeamTable, read_seams

ROOT = Path(__file__).resolve().parents[2]

ROW = """
name = "{name}"
title = "The harness {name}"
homepage = "https://example.org"
dialect = "chat"
streams = {streams}
scenarios = ["edit_file"]
trajectory = "atif"
[install]
kind = "preinstalled"
path = "there"
version = "1"
commands = {{ it = "it" }}
[agent]
command = "it {{instruction}}"
timeout_sec = {seconds}
"""
README = f"# A project\n\n{BEGIN}\n{END}\n\nThe end.\n"


def table_of(folder, seconds=60):
    """A table of two rows."""
    seams = {}
    for name, streams in (("pi", "true"), ("mini-swe-agent", "false")):
        path = folder / f"{name}.toml"
        path.write_text(ROW.format(name=name, streams=streams, seconds=seconds))
        seams |= {seam.name: seam for seam in read_seams(path)}
    return SeamTable(seams)


@pytest.fixture(scope="module")
def catalogue():
    return load_catalogue()


@pytest.fixture
def table(tmp_path):
    return table_of(tmp_path)


@pytest.fixture
def write(healthy, table):
    """``write(folder, "pi", …)``: evidence of a row of the table, made as its row is now."""

    def write(folder, harness, **more):
        made = (healthy.pi if harness == "pi" else healthy.mini)(**more)
        manifest = made.manifest.model_copy(
            update={"seam": made.manifest.seam.model_copy(update={"digest": table[harness].facts.digest, "scenarios": ("edit_file",)})}
        )
        scratch = folder.parent / "scratch"
        for path, text in made.files.items():
            (scratch / path).parent.mkdir(parents=True, exist_ok=True)
            (scratch / path).write_text(text)
        write_evidence(folder, manifest, made.calls, {name: scratch / name for name in ("trial", "native")})

    return write


@pytest.fixture
def reports(tmp_path, write, table, catalogue):
    """Two published reports and the README with their table."""
    write(tmp_path / "evidence", "pi")
    write(tmp_path / "evidence", "mini-swe-agent")
    (tmp_path / "README.md").write_text(README)
    outcome = publish(tmp_path / "evidence", tmp_path / "reports", seams=table, catalogue=catalogue, readme=tmp_path / "README.md")
    assert outcome.written == ("mini-swe-agent-in-local", "pi-in-local")
    assert (outcome.passed_over, outcome.open) == ((), ())
    return tmp_path / "reports"


def everything(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def open_points(reports, table, catalogue):
    return list(disagreements(reports, table, catalogue, reports.parent / "README.md"))


def test_each_seam_has_a_report_and_a_page_to_which_matrix_and_readme_lead(reports):
    assert sorted(everything(reports)) == [
        "matrix.json",
        "matrix.md",
        *(f"seams/{name}-in-local.{suffix}" for name in ("mini-swe-agent", "pi") for suffix in ("json", "md")),
    ]
    assert "[The harness pi](seams/pi-in-local.md) | 1.6.0 | chat | local | untested |" in (reports / "matrix.md").read_text()
    readme = (reports.parent / "README.md").read_text()
    assert "[The harness pi](reports/seams/pi-in-local.md)" in readme
    assert readme.startswith("# A project\n")
    assert readme.endswith("\n\nThe end.\n")
    assert "pytest --harness=pi --sandbox=local" in (reports / "seams" / "pi-in-local.md").read_text()


def test_the_same_evidence_elsewhere_gives_the_same_bytes(tmp_path, reports, table, catalogue):
    (tmp_path / "evidence").rename(tmp_path / "moved")
    (tmp_path / "elsewhere").mkdir()
    publish(tmp_path / "moved", tmp_path / "elsewhere" / "reports", seams=table, catalogue=catalogue)
    assert everything(tmp_path / "elsewhere" / "reports") == everything(reports)


def test_nothing_of_this_machine_is_published(tmp_path, reports):
    for path, content in everything(reports).items():
        assert str(tmp_path).encode() not in content, path
        assert str(Path.cwd()).encode() not in content, path


def test_a_second_publication_keeps_what_it_does_not_replace(tmp_path, reports, table, catalogue, write):
    before = everything(reports)
    write(tmp_path / "later", "pi", attempt=2)
    outcome = publish(tmp_path / "later", reports, seams=table, catalogue=catalogue, readme=tmp_path / "README.md")
    assert outcome.written == ("pi-in-local",)
    after = everything(reports)
    assert {path for path in after if after[path] != before[path]} == {"seams/pi-in-local.json", "seams/pi-in-local.md"}


def test_a_row_that_changed_since_is_named_with_the_command_that_runs_it_again(tmp_path, reports, catalogue):
    changed = table_of(tmp_path, seconds=61)
    found = open_points(reports, changed, catalogue)
    assert any(each.startswith("pi-in-local: its row of the seam table has changed") and "pytest --harness=pi " in each for each in found)
    outcome = publish(tmp_path / "evidence", reports, seams=changed, catalogue=catalogue)
    assert outcome.written == ()
    assert [each.partition(":")[0] for each in outcome.passed_over] == ["mini-swe-agent 1.6.0 in local", "pi 1.6.0 in local"]


def test_what_has_no_row_is_not_published_and_a_row_that_is_gone_takes_its_report_along(reports, table, catalogue):
    only_pi = SeamTable({"pi": table["pi"]})
    assert any("the seam table has no row mini-swe-agent" in each for each in open_points(reports, only_pi, catalogue))
    outcome = publish(reports.parent / "evidence", reports, seams=only_pi, catalogue=catalogue, readme=reports.parent / "README.md")
    assert outcome.passed_over == ("mini-swe-agent 1.6.0 in local: the seam table has no row mini-swe-agent",)
    assert open_points(reports, only_pi, catalogue) == []
    assert not list(reports.glob("seams/mini*"))


def test_a_row_without_a_report_is_in_the_matrix_as_untested_and_has_no_numbers(reports, table, catalogue):
    (reports / "seams" / "pi-in-local.json").unlink()
    publish(reports.parent / "evidence" / "mini-swe-agent", reports, seams=table, catalogue=catalogue)
    rows = {row["harness"]: row for row in json.loads((reports / "matrix.json").read_text())["seams"]}
    assert (rows["pi"]["status"], rows["pi"]["ran"], rows["pi"]["required"], rows["pi"]["met"]) == ("untested", None, None, None)
    assert "| The harness pi | - | chat | - | untested | - | - | - | 0 | - |" in (reports / "matrix.md").read_text()


def test_what_a_row_came_to_know_after_the_run_counts_where_it_is_published(tmp_path, reports, catalogue):
    path = tmp_path / "pi.toml"
    known = '[[known_failures]]\nrequirement = "PAR-001"\nreason = "it loses one"\nflaky = true\n'
    path.write_text(f"{ROW.format(name='pi', streams='true', seconds=60)}\n{known}".replace('["edit_file"]', '["edit_file", "explore"]'))
    changed = SeamTable({seam.name: seam for each in ("pi", "mini-swe-agent") for seam in read_seams(tmp_path / f"{each}.toml")})
    outcome = publish(tmp_path / "evidence", reports, seams=changed, catalogue=catalogue)
    assert outcome.passed_over == ()
    (seam,) = json.loads((reports / "seams" / "pi-in-local.json").read_text())["seams"]
    assert (seam["status"], seam["scenarios"]) == ("unsupported", ["edit_file", "explore"])
    assert seam["why"].endswith("(known: it loses one)")


def validated(seam):
    seam["status"], seam["why"] = "validated", ""


def a_failure_forgotten(seam):
    """A requirement was broken in the attempt and is passed in the report."""
    attempt = seam["attempts"][0]
    attempt["results"]["passed"] = [name for name in attempt["results"]["passed"] if name != "TOK-001"]
    attempt["results"]["failed"] = ["TOK-001"]


def a_failure_excused(seam):
    """Attempt and requirement say that it was broken, and the verdict does not."""
    a_failure_forgotten(seam)
    requirement = next(each for each in seam["requirements"] if each["id"] == "TOK-001")
    requirement["results"], requirement["standing"] = {"failed": 1}, "failed"
    seam["families"]["TOK"]["passed"] -= 1
    seam["families"]["TOK"]["failed"] = 1


def a_standing_improved(seam):
    requirement = next(each for each in seam["requirements"] if each["standing"] == "not_exercised" and each["results"])
    requirement["standing"] = "passed"


def a_family_rounded_up(seam):
    seam["families"]["TOK"]["passed"] += 1


def a_reward_invented(seam):
    seam["rewards"], seam["graded"] = {"valid": 2}, 2


def an_attempt_that_counts_for_nothing(seam):
    seam["attempts"][0]["valid"] = False


def a_requirement_forgotten(seam):
    """As if it had never been asked: neither the seam nor the attempt says anything of it."""
    seam["requirements"] = [each for each in seam["requirements"] if each["id"] != "TOK-001"]
    seam["families"]["TOK"]["passed"] -= 1
    passed = seam["attempts"][0]["results"]["passed"]
    passed.remove("TOK-001")


def a_must_made_a_should(seam):
    next(each for each in seam["requirements"] if each["id"] == "TOK-001")["level"] = "SHOULD"


def a_judgement_forgotten(seam):
    """An attempt that was not judged by a requirement, which says so itself."""
    seam["attempts"][0]["results"]["passed"].remove("TOK-001")
    requirement = next(each for each in seam["requirements"] if each["id"] == "TOK-001")
    requirement["results"], requirement["standing"] = {}, "not_exercised"
    seam["families"]["TOK"]["passed"] -= 1
    seam["families"]["TOK"]["not_exercised"] = seam["families"]["TOK"].get("not_exercised", 0) + 1


@pytest.mark.parametrize(
    "improve",
    [
        a_requirement_forgotten,
        a_must_made_a_should,
        a_judgement_forgotten,
        validated,
        a_failure_forgotten,
        a_failure_excused,
        a_standing_improved,
        a_family_rounded_up,
        a_reward_invented,
        an_attempt_that_counts_for_nothing,
    ],
)
def test_a_report_that_is_better_than_its_attempts_is_found(reports, table, catalogue, improve):
    path = reports / "seams" / "pi-in-local.json"
    report = json.loads(path.read_text())
    improve(report["seams"][0])
    path.write_text(json.dumps(report))
    publish(reports.parent / "evidence" / "mini-swe-agent", reports, seams=table, catalogue=catalogue, readme=reports.parent / "README.md")
    found = open_points(reports, table, catalogue)
    assert found
    assert all(each.startswith("pi-in-local: ") for each in found)


@pytest.mark.parametrize("name", ["matrix.json", "matrix.md", "seams/pi-in-local.md", "../README.md"])
def test_a_page_that_was_edited_by_hand_is_found(reports, table, catalogue, name):
    path = reports / name
    path.write_text(path.read_text().replace("untested", "validated"))
    assert len(open_points(reports, table, catalogue)) == 1


def test_a_page_of_no_report_is_found_and_goes(reports, table, catalogue):
    (reports / "seams" / "gone-in-local.md").write_text("# gone")
    assert len(open_points(reports, table, catalogue)) == 1
    publish(reports.parent / "evidence", reports, seams=table, catalogue=catalogue)
    assert open_points(reports, table, catalogue) == []


@pytest.mark.parametrize("content", ["{", "[]", '{"report_version": 1}', "\ud800"])
def test_a_report_that_is_none_is_one_sentence(reports, table, catalogue, content):
    (reports / "seams" / "pi-in-local.json").write_text(content, errors="surrogatepass")
    with pytest.raises(PublishError, match=r"pi-in-local\.json"):
        open_points(reports, table, catalogue)


def test_a_report_under_anothers_name_is_refused(reports, table, catalogue):
    (reports / "seams" / "pi-in-local.json").rename(reports / "seams" / "codex-in-local.json")
    with pytest.raises(PublishError, match="is the report of pi in local"):
        open_points(reports, table, catalogue)


def test_a_readme_without_a_place_for_the_table_is_one_sentence_and_nothing_is_written(tmp_path, write, table, catalogue):
    write(tmp_path / "evidence", "pi")
    (tmp_path / "README.md").write_text("# A project")
    with pytest.raises(PublishError, match=r"README\.md has no place for the table"):
        publish(tmp_path / "evidence", tmp_path / "reports", seams=table, catalogue=catalogue, readme=tmp_path / "README.md")
    assert not (tmp_path / "reports").exists()


def machine(**words):
    return Machine({"/home/somebody": "<home>", "/home/somebody/cache": "<cache>"}, words)


def test_folders_of_the_machine_are_replaced_the_longest_first():
    document = {"a": ["no /home/somebody/cache/x", {"/home/somebody/y": 1}], "b": None}
    assert machine().cleaned(document, "pi") == {"a": ["no <cache>/x", {"<home>/y": 1}], "b": None}


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer abcdefghijklmnopqrstuvwx",
        "key sk-abcdefghijklmnopqrst",
        "https://user:password@example.org",
        "-----BEGIN OPENSSH PRIVATE KEY-----",
        "it ran on build-machine-7",
    ],
)
def test_a_secret_or_the_name_of_the_machine_is_refused_and_not_repeated(text):
    with pytest.raises(Unpublishable, match=r"^pi in local: .* is in it") as refused:
        machine(**{"build-machine-7": "the name of this machine"}).cleaned({"why": [text]}, "pi in local")
    assert text not in str(refused.value)


def test_what_this_process_was_told_in_secret_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "correct-horse-battery")
    monkeypatch.setenv("UV_INDEX_URL", "https://mirror.example.org/simple")
    here = Machine.this(tmp_path)
    assert here.refused("it printed correct-horse-battery") == "the value of SOME_API_KEY"
    assert here.refused("from mirror.example.org") == "the host of UV_INDEX_URL"
    assert here.refused("nothing") is None


def command(*arguments):
    run = [sys.executable, "-m", "pytest_harness.cli", "publish", *map(str, arguments)]
    return subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_command_refuses_a_folder_without_evidence(tmp_path):
    done = command(tmp_path, "--into", tmp_path / "reports")
    assert done.returncode == 4
    assert "holds no evidence" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_command_is_red_where_it_published_nothing(tmp_path, write):
    write(tmp_path / "evidence", "pi")
    done = command(tmp_path / "evidence", "--into", tmp_path / "reports")
    assert done.returncode == 1
    assert "not published: pi 1.6.0 in local: it was run with another row than the table has now" in done.stdout
    assert "0 reports published" in done.stdout


def test_the_reports_of_this_project_the_seam_table_and_the_readme_say_the_same(catalogue):
    found = list(disagreements(ROOT / "reports", SeamTable.load(), catalogue, ROOT / "README.md"))
    assert not found, "\n".join(found)


def test_a_validated_report_of_a_row_that_knows_a_failure_is_found(tmp_path, reports, table, catalogue):
    report = json.loads((reports / "seams" / "pi-in-local.json").read_text())
    row = table["pi"].facts.model_copy(update={"known_failures": (KnownFailure(requirement="PAR-001", reason="it loses one"),)})
    seam = ReportedSeam.model_validate_json(json.dumps(report["seams"][0] | {"status": "validated", "why": ""}))
    assert "it is validated, and its row says that it breaks PAR-001" in broken_claims(seam, row, catalogue)
