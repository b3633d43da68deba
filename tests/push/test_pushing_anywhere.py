"""A push to file systems: what arrives is what was here, nothing is sent twice, and nothing is written over unasked."""

import json
import shutil
import threading

import fsspec
import pytest
from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper

from pytest_harness import cli
from pytest_harness.evidence import find_evidence, read_evidence
from pytest_harness.pushing import PushError
from pytest_harness.pushing.anywhere import INDEX, FileSystem
from pytest_harness.pushing.records import gather

ATTEMPT = "evidence/pi/local/scripted/no_verdict/1"


@pytest.fixture(params=["local", "memory"])
def place(request, tmp_path):
    """The URL of an empty place, and its file system with its path."""
    if request.param == "local":
        yield str(tmp_path / "there"), fsspec.filesystem("file"), str(tmp_path / "there")
    else:
        memory = fsspec.filesystem("memory")
        yield "memory://bucket/runs", memory, "/bucket/runs"
        memory.store.clear()


def held(place):
    """What is there: name -> content."""
    _, fs, root = place
    return {path.removeprefix(f"{root}/"): fs.cat_file(path) for path in fs.find(root)} if fs.exists(root) else {}


def test_a_dry_run_says_what_would_go_where_and_sends_nothing(place, evidence, push):
    code, said, _ = push(evidence, "--to", place[0], "--dry-run")
    assert code == 0
    assert ATTEMPT in said
    assert "would send 9 files, 87.3 kB; 0 were there already" in said
    assert held(place) == {}


def test_what_arrives_can_be_read_as_evidence(place, evidence, push, tmp_path):
    code, said, _ = push(evidence, "--to", place[0])
    assert (code, said.splitlines()[-1]) == (0, "sent 9 files, 87.3 kB; 0 were there already")
    place[1].get(f"{place[2]}/evidence", str(tmp_path / "fetched"), recursive=True)
    (folder,) = find_evidence(tmp_path / "fetched")
    (original,) = find_evidence(evidence)
    assert read_evidence(folder) == read_evidence(original)


def test_what_is_there_is_not_sent_again(place, evidence, push):
    push(evidence, "--to", place[0])
    before = held(place)
    code, said, _ = push(evidence, "--to", place[0])
    assert (code, said.splitlines()[-1]) == (0, "sent 0 files, 0 bytes; 9 were there already")
    assert held(place) == before


def test_what_another_program_brought_there_is_read_and_not_sent_again(place, evidence, push):
    push(evidence, "--to", place[0])
    place[1].rm(f"{place[2]}/{INDEX}")
    assert push(evidence, "--to", place[0])[1].splitlines()[-1] == "sent 0 files, 0 bytes; 9 were there already"


def test_only_what_is_missing_is_sent(place, evidence, push):
    push(evidence, "--to", place[0])
    place[1].rm(f"{place[2]}/{ATTEMPT}/calls.ndjson")
    assert push(evidence, "--to", place[0])[1].splitlines()[-1].startswith("sent 1 files")


@pytest.mark.parametrize("content", [b"x", None])
def test_what_is_there_and_differs_is_written_over_only_if_asked(place, evidence, push, content):
    """Also where it has the right size, and no push brought it."""
    name = f"{ATTEMPT}/calls.ndjson"
    there = f"{place[2]}/{name}"
    original = (evidence.parent / name).read_bytes()
    place[1].makedirs(there.rpartition("/")[0], exist_ok=True)
    place[1].pipe_file(there, content or b"y" * len(original))
    code, _, said = push(evidence, "--to", place[0])
    assert (code, said.count("\n")) == (cli.USAGE_ERROR, 1)
    assert f"holds another {name}; nothing was sent" in said
    assert len(held(place)) == 1
    assert push(evidence, "--to", place[0], "--replace")[0] == 0
    assert held(place)[name] == original


def test_a_push_that_was_cut_goes_on_and_mends_what_arrived_in_part(place, evidence, push, monkeypatch):
    class CutError(Exception):
        pass

    put, lock, sent = FileSystem._put, threading.Lock(), []

    def cut(store, item):
        with lock:
            sent.append(item.name)
        if len(sent) == 4:
            store.fs.makedirs(store.fs._parent(store.at(item.name)), exist_ok=True)
            store.fs.pipe_file(store.at(item.name), item.path.read_bytes()[:7])
            raise CutError("the line went dead")
        return put(store, item)

    monkeypatch.setattr(FileSystem, "_put", cut)
    code, _, said = push(evidence, "--to", place[0])
    assert (code, said.count("\n")) == (cli.USAGE_ERROR, 1)
    assert "the line went dead" in said
    monkeypatch.undo()
    torn = sent[3]
    assert held(place)[torn] != (evidence.parent / torn).read_bytes()
    assert push(evidence, "--to", place[0])[0] == 0
    assert {name: content for name, content in held(place).items() if name != INDEX} == {
        item.name: item.path.read_bytes() for item in gather([evidence])
    }


