"""What a run did not roll out is said, by reason, and never silently."""

from __future__ import annotations

from types import SimpleNamespace

from pytest_harness.reports.left_out import MOST, sentences
from pytest_harness.reports.model import LeftOut
from pytest_harness.requirements import load_catalogue
from pytest_harness.session.choice import Cell, Omission
from pytest_harness.session.reporting import report_of


def test_one_line_for_each_reason_names_what_it_left_out():
    left_out = [LeftOut(rollout="a", why="x"), LeftOut(rollout="b", why="y"), LeftOut(rollout="c", why="x")]
    assert list(sentences(left_out)) == ["not run, x: a, c", "not run, y: b"]


def test_of_many_the_first_are_named_and_the_others_counted():
    (line,) = sentences(LeftOut(rollout=f"r{number}", why="x") for number in range(MOST + 3))
    assert line.endswith(", and 3 more, in the report")


def test_nothing_left_out_is_no_line():
    assert list(sentences([])) == []


def test_the_report_of_a_run_holds_what_its_plan_left_out():
    omission = Omission(Cell("pi", "docker", "explore"), "for a reason")
    plan = SimpleNamespace(left_out=(omission,), catalogue=load_catalogue(), run_id="run", sabotage=None, shard=None)
    report = report_of(plan, (), ())
    assert report.left_out == (LeftOut(rollout="pi-in-docker-explore", why="for a reason"),)
