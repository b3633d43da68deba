"""The install scripts of an npm package are run only where the harness does not run without them."""

import pytest

from pytest_harness.discovery import discover as work
from pytest_harness.provision import Installed
from pytest_harness.seams import NpmInstall
from pytest_harness.seams.template import Draft

INSTALL = NpmInstall(kind="npm", package="mine", version="1", node="24.19.0", commands={"mine": "cli.js"})
DRAFT = Draft(name="mine", title="Mine", homepage="https://example.org", install=INSTALL, command="mine {instruction}")
WORKS, FAILS, HELPS = "exit 0", "exit 1", '[ "$1" = --help ]'


@pytest.fixture
def chosen(monkeypatch):
    """Whether the scripts are in the row, and how often was installed, for what the command does without and with them."""

    def run(without: str, with_scripts: str) -> tuple[bool, int]:
        made = []

        def provision(seam, *_):
            made.append(seam)
            body = with_scripts if seam.install.scripts else without
            return Installed("mine", "1", "1", "0" * 64, (), {"mine": f"#!/bin/sh\n{body}\n"})

        monkeypatch.setattr(work, "provision", provision)
        draft, _ = work.installed_to_run(DRAFT, "mine", limit_sec=20, cache=None, say=lambda _: None)
        return draft.install.scripts, len(made)

    return run


@pytest.mark.parametrize("without", [WORKS, HELPS])
def test_one_that_runs_is_installed_once(chosen, without):
    assert chosen(without, WORKS) == (False, 1)


def test_one_that_needs_them_gets_them(chosen):
    assert chosen(FAILS, WORKS) == (True, 2)


def test_where_they_help_nothing_they_are_left_out(chosen):
    assert chosen(FAILS, FAILS) == (False, 2)
