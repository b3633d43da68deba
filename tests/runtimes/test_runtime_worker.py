"""A program in another Python is asked line by line; its questions, its faults and its death each come out as what they are."""

import sys

import pytest

from pytest_harness.runtimes.worker import WORKERS, Worker
from pytest_harness.wire import AdapterError, Broken

PROGRAM = f"""
import os, sys
sys.path.insert(0, {str(WORKERS)!r})
from lines import Asker

def double(asker, request):
    print("a library that prints")
    return [asker.ask("number", of=name) * 2 for name in request["names"]]

def caught(asker, request):
    try:
        return asker.ask("number", of="x")
    except TimeoutError as error:
        return f"timeout: {{error}}"

def torn(asker, request):
    raise KeyError("torn")

def dies(asker, request):
    sys.stderr.write("out of memory\\n")
    os._exit(9)

Asker().serve({{"double": double, "caught": caught, "torn": torn, "dies": dies}})
"""


@pytest.fixture
def worker(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    made = Worker(sys.executable, str(tmp_path / "program.py"), tmp_path)
    made.start()
    yield made
    made.stop()


def test_its_questions_are_answered_before_it_answers(worker):
    numbers = {"a": 1, "b": 20}
    assert worker.ask({"do": "double", "names": ["a", "b"]}, lambda question: numbers[question["of"]]) == [2, 40]


def test_what_the_answer_raises_is_raised_where_it_asked(worker):
    def late(_):
        raise TimeoutError("no answer in time")

    assert worker.ask({"do": "caught"}, late) == "timeout: no answer in time"


def test_its_own_fault_is_one_of_the_adapter_and_it_lives_on(worker):
    with pytest.raises(AdapterError, match="torn"):
        worker.ask({"do": "torn"}, int)
    assert worker.ask({"do": "double", "names": []}, int) == []


def test_its_death_is_a_finding_and_the_next_question_finds_a_new_one(worker):
    with pytest.raises(Broken, match="exit code 9: out of memory"):
        worker.ask({"do": "dies"}, int)
    assert worker.ask({"do": "double", "names": ["a"]}, lambda _: 3) == [6]


def test_a_conversation_that_is_broken_off_leaves_nothing_to_the_next(worker):
    def overdue(_):
        raise Broken("an end", "none")

    with pytest.raises(Broken):
        worker.ask({"do": "double", "names": ["a", "b"]}, overdue)
    assert worker.ask({"do": "double", "names": ["a"]}, lambda _: 4) == [8]


def test_a_program_that_does_not_start_says_what_it_said(tmp_path):
    (tmp_path / "program.py").write_text("import no_such_module")
    worker = Worker(sys.executable, str(tmp_path / "program.py"), tmp_path)
    with pytest.raises(AdapterError, match=r"did not start: .*No module named 'no_such_module'"):
        worker.start()
