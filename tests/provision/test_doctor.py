"""The doctor: what is here, what is missing, how large it is, and clearing it."""

import errno
import os
import shutil
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pytest_harness import doctor
from pytest_harness.cli import USAGE_ERROR, app
from pytest_harness.provision import Cache, ProvisionError
from pytest_harness.provision.cache import Entry, Facts, Made, Making
from pytest_harness.provision.node import node_entry, npm_entry
from pytest_harness.provision.python import pypi_entry
from pytest_harness.provision.vllm import Vllm
from pytest_harness.rollouts.workplace import broken_off, workplace
from pytest_harness.seams import SeamTable

TABLE = SeamTable.load()
PI, MINI = TABLE["pi"], TABLE["mini-swe-agent"]


def fill(cache: Cache, entry, size: int, uses: tuple[str, ...] = ()) -> None:
    def make(making: Making) -> Made:
        file = making.tree / "node_modules" / PI.install.package / "dist" / "bundle" / "cli.js"
        file.parent.mkdir(parents=True)
        file.write_bytes(b"x" * size)
        return Made(version="1.6.0", digest="d", uses=uses)

    cache.obtain(entry, "it", make, lambda _: None)


@pytest.fixture
def cache(tmp_path):
    """A cache with pi, its Node, and an install of mini-swe-agent that was broken off."""
    cache = Cache(tmp_path)
    node = node_entry(cache, PI.install.node)
    fill(cache, node, 5000)
    fill(cache, npm_entry(cache, "pi", PI.install), 3000, uses=(node.name,))
    half = pypi_entry(cache, "mini-swe-agent", MINI.install)
    half.tree.mkdir(parents=True)
    (half.tree / "half").write_bytes(b"x" * 100)
    return cache


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path_factory, monkeypatch):
    """What runs in the checkout have left is nothing to these tests."""
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))


def lines(cache: Cache) -> dict[str, doctor.Line]:
    return {line.subject: line for line in doctor.inspect(TABLE, cache.root)}


def test_it_looks_at_every_prerequisite_and_every_harness_of_the_table(cache):
    groups = [line.group for line in doctor.inspect(TABLE, cache.root)]
    seen = lines(cache)
    assert {"Python", "uv", "bubblewrap", "local sandbox"} <= set(seen)
    assert groups.count("harness") == len({TABLE[name].harness for name in TABLE.names})
    assert not seen["Python"].fatal
    assert not seen["uv"].fatal


def test_installed_incomplete_and_missing_are_told_apart_and_what_to_do_is_said(cache, tmp_path):
    seen = lines(cache)
    assert (seen["pi 1.6.0"].state, seen["pi 1.6.0"].size, seen["pi 1.6.0"].remedy) == ("ok", 3000, None)
    half = seen["mini-swe-agent 2.4.6"]
    assert (half.state, half.size, half.fatal) == ("incomplete", 100, False)
    assert "made anew" in half.remedy
    empty = lines(Cache(tmp_path / "empty"))["pi 1.6.0"]
    assert (empty.state, empty.size, empty.fatal) == ("missing", None, False)
    assert "installed when it is first needed" in empty.remedy


def test_the_total_counts_everything_and_a_file_with_two_names_once(cache):
    tree = npm_entry(cache, "pi", PI.install).tree
    before = lines(cache)["total"].size
    assert before > 8100
    first = next(path for path in tree.rglob("*") if path.is_file())
    (tree / "second name").hardlink_to(first)
    assert lines(cache)["total"].size == before


def test_clearing_one_harness_keeps_the_others_and_the_node_that_they_use(cache):
    doctor.clear(cache.root, ["mini-swe-agent"])
    assert lines(cache)["pi 1.6.0"].state == "ok"
    assert lines(cache)["mini-swe-agent 2.4.6"].state == "missing"


def test_clearing_the_last_harness_that_uses_a_node_clears_the_node(cache):
    freed = doctor.clear(cache.root, ["pi"])
    assert freed >= 8000
    assert lines(cache)["pi 1.6.0"].state == "missing"
    assert [entry.harness for entry in cache.entries()] == ["mini-swe-agent"]


def test_clearing_all_leaves_nothing(cache):
    doctor.clear(cache.root)
    assert list(cache.entries()) == []
    assert lines(cache)["total"].size == 0
    assert doctor.clear(cache.root) == 0


