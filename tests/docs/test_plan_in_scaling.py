"""The plan in docs/scaling.md is what its script computes from what was measured, and changes with it."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "benchmarks" / "plan.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("plan", SCRIPT)
    module = sys.modules["plan"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["plan"]


@pytest.fixture
def known(script):
    return script.measured(script.PERFORMANCE.read_text(), json.loads(script.LEAKS.read_text()))


def run(*arguments):
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False)


def between(page, begin, end):
    assert page.count(begin) == page.count(end) == 1
    return page.partition(begin)[2].partition(end)[0]


def test_the_page_says_what_the_script_computes(script):
    ended = run()
    assert ended.returncode == 0, ended.stderr
    assert between(script.PAGE.read_text(), script.BEGIN, script.END) == ended.stdout, "run: python benchmarks/plan.py --page"


def test_the_page_shows_the_leaks_that_were_measured(script):
    measured = json.loads(script.LEAKS.read_text())
    shown = between(script.PAGE.read_text(), "<!-- leaks: made by benchmarks/leaks/run.py -->\n\n", "\n<!-- /leaks -->\n")
    rows = [f"| {what} | {each['warm']:g} | {each['end']:g} | {each['per_100']:g} |" for what, each in measured["figures"].items()]
    assert shown.splitlines()[2:] == rows


@pytest.mark.parametrize(
    ("constant", "need"),
    [
        ("session_mb", "memory of the proxy, GB"),
        ("journal_mb", "journals of those that run, GB"),
        ("process_mb", "processes that make rollouts, GB"),
        ("sandbox_mb", "local sandboxes at their limit, GB"),
        ("token_seconds", "workers of the proxy, a core each"),
        ("prompt_seconds", "workers of the proxy, a core each"),
    ],
)
def test_what_is_measured_to_be_dearer_is_planned_for(script, known, constant, need):
    assumed = script.Assumed(turns=50, turn_seconds=15, prompt=16_000, sampled=300, cached=0.9, busy=0.5)
    dearer = dataclasses.replace(known, **{constant: 10 * getattr(known, constant)})
    assert script.plan(100_000, dearer, assumed)[need] > script.plan(100_000, known, assumed)[need]


def test_a_hundred_times_as_many_need_a_hundred_times_as_much_but_whole_workers(script, known):
    assumed = script.Assumed(turns=50, turn_seconds=15, prompt=16_000, sampled=300, cached=0.9, busy=0.5)
    some, more = script.plan(1000, known, assumed), script.plan(100_000, known, assumed)
    for what in set(some) - {"workers of the proxy, a core each", "memory of the proxy, GB"}:
        assert more[what] == pytest.approx(100 * some[what])
    assert 0 < some["workers of the proxy, a core each"] == int(some["workers of the proxy, a core each"])


def test_a_measurement_that_is_not_written_any_more_is_named(script):
    with pytest.raises(ValueError, match="has no row 'requests per second per core, c=64'"):
        script.measured("| metric | must | aim | ours |\n", {})


@pytest.mark.parametrize("option", [("0",), ("--turns", "0"), ("--cached", "2"), ("--busy", "1.5")])
def test_what_cannot_be_planned_is_refused(option):
    ended = run(*option)
    assert ended.returncode == 2
    assert ended.stderr.strip().splitlines()[-1].startswith("plan.py: error: ")
