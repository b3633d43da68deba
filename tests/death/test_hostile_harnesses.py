"""Harnesses that hang, flood, fork, or fill what they can: each ends, says why and who is to blame, and leaves nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "own-harness"

ASK = """#!/bin/bash
python3 - <<'END'
import json, os, urllib.request
body = {"model": os.environ["MODEL"], "messages": [{"role": "user", "content": "x"}]}
headers = {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["KEY"]}
request = urllib.request.Request(os.environ["URL"] + "/chat/completions", data=json.dumps(body).encode(), headers=headers)
urllib.request.urlopen(request, timeout=60).read()
END
"""
HOSTILE = {
    "hangs": "trap '' TERM INT HUP; while :; do sleep 1000; done",
    "prints": "yes",
    "logs": "for i in {1..1000}; do head -c 1M /dev/zero >/logs/agent/$i || exit 1; done",
    "forks": ":(){ :|:& }; for i in {1..9}; do : ; done; while :; do sleep 1000 & done 2>/dev/null; exit 1",
    "fills": "head -c 1G /dev/zero | split -b 1M - /root/x || exit 1",
    "files": "mkdir /root/many; cd /root/many; touch {1..5000} || exit 1",
    "remembers": "sleep 1000 | python3 -c \"import sys; held = b'x' * (400 << 20); sys.stdin.read()\"",
}
LIMITS = {"output_mb": 8, "disk_mb": 32, "memory_mb": 256, "processes": 100}


@pytest.fixture(scope="module")
def attempts(tmp_path_factory, run_pytest, running, write_toy):
    """By harness: what the report says of its attempt. All of them ran beside each other and beside a harness that behaves."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "temporary").mkdir()
    env = {"URL": "{url}/v1", "KEY": "{key}", "MODEL": "{model}"}
    for name, behaviour in HOSTILE.items():
        seconds = 8 if name in {"hangs", "forks"} else 60
        write_toy(folder, name, f"{ASK}{behaviour}\n", does=name, seconds=seconds, env=env, limits=LIMITS)
    named = [f"--harness={name}" for name in ("tiny-agent", *HOSTILE)]
    seams = [f"--seams={folder / 'seams'}", f"--seams={EXAMPLE / 'seams'}"]
    environment = {"TMPDIR": str(folder / "temporary")}
    done = run_pytest(folder, *named, *seams, "--scenario=edit_file", "-n", "2", "-k", "test_rollout", env=environment)
    report = json.loads((folder / ".harness" / "report" / "report.json").read_text())
    attempts = {seam["harness"]: seam["attempts"][0] for seam in report["seams"]}
    for attempt in attempts.values():
        result = folder / attempt["evidence"] / "trial" / "result.json"
        attempt["exception"] = (json.loads(result.read_text())["exception_info"] or {}).get("exception_type")
        attempt["size"] = sum(path.stat().st_size for path in (folder / attempt["evidence"]).rglob("*") if path.is_file())
    assert set(attempts) == {"tiny-agent", *HOSTILE}, done.stdout + done.stderr
    left = [*running(str(folder)), *(path.name for path in (folder / "temporary").glob("harness-*")), *folder.rglob(".running/*")]
    attempts["left"] = left
    return attempts


def test_the_one_that_behaves_is_not_disturbed(attempts):
    behaves = attempts["tiny-agent"]
    assert (behaves["valid"], behaves["reward"], behaves["exception"]) == (True, 1.0, None)


@pytest.mark.parametrize(
    ("name", "exception"),
    [
        ("hangs", "AgentTimeoutError"),
        ("prints", "OutputLimitError"),
    ],
)
def test_what_is_the_harness_own_fault_counts_and_is_graded_as_a_task_not_done(attempts, name, exception):
    attempt = attempts[name]
    assert (attempt["exception"], attempt["valid"], attempt["blame"]) == (exception, True, None)
    assert (attempt["reward"], attempt["reward_state"]) == (0.0, "valid")


@pytest.mark.parametrize(("name", "reason"), [("remembers", "MemoryLimitExceededError")])
def test_where_the_limit_of_the_row_may_be_too_low_nothing_is_graded_and_the_surroundings_are_to_blame(attempts, name, reason):
    attempt = attempts[name]
    assert (attempt["valid"], attempt["blame"], attempt["reward"]) == (False, "surroundings", None)
    assert reason in attempt["reason"]


@pytest.mark.parametrize("name", ["logs", "fills", "forks", "files"])
def test_what_found_no_room_has_ended_with_a_named_outcome(attempts, name):
    attempt = attempts[name]
    assert attempt["exception"] in {"NonZeroAgentExitCodeError", "AgentTimeoutError"}
    assert attempt["reward"] in {None, 0.0}
    assert attempt["valid"] or attempt["blame"] == "surroundings"


def test_no_evidence_is_larger_than_the_limit_of_what_may_be_put_out(attempts):
    assert {name: attempts[name]["size"] for name in HOSTILE if attempts[name]["size"] > 10 << 20} == {}


def test_no_process_and_no_folder_of_any_of_them_is_left(attempts):
    assert attempts["left"] == []
