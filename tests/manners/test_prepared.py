"""Only what the chosen tests need is made ready: a harness that nobody asks for is not installed."""

from __future__ import annotations

import pytest

ROW = """
name = "{name}"
title = "A harness"
homepage = "https://example.org"
dialect = "chat"
streams = false
scenarios = ["edit_file"]
trajectory = "none"
[install]
kind = "preinstalled"
path = "{path}"
version = "1"
commands = {{ {name} = "run" }}
[agent]
command = "{name} {{instruction}}"
[shell]
tool = "bash"
"""


@pytest.fixture
def seams(tmp_path):
    """Rows of a harness that is there and of one that is not."""
    folder = tmp_path / "seams"
    folder.mkdir()
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "run").write_text("#!/bin/sh\n")
    (tmp_path / "there" / "run").chmod(0o755)
    (folder / "here.toml").write_text(ROW.format(name="here", path="../there"))
    (folder / "gone.toml").write_text(ROW.format(name="gone", path="../nowhere"))
    return "--seams=seams", "--harness=here", "--harness=gone"


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "xdist"])
def test_a_harness_that_is_deselected_is_not_made_ready(tmp_path, run_pytest, seams, workers):
    done = run_pytest(tmp_path, *seams, *workers, "-k", "rollout and here-in")
    assert "there is no folder" not in done.stdout + done.stderr
    assert "no call reached the proxy" in done.stdout


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "xdist"])
def test_one_that_is_asked_for_and_missing_ends_the_run_before_any_test(tmp_path, run_pytest, seams, workers):
    done = run_pytest(tmp_path, *seams, *workers)
    assert done.returncode == 4
    assert "gone: " in done.stderr
    assert "there is no folder" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert not (tmp_path / ".harness" / "evidence" / "here").exists()
