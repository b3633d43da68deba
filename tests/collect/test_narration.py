"""What people see of a collection: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from pytest_harness.collect import Plan, Result, Task, collect
from pytest_harness.collect.narration import Narrator

TASKS = (Task("one"), Task("[red]two"))


@pytest.mark.parametrize("terminal", [True, False])
def test_every_episode_is_told_once_as_it_is(tmp_path, terminal):
    said = io.StringIO()
    with Narrator(Console(file=said, force_terminal=terminal, width=200, color_system=None)) as narrator:
        collect(Plan(TASKS), lambda episode: Result(float(episode.task.name == "one")), tmp_path, told=narrator)
    text = said.getvalue()
    assert text.count("one/1: reward 1") == 1
    assert text.count("[red]two/1: reward 0") == 1
    assert ("\x1b[?25l" in text) == terminal
    assert ("2/2 [red]two/1: reward 0; mean reward 0.5 of 2 graded; 0 ungraded, 0 invalid, 0 dropped\n" in text) == (not terminal)