@pytest.mark.parametrize("index", [b"{", b"[]", b"\xff", b'{"arrived": 1}'])
def test_a_broken_index_costs_time_and_nothing_else(place, evidence, push, index):
    push(evidence, "--to", place[0])
    place[1].pipe_file(f"{place[2]}/{INDEX}", index)
    assert push(evidence, "--to", place[0])[1].splitlines()[-1] == "sent 0 files, 0 bytes; 9 were there already"


def test_the_index_names_what_arrived_by_its_digest(place, evidence, push):
    push(evidence, "--to", place[0])
    index = json.loads(held(place)[INDEX])
    assert index == {"arrived": {item.name: item.sha256 for item in gather([evidence])}, "sending": []}


@pytest.mark.parametrize("below", ["copy", "", ".."], ids=["inside", "the folder", "where it lies"])
def test_a_place_where_what_is_sent_would_come_to_lie_in_itself_is_refused(evidence, push, below):
    code, _, said = push(evidence, "--to", evidence / below)
    assert (code, said.count("\n")) == (cli.USAGE_ERROR, 1)
    assert "would be sent into itself" in said


def test_an_empty_place_is_not_the_current_folder(tmp_path, monkeypatch, evidence, push):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    code, _, said = push(evidence, "--to", "")
    assert (code, said.count("\n")) == (cli.USAGE_ERROR, 1)
    assert said.startswith("error: --to is empty")
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("nowhere://bucket", "fsspec knows no nowhere://"),
        ("s3://bucket/runs", "cannot be reached without a package that is not here"),
    ],
)
def test_a_place_that_cannot_be_reached_is_one_sentence(evidence, push, url, says, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "s3fs", None)
    code, _, said = push(evidence, "--to", url)
    assert (code, said.count("\n")) == (cli.USAGE_ERROR, 1)
    assert says in said


def test_a_place_that_cannot_be_written_is_one_sentence(evidence, push, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, said = push(evidence, "--to", tmp_path / "file" / "there")
    assert (code, said.count("\n")) == (cli.USAGE_ERROR, 1)
    assert "mend that and push again" in said


def test_a_password_in_the_address_is_never_shown(evidence, push):
    code, out, said = push(evidence, "--to", "nowhere://me:secret-word@host/runs")
    assert code == cli.USAGE_ERROR
    assert "secret-word" not in out + said


def test_two_folders_lie_side_by_side(evidence, tmp_path, push):
    shutil.copytree(evidence, tmp_path / "more")
    assert push(evidence, tmp_path / "more", "--to", tmp_path / "there")[0] == 0
    assert {path.name for path in (tmp_path / "there").iterdir()} == {"evidence", "more", INDEX}


def test_an_error_of_the_file_system_is_told_in_one_line():
    store = FileSystem("memory://bucket")
    with pytest.raises(PushError, match=r"first second \(RuntimeError\)"), store._said():
        raise RuntimeError("first\n  second")


def test_where_files_can_travel_at_the_same_time_each_arrives_once_and_whole(evidence):
    store, items, told = FileSystem("memory://together"), gather([evidence]), []
    memory = store.fs
    store.fs = AsyncFileSystemWrapper(memory, asynchronous=False)
    store.send(items, told.append)
    assert {item.name: memory.cat_file(f"{store.root}/{item.name}") for item in items} == {
        item.name: item.path.read_bytes() for item in items
    }
    assert sum(told) == len(items)
    assert set(FileSystem("memory://together").states(items).values()) == {"same"}
    memory.store.clear()


def test_ctrl_c_keeps_what_has_arrived_and_ends_with_130(evidence, push, tmp_path, monkeypatch):
    put, sent = FileSystem._put, []

    def interrupted(store, item):
        sent.append(item.name)
        if len(sent) == 3:
            raise KeyboardInterrupt
        return put(store, item)

    monkeypatch.setattr(FileSystem, "_put", interrupted)
    assert push(evidence, "--to", tmp_path / "there")[0] == cli.INTERRUPTED
    monkeypatch.undo()
    index = json.loads((tmp_path / "there" / INDEX).read_text())
    assert set(sent[:2]) <= set(index["arrived"])
    assert push(evidence, "--to", tmp_path / "there")[0] == 0
