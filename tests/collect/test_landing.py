"""Evidence that is brought to a file system: whole or not there, whatever stops it."""

from __future__ import annotations

import sys
from pathlib import Path

import fsspec
import pytest

from pytest_harness.collect import CollectError, Line
from pytest_harness.collect.landing import Landing, landing_at
from pytest_harness.evidence import EvidenceError, read_evidence, write_evidence
from pytest_harness.filesystems import FileSystemError, Folder

EPISODE = "pi/local/scripted/edit_file/1"


@pytest.fixture(params=["file", "memory"])
def landing(request, tmp_path):
    if request.param == "file":
        yield Landing((tmp_path / "there").as_uri())
    else:
        yield Landing("memory://bucket/there")
        fsspec.filesystem("memory").store.clear()


@pytest.fixture
def record(tmp_path, healthy):
    """A record with a file of Harbor's in it."""
    evidence = healthy.pi()
    trial = tmp_path / "trial"
    trial.mkdir()
    (trial / "result.json").write_text(evidence.files["trial/result.json"])
    (trial / "link").symlink_to("/nowhere")
    return write_evidence(tmp_path / "here", evidence.manifest, evidence.calls, {"trial": trial})


def line(mark):
    return Line(episode=EPISODE, task="t", digest="d", attempt=1, state="graded", reward=1.0, mark=mark)


def test_what_is_brought_is_read_as_it_was(landing, record):
    landing.check()
    landing.bring(record, EPISODE)
    original = read_evidence(record)
    assert landing.mark(EPISODE) == original.manifest.attempt_id
    assert landing.read(EPISODE) == original
    assert landing.on_disk(line(original.manifest.attempt_id))
    assert not landing.on_disk(line("another"))


def test_what_was_not_brought_is_not_there(landing):
    assert landing.mark(EPISODE) is None
    assert not landing.on_disk(line("any"))
    with pytest.raises(EvidenceError, match=r"manifest\.json"):
        landing.read(EPISODE)


def test_a_look_leaves_nothing(landing):
    landing.check()
    assert landing._folder.fs.find(landing._folder.root) == []


def files_of(record):
    return [path for path in record.rglob("*") if path.is_file() and not path.is_symlink()]


@pytest.mark.parametrize("before", ["nothing", "an older record"])
def test_a_record_that_was_brought_in_part_is_none(landing, record, monkeypatch, before):
    """Stopped at each file in turn; and what is brought over it is whole, without a file of the older one."""
    original, put = read_evidence(record), Folder.put
    for stop_at in range(len(files_of(record))):
        if before != "nothing":
            landing.bring(record, EPISODE)
            landing._folder.write(f"{EPISODE}/native/older.jsonl", b"{}")
        arrived = []

        def dies(folder, path, name, stop_at=stop_at, arrived=arrived):
            if len(arrived) == stop_at:
                raise ConnectionError("the line went dead")
            arrived.append(name)
            put(folder, path, name)

        monkeypatch.setattr(Folder, "put", dies)
        with pytest.raises(FileSystemError, match="the line went dead"):
            landing.bring(record, EPISODE)
        monkeypatch.setattr(Folder, "put", put)
        assert landing.mark(EPISODE) is None
    landing.bring(record, EPISODE)
    assert landing.read(EPISODE) == original


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"attempt_id": 3}'])
def test_a_manifest_that_is_damaged_is_neither_there_nor_missing(landing, content):
    landing._folder.write(f"{EPISODE}/manifest.json", content)
    with pytest.raises(CollectError, match=r"manifest\.json is damaged; restore it, or remove it to run its episode again") as refused:
        landing.on_disk(line("any"))
    assert "\n" not in str(refused.value)


def test_a_record_that_was_changed_is_refused_by_its_place_there(landing, record):
    landing.bring(record, EPISODE)
    landing._folder.write(f"{EPISODE}/trial/result.json", b"{}")
    with pytest.raises(EvidenceError, match=r"there/pi/local/scripted/edit_file/1: trial/result.json was changed") as refused:
        landing.read(EPISODE)
    assert "harness-fetched" not in str(refused.value)


def test_a_place_without_a_scheme_is_the_same_from_another_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Landing("there").url == f"file://{tmp_path}/there"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("nowhere://bucket", "nowhere://bucket: fsspec knows no nowhere://; name a folder that you may write, s3://, gs:// or sftp://"),
        (__file__, "FileExistsError|NotADirectoryError"),
    ],
)
def test_a_place_that_cannot_be_written_is_refused_before_anything_runs(url, says):
    with pytest.raises(CollectError, match=says) as refused:
        landing_at(url)
    assert str(refused.value).startswith("--evidence-to ")
    assert "\n" not in str(refused.value)


def test_a_package_that_is_missing_is_said_to_be(monkeypatch):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(ImportError, match="s3fs"):
        landing_at("s3://bucket/there")


def test_a_record_lies_there_as_it_lies_here(record, tmp_path):
    landing = Landing(str(tmp_path / "there"))
    landing.bring(record, EPISODE)
    assert read_evidence(Path(tmp_path, "there", EPISODE)) == read_evidence(record)
