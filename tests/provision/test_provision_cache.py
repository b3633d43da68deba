"""The cache of installed things: whole or not there, made once, whoever is killed meanwhile."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pytest_harness.provision.cache import Cache, Made, Making, ProvisionError
from pytest_harness.provision.tools import run_installer

SILENT = lambda _: None  # noqa: E731

# A process that installs: it says "ready" when it is half-way and goes on when told to.
HALF_WAY = """
import sys
from pathlib import Path
from pytest_harness.provision.cache import Cache, Made
cache = Cache(Path(sys.argv[1]))
def make(making):
    (making.tree / "half").write_text("first")
    print("ready", flush=True)
    sys.stdin.readline()
    (making.tree / "other half").write_text("first")
    with Path(sys.argv[1], "count").open("a") as count:
        count.write("x")
    return Made(version="1", digest="d")
cache.obtain(cache.entry("harness/mine", "1", {}), "mine 1", make, lambda text: None)
print("done", flush=True)
"""

# A process whose installer is a program of its own, which outlives it: it waits for a line in a FIFO.
WITH_A_CHILD = """
import os, sys
from pathlib import Path
from pytest_harness.provision.cache import Cache, Made
from pytest_harness.provision.tools import run_installer
cache = Cache(Path(sys.argv[1]))
say = f"/proc/{os.getpid()}/fd/1"
def make(making):
    run_installer(making, "the installer", ["sh", "-c", 'echo ready > "$0"; read line < "$1"; echo late > late', say, sys.argv[2]], {})
    return Made(version="1", digest="d")
cache.obtain(cache.entry("harness/mine", "1", {}), "mine 1", make, lambda text: None)
"""


def start(script: str, *arguments: Path) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    )


def finish(process: subprocess.Popen) -> None:
    process.wait()
    process.stdin.close()
    process.stdout.close()


def made(making: Making) -> Made:
    (making.tree / "whole").write_text("second")
    return Made(version="1", digest="d")


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_killed_install_never_looks_whole_and_the_next_one_completes(tmp_path):
    cache = Cache(tmp_path)
    entry = cache.entry("harness/mine", "1", {})
    process = start(HALF_WAY, tmp_path)
    assert process.stdout.readline() == "ready\n"
    assert files(entry.tree) == ["half"]
    assert entry.facts() is None
    process.send_signal(signal.SIGKILL)
    finish(process)
    assert entry.facts() is None
    assert cache.obtain(entry, "mine 1", made, SILENT).version == "1"
    assert files(entry.tree) == ["whole"]


def test_an_installer_that_outlives_its_killed_parent_is_waited_for(tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    process = start(WITH_A_CHILD, tmp_path / "cache", gate)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGKILL)
    finish(process)

    cache = Cache(tmp_path / "cache")
    entry = cache.entry("harness/mine", "1", {})
    waiting = threading.Event()

    def progress(text: str) -> None:
        if text.startswith("waiting for another process that installs mine 1"):
            waiting.set()

    second = threading.Thread(target=cache.obtain, args=(entry, "mine 1", made, progress))
    second.start()
    assert waiting.wait(30)
    gate.write_text("go on\n")
    second.join()
    assert files(entry.tree) == ["whole"]
    assert entry.facts() is not None


def test_processes_that_want_the_same_thing_make_it_once(tmp_path):
    processes = [start(HALF_WAY, tmp_path) for _ in range(3)]
    for process in processes:
        process.stdin.write("go on\n")
        process.stdin.flush()
    said = [process.stdout.read() for process in processes]
    for process in processes:
        finish(process)
    assert sorted(said) == ["done\n", "done\n", "ready\ndone\n"]
    assert (tmp_path / "count").read_text() == "x"


def test_an_installer_that_fails_leaves_no_tree_and_says_where_its_output_is(tmp_path):
    cache = Cache(tmp_path)
    entry = cache.entry("harness/mine", "1", {})

    def make(making: Making) -> Made:
        run_installer(making, "npm install x", ["sh", "-c", "echo npm error code E1; echo npm error notarget No x.; exit 3"], {})
        return Made(version="1", digest="d")

    with pytest.raises(ProvisionError) as caught:
        cache.obtain(entry, "mine 1", make, SILENT)
    assert str(caught.value) == f"npm install x failed with exit code 3: No x; all of its output is in {entry.log}"
    assert "notarget" in entry.log.read_text()
    assert entry.facts() is None
    assert not entry.tree.exists()


def test_what_is_whole_is_not_made_again(tmp_path):
    cache = Cache(tmp_path)
    entry = cache.entry("harness/mine", "1", {})
    first = cache.obtain(entry, "mine 1", made, SILENT)
    said: list[str] = []
    assert cache.obtain(entry, "mine 1", lambda _: pytest.fail("made again"), said.append) == first
    assert said == []


@pytest.mark.parametrize("loss", ["manifest", "tree", "torn manifest", "base interpreter", "shared entry"])
def test_what_has_lost_something_is_made_anew(tmp_path, loss):
    cache = Cache(tmp_path / "cache")
    entry = cache.entry("harness/mine", "1", {})
    shared = cache.entry("node", "24", {})
    cache.obtain(shared, "Node 24", made, SILENT)
    base = tmp_path / "base"
    base.mkdir()

    def make(making: Making) -> Made:
        made(making)
        return Made(version="1", digest="d", mounts=(str(base),), uses=(shared.name,))

    cache.obtain(entry, "mine 1", make, SILENT)
    assert entry.facts() is not None
    if loss == "manifest":
        entry.manifest.unlink()
    elif loss == "tree":
        entry.tree.rename(tmp_path / "elsewhere")
    elif loss == "torn manifest":
        entry.manifest.write_bytes(entry.manifest.read_bytes()[:-20])
    elif loss == "base interpreter":
        base.rmdir()
    else:
        shared.manifest.unlink()
    assert entry.facts() is None
    said: list[str] = []
    cache.obtain(entry, "mine 1", made, said.append)
    assert said[0] == "installing mine 1"
    assert entry.facts() is not None


def test_name_version_platform_and_recipe_each_have_a_place_of_their_own(tmp_path):
    cache = Cache(tmp_path)
    entries = [
        cache.entry("harness/mine", "1", {"node": "24"}),
        cache.entry("harness/mine", "1", {"node": "22"}),
        cache.entry("harness/mine", "2", {"node": "24"}),
        cache.entry("harness/other", "1", {"node": "24"}),
        cache.entry("node", "1", {"node": "24"}),
    ]
    assert len({entry.folder for entry in entries}) == len({entry.lock for entry in entries}) == 5
    assert [entry.harness for entry in entries] == ["mine", "mine", "mine", "other", None]


def test_the_environment_names_another_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_CONFORMANCE_CACHE", str(tmp_path / "mine"))
    assert Cache().root == tmp_path / "mine"
    assert Cache(tmp_path).root == tmp_path
    monkeypatch.delenv("HARNESS_CONFORMANCE_CACHE")
    assert Cache().root.name == "harness-conformance"


def test_a_cache_that_cannot_be_written_is_told_in_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    cache = Cache(tmp_path / "file" / "cache")
    with pytest.raises(ProvisionError, match=r"mine 1 cannot be installed into .*; make it writable or set HARNESS_CONFORMANCE_CACHE"):
        cache.obtain(cache.entry("harness/mine", "1", {}), "mine 1", made, SILENT)
