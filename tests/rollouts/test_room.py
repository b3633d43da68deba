"""Rollouts wait for memory, never for ever, and whoever dies gives back what was set aside for it."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading

import pytest

from pytest_harness.rollouts.room import _held, _ticket, free_mb, room

HOLDER = """
import sys
from pathlib import Path
from pytest_harness.rollouts.room import room
with room(Path(sys.argv[1]), "other", int(sys.argv[2]), lambda: 1000):
    print("in", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """``holder(weight)``: another process that holds a ticket until its input ends."""
    started = []

    def start(weight):
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(tmp_path), str(weight)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout.readline() == "in\n"
        return process

    yield start
    for process in started:
        with process:
            process.kill()


def test_whoever_fits_beside_the_others_enters(tmp_path, holder):
    holder(400)
    with room(tmp_path, "mine", 600, lambda: 1000):
        assert {path.name for path in tmp_path.iterdir()} >= {"mine", "other"}
    assert not (tmp_path / "mine").exists()


def test_whoever_is_alone_enters_however_much_it_needs(tmp_path):
    with room(tmp_path, "mine", 10_000, lambda: 1000):
        pass


@pytest.mark.parametrize("end", ["it ends", "it is killed"])
def test_whoever_does_not_fit_waits_and_enters_when_the_other_is_gone(tmp_path, holder, end):
    other = holder(600)
    entered = []

    def enter():
        with room(tmp_path, "mine", 600, lambda: 1000):
            entered.append(other.poll() is not None or not (tmp_path / "other").exists())

    thread = threading.Thread(target=enter)
    thread.start()
    if end == "it ends":
        other.stdin.close()
    else:
        other.kill()
    thread.join()
    assert entered == [True]


def test_there_is_no_ticket_while_the_others_may_take_what_is_there(tmp_path, holder):
    holder(600)
    assert _ticket(tmp_path, "mine", 401, lambda: 1000) is None
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize("held", [True, False], ids=["its process still lives", "its process has just ended"])
def test_a_ticket_that_is_given_back_while_it_is_looked_at_disturbs_nobody(tmp_path, holder, monkeypatch, held):
    if held:
        holder(600)
    else:
        (tmp_path / "other").write_text("600")
    lock = fcntl.flock

    def given_back_meanwhile(descriptor, how):
        (tmp_path / "other").unlink(missing_ok=True)
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", given_back_meanwhile)
    assert [*_held(tmp_path).values()] == ([600] if held else [])


def test_a_ticket_of_the_dead_weighs_nothing(tmp_path):
    (tmp_path / "dead").write_text("900")
    with room(tmp_path, "mine", 600, lambda: 1000):
        assert not (tmp_path / "dead").exists()


def test_an_exception_gives_the_room_back(tmp_path):
    with pytest.raises(ZeroDivisionError), room(tmp_path, "mine", 600, lambda: 1000):
        raise ZeroDivisionError
    assert not (tmp_path / "mine").exists()


def test_this_machine_has_memory():
    assert 0 < free_mb() <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