def test_clearing_what_is_not_there_is_told(cache):
    with pytest.raises(ProvisionError, match=r"the cache holds nothing of nonsense; it holds mini-swe-agent, pi \(in "):
        doctor.clear(cache.root, ["nonsense"])
    assert lines(cache)["pi 1.6.0"].state == "ok"


@pytest.mark.parametrize("below", [".", "a/folder/that/is/not/there"])
def test_a_cache_whose_place_is_taken_by_a_file_is_a_prerequisite_that_is_missing(tmp_path, below):
    taken = tmp_path / "taken"
    taken.touch()
    line = lines(Cache(taken / below))["cache"]
    assert (line.state, line.fatal) == ("missing", True)
    assert f"{taken} is no folder" in line.detail
    assert "HARNESS_CONFORMANCE_CACHE" in line.remedy


def test_a_cache_that_is_not_there_yet_is_no_fault(tmp_path):
    assert "cache" not in lines(Cache(tmp_path / "to" / "be" / "made"))


def test_what_a_failed_install_of_another_version_left_is_told_and_cleared(cache):
    other = Entry(cache.root, "harness/pi/9.9.9-somewhere-12345678")
    other.folder.mkdir(parents=True)
    other.log.write_text("it failed")
    line = lines(cache)[other.name]
    assert (line.state, line.size, line.fatal) == ("incomplete", 9, False)
    assert str(other.log) in line.detail
    doctor.clear(cache.root, ["pi"])
    assert not other.folder.exists()


def test_what_was_told_of_a_harness_is_not_told_of_the_cache_again(cache):
    told = [line for line in doctor.inspect(TABLE, cache.root) if line.group in {"harness", "cache"}]
    assert [line.subject for line in told if line.state == "incomplete"] == ["mini-swe-agent 2.4.6"]


def test_a_rollout_that_was_broken_off_is_told_and_cleared_and_one_that_runs_is_neither(cache, tmp_path):
    here = tmp_path / ".harness"
    with workplace(here / "evidence", "pi-in-local-explore") as broken:
        (broken / "journal.ndjson").write_text("x" * 100)
    with workplace(here / "rollouts", "pi-in-local-edit_file") as alive:
        left = [line for line in doctor.inspect(TABLE, cache.root, [here]) if line.subject == "working folder"]
        assert [(line.group, line.state, line.size, line.fatal) for line in left] == [("leftover", "incomplete", 100, False)]
        assert str(broken) in left[0].detail
        doctor.clear(cache.root, ["pi"], here)
        assert broken.exists()
        doctor.clear(cache.root, None, here)
        assert not broken.exists()
        assert alive.exists()
    assert [folder.name for folder in broken_off([here])] == ["pi-in-local-edit_file"]


def test_what_an_older_version_left_is_told_by_its_journal(tmp_path):
    for name in ("begun", "left"):
        (tmp_path / ".running" / name).mkdir(parents=True)
    (tmp_path / ".running" / "left" / "journal.ndjson").touch()
    assert [folder.name for folder in broken_off([tmp_path])] == ["left"]


def test_an_attempt_that_is_run_again_finds_nothing_of_the_last_time(tmp_path):
    with workplace(tmp_path, "it") as work:
        (work / "journal.ndjson").touch()
    with workplace(tmp_path, "it") as work:
        assert [path.name for path in work.iterdir()] == ["held"]


def test_a_cache_whose_name_is_too_long_is_a_prerequisite_that_is_missing(tmp_path):
    line = lines(Cache(tmp_path / ("x" * 300)))["cache"]
    assert (line.state, line.fatal) == ("missing", True)
    assert "cannot be a folder (File name too long)" in line.detail


@pytest.mark.parametrize("others", [1, 2])
def test_manifests_that_use_themselves_or_each_other_are_not_whole(tmp_path, others):
    cache = Cache(tmp_path)
    one, two = Entry(cache.root, "node/one"), Entry(cache.root, "node/two")
    for entry, used in ((one, one if others == 1 else two), (two, one)):
        entry.tree.mkdir(parents=True)
        facts = Facts(version="1", digest="d", mounts=(), uses=(used.name,), seconds=1)
        entry.manifest.write_text(facts.model_dump_json())
    assert lines(cache)["node/one"].state == "incomplete"


