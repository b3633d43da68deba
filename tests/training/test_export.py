"""The files of rows, and ``--export``: whole or not at all, one sentence for what cannot be written."""

from __future__ import annotations

import json
import shutil
import sys

import pytest

from pytest_harness import cli
from pytest_harness.requirements import load_catalogue
from pytest_harness.resources import resource
from pytest_harness.training import ExportError, TrainingRow, check_target, export

CATALOGUE = load_catalogue("2026.12")


@pytest.fixture
def episodes(healthy):
    return [
        healthy.trained(healthy.pi(engine="attached")),
        healthy.trained(healthy.pi(engine="attached", attempt=2, graded=False)),
        healthy.mini(),
    ]


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_each_row_is_a_line_with_every_field_and_null_for_what_is_absent(episodes, tmp_path):
    said = export(tmp_path / "new" / "rows.jsonl", episodes, CATALOGUE)
    assert (said.rows, said.episodes, len(said.refused)) == (2, 2, 1)
    rows = lines(tmp_path / "new" / "rows.jsonl")
    assert all(set(row) == set(TrainingRow.__dataclass_fields__) for row in rows)
    assert [row["reward"] for row in rows] == [1.0, None]
    assert None in rows[0]["logprobs"]
    assert rows[0]["policy_version"] is None


def test_a_copy_of_an_episode_counts_once(episodes, tmp_path):
    said = export(tmp_path / "rows.jsonl", [episodes[0], episodes[0]], CATALOGUE)
    assert (said.rows, said.episodes) == (1, 1)


def test_what_breaks_off_leaves_the_older_file_as_it_was(episodes, tmp_path):
    (tmp_path / "rows.jsonl").write_text("older\n")

    def breaking():
        yield episodes[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export(tmp_path / "rows.jsonl", breaking(), CATALOGUE)
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]
    assert (tmp_path / "rows.jsonl").read_text() == "older\n"


def test_a_target_that_cannot_be_written_is_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(ExportError, match=r"must end in \.jsonl or \.parquet"):
        check_target(tmp_path / "rows.csv")
    with pytest.raises(ExportError, match="is a folder"):
        check_target(tmp_path / "folder.jsonl")
    with pytest.raises(ExportError, match="cannot be written"):
        export(tmp_path / "file" / "rows.jsonl", [], CATALOGUE)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ExportError, match=r"install harness-conformance\[parquet\]"):
        check_target(tmp_path / "rows.parquet")


@pytest.fixture
def judge(tmp_path, capsys):
    name = "pi/local/scripted/no_verdict/1"
    shutil.copytree(resource("fixtures", "evidence") / name, tmp_path / "evidence" / name)

    def run(*arguments):
        command = ["judge", str(tmp_path / "evidence"), "--report-dir", str(tmp_path / "report"), *map(str, arguments)]
        with pytest.raises(SystemExit) as end:
            cli.app(command, standalone_mode=False)
        return end.value.code, *capsys.readouterr()

    return run


def test_judge_exports_and_ends_with_1_where_an_episode_is_refused(judge, tmp_path):
    code, said, _ = judge("--export", tmp_path / "rows.jsonl")
    assert code == 1
    assert "not exported: pi-in-local-no_verdict: the scripted engine says" in said
    assert "exported 0 rows, of 0 of 1 episodes, to " in said
    code, said, _ = judge("--export", tmp_path / "rows.jsonl", "--rehearsal")
    assert code == 0
    (row,) = lines(tmp_path / "rows.jsonl")
    assert (row["rehearsal"], row["reward"]) == (True, None)
    code, _, said = judge("--export", tmp_path / "rows.txt")
    assert (code, said.count("\n")) == (cli.USAGE_ERROR, 1)
    assert not (tmp_path / "rows.txt").exists()


def test_judge_says_what_it_took(judge, tmp_path):
    code, said, _ = judge("--account", "--prices", "1,2")
    assert code == 0
    assert "what it took" in said
    document = json.loads((tmp_path / "report" / "accounting.json").read_text())
    (account,) = document["accounts"]
    assert (account["episodes"], account["graded"], account["cost_per_solved"]) == (1, 0, None)
    assert account["cost"] == pytest.approx((account["prompt_tokens"] + 2 * account["sampled_tokens"]) / 1e6)
    assert document["table"][0]["cells"]["no_verdict"] == {"state": "ungraded", "mean": None, "attempts": 1, "rewards": []}
    code, _, said = judge("--prices", "cheap")
    assert (code, said.count("\n")) == (cli.USAGE_ERROR, 1)
    assert "write two prices" in said
