"""The place of a log, from the files that hold the words of the task."""

import pytest

from pytest_harness.discovery.logs import log_place


@pytest.mark.parametrize(
    ("files", "place"),
    [
        (["/root/.pi/agent/sessions/--app--/2026-11-30T01-02-03.jsonl"], "~/.pi/agent/sessions"),
        (["/root/.codex/sessions/2026/11/30/rollout-1.jsonl"], "~/.codex/sessions"),
        (["/root/.qwen/projects/-app/chats/8a7c2e1f-1111.jsonl"], "~/.qwen/projects"),
        (["/root/.gemini/tmp/app/chats/session-2026.jsonl"], "~/.gemini/tmp"),
        (["/app/.mine/sessions/20261130.json", "/app/task.md"], "/app/.mine/sessions"),
        (["/root/.mine/history.jsonl"], "~/.mine/history.jsonl"),
        (["/logs/agent/trajectory.json"], "/logs/agent/trajectory.json"),
        (["/tmp/mine-3f9a8b7c6d/log.txt"], None),
        (["/root/.cache/mine/answer.json", "/root/.mine/logs/20261130.log"], "~/.mine/logs"),
        (["/root/.mine/prompt.txt", "/root/.mine/sessions/20261130/a", "/root/.mine/sessions/20261130/b"], "~/.mine/sessions"),
        (["/root/20261130.log"], None),
        ([], None),
    ],
)
def test_what_has_another_name_in_each_run_is_cut_off(files, place):
    assert log_place(files, "/app") == place
