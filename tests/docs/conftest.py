"""A folder as a run leaves it, in which the commands of the pages are run."""

import shutil
import sys

import pytest

from pytest_harness import cli
from pytest_harness.resources import resource

RECORDED = "mini-swe-agent/local/scripted/no_verdict/1"


@pytest.fixture(scope="module")
def left_by_a_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    for place in ("evidence", "rollouts"):
        there = folder / ".harness" / place / RECORDED
        shutil.copytree(resource("fixtures", "evidence") / RECORDED, there, ignore=shutil.ignore_patterns("findings.json"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["harness-conformance", "judge", ".harness/evidence", "--report-dir", ".harness/report"])
        with pytest.raises(SystemExit):
            cli.main()
    return folder


@pytest.fixture
def scratch(left_by_a_run, tmp_path):
    return shutil.copytree(left_by_a_run, tmp_path / "here")