def _emptied(entry):
    shutil.rmtree(entry.tree)
    entry.tree.mkdir()


def _without_its_base(entry):
    (entry.tree / "venv" / "bin" / "python").unlink()
    (entry.tree / "venv" / "bin" / "python").symlink_to("gone")


@pytest.mark.parametrize("break_it", [_emptied, _without_its_base])
def test_an_engine_of_which_something_has_gone_is_not_whole(tmp_path, break_it):
    cache = Cache(tmp_path)
    entry = Entry(cache.root, "engine/trl/1-somewhere-12345678")

    def make(making: Making) -> Made:
        (making.tree / "venv" / "bin").mkdir(parents=True)
        (making.tree / "venv" / "pyvenv.cfg").touch()
        (making.tree / "venv" / "bin" / "python").symlink_to(sys.executable)
        return Made(version="1", digest="d")

    cache.obtain(entry, "it", make, lambda _: None)
    assert lines(cache)[entry.name].state == "ok"
    break_it(entry)
    assert lines(cache)[entry.name].state == "incomplete"


@pytest.mark.parametrize("make", [Path.touch, os.mkfifo, lambda path: path.symlink_to("nowhere")])
def test_an_entry_that_is_no_folder_is_told_and_cleared(tmp_path, make):
    stray = tmp_path / "harness" / "pi" / "file"
    stray.parent.mkdir(parents=True)
    make(stray)
    assert lines(Cache(tmp_path))["harness/pi/file"].state == "incomplete"
    assert doctor.clear(tmp_path) == 0
    assert list(stray.parent.iterdir()) == []


def test_a_manifest_that_is_a_fifo_is_not_waited_for(cache):
    entry = npm_entry(cache, "pi", PI.install)
    entry.manifest.unlink()
    os.mkfifo(entry.manifest)
    assert lines(cache)["pi 1.6.0"].state == "incomplete"


def test_a_lock_that_is_a_fifo_is_one_sentence(cache):
    entry = npm_entry(cache, "pi", PI.install)
    entry.lock.unlink()
    os.mkfifo(entry.lock)
    with pytest.raises(ProvisionError, match=r"the lock .* is no plain file; remove it"):
        doctor.clear(cache.root, ["pi"])


def test_clearing_a_cache_that_is_a_file_is_one_sentence(tmp_path):
    (tmp_path / "taken").touch()
    with pytest.raises(ProvisionError, match=r"taken is no folder.*; put a folder of yours"):
        doctor.clear(tmp_path / "taken")


def _refuses(*_, **__):
    raise PermissionError(errno.EACCES, "Permission denied")


def test_what_cannot_be_removed_is_one_sentence(cache, monkeypatch):
    monkeypatch.setattr(shutil, "rmtree", _refuses)
    with pytest.raises(ProvisionError, match=r"cannot be removed \(Permission denied\); make the cache .* writable"):
        doctor.clear(cache.root)


def test_a_cache_that_cannot_be_looked_into_is_a_prerequisite_that_is_missing(cache, monkeypatch):
    monkeypatch.setattr(Path, "iterdir", _refuses)
    line = lines(cache)["cache"]
    assert (line.state, line.fatal) == ("missing", True)
    assert "harness cannot be read (Permission denied); make it readable" in line.detail
    assert "total" not in lines(cache)


def test_installing_vllm_ahead_says_what_is_there_then(tmp_path, monkeypatch):
    there = Vllm(tmp_path / "python", "0.32.0", "digest", tmp_path / "model", "digest", tmp_path / "policy", "digest")
    monkeypatch.setattr(doctor, "obtain_vllm", lambda cache, progress: progress(f"installing into {cache.root}") or there)
    told: list[str] = []
    assert doctor.install_vllm(told.append, tmp_path) == f"vLLM 0.32.0 is installed at {tmp_path / 'python'}"
    assert told == [f"installing into {tmp_path}"]


def test_installing_and_clearing_at_once_is_refused():
    said = CliRunner().invoke(app, ["doctor", "--clear", "--install-vllm"])
    assert said.exit_code == USAGE_ERROR
    assert "run one after the other" in said.stderr
