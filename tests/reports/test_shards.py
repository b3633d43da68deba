"""A run that is divided with ``--shard`` and joined with ``report --merge``: nothing is lost in silence, nothing is counted twice."""

import json
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_harness import cli
from pytest_harness.reports.shards import ShardError, part, read_shard
from pytest_harness.resources import resource

EVIDENCE = ("mini-swe-agent/local/scripted/no_verdict/1", "pi/local/scripted/no_verdict/1", "pi/local/scripted/parallel_calls/1")


@pytest.fixture(scope="module")
def shards(tmp_path_factory, run_pytest):
    """The three parts of a run, each with its evidence and its report, as machines of their own would leave them."""
    root = tmp_path_factory.mktemp("shards")
    recorded = resource("fixtures", "evidence")
    for name in EVIDENCE:
        shutil.copytree(recorded / name, root / "evidence" / name, ignore=shutil.ignore_patterns("findings.json"))
    for index in (1, 2, 3):
        done = run_pytest(root, "--replay=evidence", f"--shard={index}/3", f"--report-dir=shard-{index}/report", "-k", "rollout or REW")
        assert done.returncode == 0, done.stdout + done.stderr
        document = json.loads((root / f"shard-{index}" / "report" / "report.json").read_text())
        for attempt in (attempt for seam in document["seams"] for attempt in seam["attempts"]):
            shutil.copytree(root / attempt["evidence"], root / f"shard-{index}" / attempt["evidence"])
    return root


@pytest.fixture
def merge(tmp_path, capsys):
    def run(*arguments):
        with pytest.raises(SystemExit) as end:
            cli.app(["report", "--merge", *map(str, arguments), "--report-dir", str(tmp_path / "merged")], standalone_mode=False)
        return end.value.code, *capsys.readouterr()

    return run


def merged(tmp_path):
    return json.loads((tmp_path / "merged" / "report.json").read_text())


def attempts(document):
    return sorted(attempt["name"] for seam in document["seams"] for attempt in seam["attempts"])


def test_each_shard_says_which_it_is_and_what_the_whole_run_is(shards):
    documents = [json.loads((shards / f"shard-{index}" / "report" / "report.json").read_text()) for index in (1, 2, 3)]
    assert [document["shard"]["index"] for document in documents] == [1, 2, 3]
    assert {tuple(document["shard"]["rollouts"]) for document in documents} == {
        ("mini-swe-agent-in-local-no_verdict", "pi-in-local-no_verdict", "pi-in-local-parallel_calls")
    }
    assert [attempts(document) for document in documents] == [[name] for name in documents[0]["shard"]["rollouts"]]


def test_all_shards_are_one_report(shards, merge, tmp_path):
    code, said, _ = merge(*(shards / f"shard-{index}" for index in (1, 2, 3)))
    assert code == 0, said
    assert "MISSING" not in said
    document = merged(tmp_path)
    assert attempts(document) == ["mini-swe-agent-in-local-no_verdict", "pi-in-local-no_verdict", "pi-in-local-parallel_calls"]
    assert [seam["name"] for seam in document["seams"]] == ["mini-swe-agent in local", "pi in local"]
    assert (document["shard"], document["left_out"]) == (None, [])


def test_a_missing_shard_is_said_with_its_rollouts_and_ends_with_1(shards, merge, tmp_path):
    code, said, _ = merge(shards / "shard-1", shards / "nowhere", shards / "shard-3")
    assert code == 1
    assert f"MISSING: {shards / 'nowhere'} is not there\n" in said
    assert "MISSING: shard 2 of 3 is missing\n" in said
    assert merged(tmp_path)["left_out"] == [{"rollout": "pi-in-local-no_verdict", "why": "shard 2 of 3 is missing"}]


def test_a_shard_that_lost_its_evidence_is_told_from_one_that_is_missing(shards, merge, tmp_path):
    shutil.copytree(shards / "shard-2" / "report", tmp_path / "shard-2" / "report")
    code, said, _ = merge(shards / "shard-1", tmp_path / "shard-2", shards / "shard-3")
    assert code == 1
    assert "MISSING: shard 2 of 3 brought no evidence of it\n" in said


def test_evidence_without_any_report_cannot_say_whether_something_is_missing(shards, merge):
    code, said, _ = merge(shards / "evidence")
    assert code == 1
    assert "MISSING: no report of a shard is there" in said


def test_shards_of_two_runs_and_one_shard_twice_are_refused(shards, merge, tmp_path):
    shutil.copytree(shards / "shard-2", tmp_path / "again")
    code, _, said = merge(shards / "shard-2", tmp_path / "again")
    assert (code, said.count("\n")) == (cli.USAGE_ERROR, 1)
    assert "are both shard 2 of 3" in said
    path = tmp_path / "again" / "report" / "report.json"
    path.write_text(path.read_text().replace('"count": 3', '"count": 4'))
    code, _, said = merge(shards / "shard-1", tmp_path / "again")
    assert (code, said.count("\n")) == (cli.USAGE_ERROR, 1)
    assert "are shards of different runs" in said


def test_what_was_broken_on_purpose_is_not_joined(shards, merge, tmp_path):
    shutil.copytree(shards / "shard-1", tmp_path / "broken")
    path = tmp_path / "broken" / "report" / "report.json"
    path.write_text(path.read_text().replace('"sabotage": null', '"sabotage": "nan_logprob"'))
    code, _, said = merge(tmp_path / "broken")
    assert (code, said.count("\n")) == (cli.USAGE_ERROR, 1)
    assert "broken on purpose" in said


def test_folders_without_any_evidence_are_one_sentence(merge, tmp_path):
    code, _, said = merge(tmp_path)
    assert (code, said.count("\n")) == (cli.USAGE_ERROR, 1)
    assert "holds evidence" in said


@given(count=st.integers(1, 40), size=st.integers(0, 200))
def test_for_every_count_of_shards_each_item_is_in_exactly_one_and_none_has_two_more_than_another(count, size):
    items = list(range(size))
    parts = [part(items, index, count) for index in range(1, count + 1)]
    assert [item for each in parts for item in each] == items
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "1/0", "a/b", "-1/3", "1/1001", "1/3/5", " 1/3", ""])
def test_what_is_no_shard_is_one_sentence(text):
    with pytest.raises(ShardError, match="write which of how many, such as 3/8"):
        read_shard(text)


def test_more_shards_than_rollouts_are_refused_alike_by_each_of_them(shards, run_pytest):
    for index in (1, 4):
        done = run_pytest(shards, "--replay=evidence", f"--shard={index}/4")
        assert done.returncode == 4
        assert "there are fewer rollouts to divide (3)" in done.stderr
