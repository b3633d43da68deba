"""The commands in the pages that take minutes, each as it stands, and a run of four shards beside the whole. Run by ``make docs-commands``.

The harnesses are installed into the cache, if they are not there.
"""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_harness import cli

_spec = importlib.util.spec_from_file_location("pages", Path(__file__).with_name("pages.py"))
pages = importlib.util.module_from_spec(_spec)
sys.modules.setdefault("pages", pages)
_spec.loader.exec_module(pages)

SLOW = {str(command): command for command in pages.ALL if command.how == "slow"}
ROLLOUTS = [f"--harness={name}" for name in ("pi", "mini-swe-agent")] + [f"--scenario={name}" for name in ("edit_file", "no_verdict")]
SHARDS = 4


@pytest.mark.parametrize("command", SLOW.values(), ids=SLOW)
def test_a_slow_command_runs_as_it_stands(command, scratch, run_pytest):
    assert command.program in pages.PROGRAMS, f"{command} is no program of ours"
    if not (scratch / "examples").exists():
        (scratch / "examples").symlink_to(pages.ROOT / "examples")
    if command.program == "pytest":
        done = run_pytest(scratch, *command.words[1:])
    else:
        program = Path(sys.executable).with_name(command.program)
        done = subprocess.run([program, *command.words[1:]], cwd=scratch, capture_output=True, text=True, check=False)
    assert done.returncode == command.code, f"{command.page}, line {command.line}:\n{done.stdout}{done.stderr}"


VOLATILE = {
    "id": "attempts",
    "evidence": "attempts",
    "started_at": "attempts",
    "ended_at": "attempts",
    "attempt_id": "findings",
    "replay": "findings",
}
"""What is another in each run, and of what: ids, times, folders."""


def judged(report):
    """What a report says, whatever the run is called, and in whatever order its parts stand."""
    document = json.loads((report / "report.json").read_text())

    def settled(value, of=""):
        if isinstance(value, dict):
            return {key: settled(each, key) for key, each in value.items() if VOLATILE.get(key, "nothing") != of}
        if isinstance(value, list):
            return sorted((settled(each, of) for each in value), key=json.dumps)
        return value

    return {key: settled(document[key], key) for key in ("seams", "required", "ran", "ok", "left_out")}


def test_four_shards_that_are_merged_say_what_the_whole_run_says(tmp_path, run_pytest, monkeypatch, capsys):
    done = run_pytest(tmp_path, *ROLLOUTS, "--evidence-dir=whole/evidence", "--report-dir=whole/report")
    assert done.returncode == 0, done.stdout
    parts = [f"shard-{index}" for index in range(1, SHARDS + 1)]
    for index, part in enumerate(parts, start=1):
        shard = f"--shard={index}/{SHARDS}"
        done = run_pytest(tmp_path, *ROLLOUTS, shard, f"--evidence-dir={part}/evidence", f"--report-dir={part}/report")
        assert done.returncode == 0, done.stdout
    monkeypatch.chdir(tmp_path)
    for arguments in (["--merge", *parts, "--report-dir", "merged"], ["--compare", "whole/report", "merged"]):
        monkeypatch.setattr(sys, "argv", ["harness-conformance", "report", *arguments])
        with pytest.raises(SystemExit) as end:
            cli.main()
        assert not end.value.code, capsys.readouterr().out
    assert judged(tmp_path / "merged") == judged(tmp_path / "whole" / "report")
