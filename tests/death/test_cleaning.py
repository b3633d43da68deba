"""What killed runs have left is found by its mark and taken away; what anybody else has is not.

What one test has left for itself another one's doctor would take away, so of all runs of these tests on a machine one has its turn.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
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
from pytest_harness.wire.outcome import eventually

PATIENCE_SEC = 60.0

HANGS = """#!/bin/bash
trap '' TERM INT HUP
setsid "$0" daemon </dev/null >/dev/null 2>&1 &
while :; do sleep 1000; done
"""
LEAVES = """
import os, subprocess, sys
from pytest_harness.owners import marked, temporary_folder
kept = temporary_folder("killed")
print(kept.__enter__(), flush=True)
variables = marked(os.environ) if sys.argv[1] == "marked" else os.environ
print(subprocess.Popen(["sleep", "1000"], env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL).pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def turn():
    """Until this test is over no other one of this module has left anything, and none cleans, in whatever run it is."""
    machine = os.open("/", os.O_RDONLY)  # a lock of a folder needs no file that would stay
    try:
        fcntl.flock(machine, fcntl.LOCK_EX)
        yield
    finally:
        os.close(machine)


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


def freeze_keeper(owner):
    """Stop the process that would otherwise end the sandbox when this one is killed."""
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if b"keeper.py" in (place / "cmdline").read_bytes() and f":{owner}:".encode() in (place / "environ").read_bytes():
                os.kill(int(place.name), signal.SIGSTOP)
                return
    raise AssertionError("there is no keeper")


@pytest.fixture
def killed(tmp_path, temporary, running, write_toy):
    """Starts pytest on a harness that hangs, kills it when the harness runs, and gives the folder in which it was started."""

    def kill(*options, frozen=False):
        folder = tmp_path / "run"
        write_toy(folder, "hangs", HANGS, does="hangs", seconds=600)
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--harness=hangs", f"--seams={folder / 'seams'}", *options]
        command.append(f"--basetemp={tmp_path / 'basetemp'}")
        with (tmp_path / "log").open("wb") as log:
            run = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        try:
            assert eventually(lambda: running(f"{folder}/bin/hangs"), bool, PATIENCE_SEC), (tmp_path / "log").read_text()
            if frozen:
                freeze_keeper(run.pid)
        finally:
            run.send_signal(signal.SIGKILL)
            run.wait()
        return folder

    return kill


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["alone", "with workers"])
@pytest.mark.usefixtures("nothing_left")
def test_of_a_killed_run_nothing_is_left_once_the_doctor_has_cleaned(killed, running, options):
    folder = killed(*options)
    assert eventually(lambda: running(str(folder)), lambda found: not found, PATIENCE_SEC) == []
    (left,) = (folder / ".harness" / "evidence" / ".running").iterdir()
    assert (left / "journal.ndjson").exists()
    assert f"removed the working folder .harness/evidence/.running/{left.name}" in cleaned(folder)


@pytest.mark.usefixtures("nothing_left")
def test_a_sandbox_that_could_not_end_by_itself_is_ended_by_the_doctor(killed, running):
    folder = killed(frozen=True)
    assert running(f"{folder}/bin/hangs") != []
    assert "removed the process" in cleaned(folder)


def cleaned(folder):
    """What ``doctor --clean`` says."""
    command = [sys.executable, "-m", "pytest_harness.cli", "doctor", "--clean"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.mark.usefixtures("nothing_left")
def test_what_judges_the_saboteurs_ends_with_the_test_that_started_it(tmp_path, running):
    (tmp_path / "hangs.py").write_text("import pathlib, time\npathlib.Path('begun').touch()\ntime.sleep(1000)\n")
    judges = [sys.executable, Path(__file__).parents[1] / "judge_subjects.py", "--runtime", tmp_path, "test", "hangs:Runtime"]
    starts = [sys.executable, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])", *judges]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    with subprocess.Popen(starts, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as test:
        assert eventually((tmp_path / "begun").exists, bool, PATIENCE_SEC)
        test.kill()
    assert eventually(lambda: running(str(tmp_path)), lambda found: not found, PATIENCE_SEC) == []
