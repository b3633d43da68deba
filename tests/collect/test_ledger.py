"""The ledger: what is whole counts, what a crash tore is dropped, and anything else that is broken is refused in one sentence."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_harness.collect import LEDGER, Ledger, LedgerError, Line


def line(number=1, **changes):
    fields = {"episode": f"täsk/{number}", "task": "täsk", "digest": "d", "attempt": number, "state": "graded", "reward": 0.5}
    return Line(**(fields | changes))


def written(folder, *lines):
    ledger = Ledger(folder)
    for each in lines:
        ledger.append(each)
    return ledger


def recovered(ledger):
    notes = []
    return ledger.recover(notes.append), notes


def test_what_was_appended_is_read_back(tmp_path):
    lines = [line(1), line(2, state="ungraded", reward=None, reason="no verdict"), line(3, facts={"calls": 2}, mark="m\u2028\x85")]
    assert recovered(written(tmp_path, *lines)) == (lines, [])


def test_a_ledger_that_is_not_there_is_empty(tmp_path):
    assert recovered(Ledger(tmp_path)) == ([], [])


def test_wherever_the_last_line_is_torn_the_others_are_whole(tmp_path):
    ledger = written(tmp_path, line(1), line(2))
    content = ledger.path.read_bytes()
    first = content.index(b"\n") + 1
    for cut in range(first + 1, len(content)):
        ledger.path.write_bytes(content[:cut])
        lines, notes = recovered(ledger)
        assert lines == [line(1)]
        assert ["torn" in note for note in notes] == [True]
        assert ledger.path.read_bytes() == content[:first]


def test_reading_alone_leaves_a_torn_line_where_it_is(tmp_path):
    ledger = written(tmp_path, line(1), line(2))
    torn = ledger.path.read_bytes()[:-5]
    ledger.path.write_bytes(torn)
    assert ledger.read() == [line(1)]
    assert ledger.path.read_bytes() == torn


def test_a_line_behind_a_torn_one_is_whole(tmp_path):
    ledger = written(tmp_path, line(1), line(2))
    ledger.path.write_bytes(ledger.path.read_bytes()[:-5])
    ledger.recover(lambda _: None)
    ledger.append(line(2))
    assert recovered(ledger) == ([line(1), line(2)], [])


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (b"", "is no episode"),
        (b"{", "is no episode"),
        (b"\xff\xfe", "is no episode"),
        (b"[" * 100_000, "is no episode"),
        (b"[]", "is no episode"),
        (b"{}", "is no episode"),
        (line(1).model_dump_json().encode(), "stands there twice"),
        (line(9).model_dump_json().replace("0.5", "NaN").encode(), "is no episode"),
        (line(9).model_dump_json().replace('"graded"', '"ungraded"').encode(), "does not go with a reward"),
        (line(9).model_dump_json().replace("0.5", "null").encode(), "does not go with a reward"),
    ],
    ids=str,
)
def test_a_broken_line_that_is_not_the_last_is_refused_and_left_as_it_is(tmp_path, damage, said):
    ledger = written(tmp_path, line(1))
    content = ledger.path.read_bytes() + damage + b"\n" + line(3).model_dump_json().encode() + b"\n"
    ledger.path.write_bytes(content)
    with pytest.raises(LedgerError, match=f"{LEDGER}, line 2.*{said}") as error:
        recovered(ledger)
    assert "\n" not in str(error.value)
    assert ledger.path.read_bytes() == content


@given(content=st.binary(max_size=200))
def test_no_content_ends_in_another_exception(tmp_path_factory, content):
    ledger = Ledger(tmp_path_factory.mktemp("ledger"))
    ledger.path.write_bytes(content)
    if b"\n" in content:
        with pytest.raises(LedgerError, match=r"episodes.jsonl, line 1 is no episode"):
            recovered(ledger)
        assert ledger.path.read_bytes() == content
    else:
        assert recovered(ledger)[0] == []
        assert ledger.path.read_bytes() == b""


def test_only_what_is_kept_is_left(tmp_path):
    ledger = written(tmp_path, line(1), line(2), line(3))
    ledger.keep([line(1), line(3)])
    assert recovered(ledger) == ([line(1), line(3)], [])
    assert [path.name for path in tmp_path.iterdir()] == [LEDGER]


def test_a_ledger_that_is_a_folder_is_one_sentence(tmp_path):
    (tmp_path / LEDGER).mkdir()
    with pytest.raises(LedgerError, match="cannot be read"):
        recovered(Ledger(tmp_path))
    with pytest.raises(LedgerError, match="cannot be written"):
        Ledger(tmp_path).append(line(1))


def test_no_reward_is_null(tmp_path):
    ledger = written(tmp_path, line(1, state="ungraded", reward=None))
    assert json.loads(ledger.path.read_text())["reward"] is None


@pytest.mark.parametrize("episode", ["", "../../x", "a\0b/1", "/etc/1", "a//1", "./1", "x" * 300, "é" * 128 + "/1"])
def test_an_episode_that_is_no_folder_of_the_collection_is_no_episode(tmp_path, episode):
    ledger = written(tmp_path, line(1))
    ledger.path.write_text(json.dumps(line(2).model_dump() | {"episode": episode}) + "\n")
    with pytest.raises(LedgerError, match=f"{LEDGER}, line 1 is no episode .*no path of a folder below"):
        ledger.read()


def test_a_ledger_that_is_a_fifo_is_one_sentence(tmp_path):
    os.mkfifo(tmp_path / LEDGER)
    for use in (Ledger(tmp_path).read, Ledger(tmp_path).check):
        with pytest.raises(LedgerError, match="it is no plain file"):
            use()
