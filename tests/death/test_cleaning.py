"""What killed runs have left is found by its mark and taken away; what anybody else has is not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from pytest_harness import cleaning
from pytest_harness.cleaning import CleaningError, leftovers
from pytest_harness.cli import USAGE_ERROR, app
from pytest_harness.doctor import clean
from pytest_harness.owners import FILE, VARIABLE, is_orphan, marked, owner, temporary_folder

LEAVES = """
import os, subprocess, sys
from pytest_harness.owners import marked, temporary_folder
kept = temporary_folder("killed")
print(kept.__enter__(), flush=True)
variables = marked(os.environ) if sys.argv[1] == "marked" else os.environ
print(subprocess.Popen(["sleep", "1000"], env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL).pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def start(temporary):
    """``start("marked")``: a run with a process and a temporary folder of its own; how it is told apart, and both."""
    begun, pids = [], []

    def start(kind):
        run = subprocess.Popen([sys.executable, "-c", LEAVES, kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        begun.append(run)
        folder, pid = Path(run.stdout.readline().strip()), int(run.stdout.readline())
        pids.append(pid)
        assert folder.parent == temporary
        return run, folder, pid

    yield start
    for run in begun:
        with run:
            run.kill()
    for pid in pids:
        try:
            os.kill(pid, 9)
        except ProcessLookupError:
            continue


def seen(folder):
    """Of all that is left on this machine, what this test knows of."""
    return {(each.kind, each.name.partition(":")[0]) for each in leftovers([folder])}


def lives(pid):
    """Whether it runs; one that is dead and not yet buried does not."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() != b""
    except FileNotFoundError:
        return False


def kill(run):
    run.kill()
    run.wait()


def test_what_a_living_run_has_is_not_left(start, tmp_path):
    _, folder, pid = start("marked")
    assert {("process", str(pid)), ("temporary folder", str(folder))} & seen(tmp_path) == set()


def test_what_a_killed_run_had_is_left_and_is_taken_away_and_a_second_time_there_is_nothing(start, tmp_path):
    run, folder, pid = start("marked")
    kill(run)
    assert {("process", str(pid)), ("temporary folder", str(folder))} <= seen(tmp_path)
    done = clean([tmp_path])
    assert {f"removed the process {pid}: sleep 1000", f"removed the temporary folder {folder}"} <= set(done)
    assert {("process", str(pid)), ("temporary folder", str(folder))} & seen(tmp_path) == set()
    assert not folder.exists()
    assert not lives(pid)


def test_a_process_without_a_mark_stays_whoever_started_it(start, tmp_path):
    run, _, pid = start("bare")
    kill(run)
    clean([tmp_path])
    assert lives(pid)


@pytest.mark.parametrize("content", [None, "", "nobody", "x:1:1"])
def test_a_folder_of_such_a_name_stays_if_no_owner_of_this_machine_is_named_in_it(temporary, tmp_path, content):
    folder = temporary / "harness-of-somebody"
    folder.mkdir()
    if content is not None:
        (folder / FILE).write_text(content)
    clean([tmp_path])
    assert folder.exists()


def test_a_link_to_a_folder_that_is_left_is_not_followed(temporary, tmp_path, start):
    run, folder, _ = start("marked")
    elsewhere = tmp_path / "elsewhere"
    folder.rename(elsewhere)
    folder.symlink_to(elsewhere)
    kill(run)
    clean([tmp_path])
    assert (elsewhere / FILE).exists()


def test_a_temporary_folder_goes_with_its_context(temporary):
    with temporary_folder("test") as folder:
        assert folder.parent == temporary
        assert not is_orphan((folder / FILE).read_text())
    assert list(temporary.iterdir()) == []


def test_this_process_is_no_orphan_and_one_that_has_its_number_later_is_not_it():
    place, pid, began = owner().split(":")
    assert not is_orphan(owner())
    assert is_orphan(f"{place}:{pid}:{int(began) + 1}")
    assert marked({"A": "1"}) == {"A": "1", VARIABLE: owner()}


@given(st.text())
def test_for_every_text_that_names_no_process_of_this_boot_and_namespace_nobody_is_an_orphan(text):
    assert not is_orphan(text)
    assert not is_orphan(f"{text}:1:1")


def test_what_cannot_be_taken_away_is_one_sentence_and_the_rest_is_taken_away_all_the_same(tmp_path, monkeypatch):
    def refuse():
        raise CleaningError("one cannot be removed")

    removed = []
    left = [cleaning.Leftover("container", "one", refuse), cleaning.Leftover("container", "two", lambda: removed.append("two"))]
    monkeypatch.setattr("pytest_harness.doctor.leftovers", lambda _: left)
    said = CliRunner().invoke(app, ["doctor", "--clean"])
    assert (said.exit_code, removed) == (USAGE_ERROR, ["two"])
    assert said.stdout.splitlines() == ["removed the container two"]
    assert said.stderr.splitlines() == ["error: one cannot be removed"]


def test_where_nothing_is_left_the_command_says_so(monkeypatch):
    monkeypatch.setattr("pytest_harness.doctor.leftovers", lambda _: [])
    said = CliRunner().invoke(app, ["doctor", "--clean"])
    assert (said.exit_code, said.stdout.splitlines()) == (0, ["nothing was left"])


@pytest.mark.parametrize("other", ["--clear", "--install-vllm"])
def test_cleaning_and_another_work_at_once_is_refused(other):
    said = CliRunner().invoke(app, ["doctor", "--clean", other])
    assert said.exit_code == USAGE_ERROR
    assert "run it apart from the other two" in said.stderr


def test_what_is_left_is_told_whatever_its_command_line_holds(monkeypatch):
    left = [cleaning.Leftover("process", "1: sh -c [/red] [bold]", lambda: None)]
    monkeypatch.setattr("pytest_harness.doctor.leftovers", lambda _: left)
    said = CliRunner().invoke(app, ["doctor"], env={"COLUMNS": "200"})
    assert "a run that was killed left 1: sh -c [/red] [bold]; doctor --clean takes it away" in " ".join(said.stdout.split())
