"""A harness that no row runs: named, it is one sentence; reached by ``all``, it is skipped with the same one."""

import subprocess
import sys


def test_a_named_one_is_one_sentence(tmp_path, run_pytest):
    done = run_pytest(tmp_path, "--harness=nop")
    assert done.returncode == 4
    assert "nop cannot be run: blocked: it calls no model (seen " in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert list(tmp_path.iterdir()) == []


def test_all_skips_it_with_that_sentence_and_runs_nothing_of_it(tmp_path, run_pytest):
    done = run_pytest(tmp_path, "--harness=all", "--scenario=edit_file", "-k", "nop", "-rs")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nop cannot be run: blocked: it calls no model (seen " in done.stdout
    assert "1 skipped" in done.stdout
    assert not (tmp_path / ".harness" / "evidence").exists()


def test_info_shows_it_with_its_reason(tmp_path):
    command = [sys.executable, "-m", "pytest_harness.cli", "info"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "blocked: it calls no model" in done.stdout
