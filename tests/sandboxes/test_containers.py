"""Sandboxes in containers, with a program in the engine's place that runs the real warden on this machine, in no container at all.

The real engines are in ``in_containers.py``, which continuous integration runs by itself (``make sandboxes``).
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_harness.cleaning import CleaningError, leftovers
from pytest_harness.owners import PREFIX, owner
from pytest_harness.sandboxes import containers
from pytest_harness.sandboxes.baking import baked, dockerfile
from pytest_harness.sandboxes.channel import SandboxDiedError, SandboxError
from pytest_harness.sandboxes.container_cli import KIND, OWNER, ContainerCli, orphans
from pytest_harness.sandboxes.containers import CAPABILITIES, ContainerSandbox, check, found_image
from pytest_harness.sandboxes.kinds import Boxing, refusal
from pytest_harness.sandboxes.layout import Layout, Mount
from pytest_harness.sandboxes.running import Runner
from pytest_harness.seams.limits import Limits

ENGINE = r"""#!{python}
import csv, json, os, subprocess, sys
folder, (verb, *rest) = {folder!r}, sys.argv[1:]
with open(folder + "/asked", "a") as asked:
    asked.write(json.dumps(sys.argv[1:]) + "\n")
if os.path.exists(folder + "/broken-" + verb):
    sys.exit(open(folder + "/broken-" + verb).read())
if verb == "version":
    print("99.1")
elif verb == "image":
    if not os.path.exists(folder + "/" + rest[-1].replace(":", "=")):
        sys.exit("Error: No such image")
    print("sha256:" + "a" * 64)
elif verb == "ps":
    print("one two three" if os.path.exists(folder + "/listed") else "")
elif verb == "container":
    print(json.dumps([row for row in json.load(open(folder + "/listed")) if row["Id"] == rest[-1]]))
elif verb == "build":
    open(folder + "/" + rest[rest.index("--tag") + 1].replace(":", "="), "w").close()
    names = {{name for _, below, files in os.walk(rest[-1]) for name in (*below, *files)}}
    json.dump([open(rest[-1] + "/Dockerfile").read(), sorted(names)], open(folder + "/built", "w"))
elif verb == "run":
    places = [next(csv.reader([rest[at + 1]])) for at, word in enumerate(rest) if word == "--mount"]
    mounts = {{each[2].removeprefix("target="): each[1].removeprefix("source=") for each in places}}
    at = rest.index("--entrypoint")
    warden = mounts["/opt/harness-conformance/warden"]
    script = [word.replace("/opt/harness-conformance/warden", warden) for word in rest[at + 3:]]
    sys.exit(subprocess.run([sys.executable, *script], start_new_session=True).returncode)
"""


@pytest.fixture
def engine(tmp_path, monkeypatch) -> Path:
    """The folder of a program called docker; ``broken-VERB`` in it is what it complains of."""
    folder = tmp_path / "engine"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "docker").write_text(ENGINE.format(python=sys.executable, folder=str(folder)))
    (folder / "bin" / "docker").chmod(0o755)
    (folder / "harness-conformance-base").touch()
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")
    return folder


CLI = ContainerCli("docker")


def asked(engine: Path, verb: str) -> list[list[str]]:
    return [words for words in map(json.loads, (engine / "asked").read_text().splitlines()) if words[0] == verb]


def values(words: list[str], flag: str) -> list[str]:
    return [words[at + 1] for at, word in enumerate(words) if word == flag]


@pytest.fixture
def temporary(monkeypatch) -> Iterator[Path]:
    """Where temporary folders are made: a short path, since the program in the engine's place meets the warden by it."""
    with tempfile.TemporaryDirectory(prefix="t-") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


# ---- life


async def test_commands_run_listen_and_end_over_the_one_connection(engine, tmp_path):
    layout = Layout(files={str(tmp_path / "made" / "file"): "text"})
    with ContainerSandbox.start(CLI, "image", layout) as sandbox:
        runner = Runner(sandbox)
        finished = await runner.run(["/bin/bash", "-c", f'cat {tmp_path}/made/file; echo "$HOME $OWN" >&2; exit 3'], env={"OWN": "1"})
        assert (finished.code, finished.stdout, finished.stderr) == (3, b"text", b"/root 1\n")
        with pytest.raises(TimeoutError):
            await runner.run(["/bin/sleep", "1000"], timeout=0.1)
        with sandbox.listener(0) as listener:
            assert listener.getsockname()[0] == "127.0.0.1"
        assert sandbox.memory() > 0
        runner.close()
    with pytest.raises(SandboxDiedError):
        sandbox.spawn(["/bin/true"])


def test_the_meeting_place_is_gone_as_soon_as_they_have_met_and_where_the_engine_stands_with_the_sandbox(engine, temporary):
    with ContainerSandbox.start(CLI, "image"):
        (left,) = temporary.iterdir()
        assert left.name.startswith(f"{PREFIX}engine-")
    assert list(temporary.iterdir()) == []


async def test_what_a_command_leaves_behind_is_buried(engine):
    with ContainerSandbox.start(CLI, "image") as sandbox:
        # Outside a container an orphan goes to this machine's own process 1, unless the warden is asked to take it.
        runner = Runner(sandbox)
        children = f"/proc/{await _warden(runner)}/task/{await _warden(runner)}/children"
        finished = await runner.run(["/bin/bash", "-c", f"true & wait; cat {children}"])
        assert len(finished.stdout.split()) == 1
        runner.close()


async def _warden(runner: Runner) -> int:
    return int((await runner.run(["/bin/bash", "-c", "echo $PPID"])).stdout)


async def test_who_has_been_killed_from_outside_is_dead_to_whoever_waits(engine):
    with ContainerSandbox.start(CLI, "image") as sandbox:
        runner = Runner(sandbox)
        warden = await _warden(runner)
        waiting = asyncio.ensure_future(runner.run(["/bin/sleep", "1000"]))
        await asyncio.sleep(0)
        os.kill(warden, 9)
        with pytest.raises(SandboxDiedError):
            await waiting
        runner.close()


def test_a_container_that_does_not_end_by_itself_is_removed(engine, monkeypatch):
    monkeypatch.setattr(containers, "GRACE_SEC", 0.0)
    ContainerSandbox.start(CLI, "image").close()
    assert all(words[1:3] == ["--force", "--volumes"] for words in asked(engine, "rm"))


# ---- what an engine is told


def test_a_container_has_no_network_no_privilege_no_pull_and_the_limits_of_its_row(engine, tmp_path):
    odd = tmp_path / "a,b:c"
    odd.mkdir()
    layout = Layout(mounts=(Mount(odd, "/odd"), Mount(odd, "/own", writable=True)))
    ContainerSandbox.start(CLI, "image", layout, Limits(memory_mb=400, processes=77, output_mb=10)).close()
    (words,) = asked(engine, "run")
    assert "--rm" in words
    assert "--privileged" not in words
    for flag, value in {
        "--network": ["none"],
        "--pull": ["never"],
        "--cap-drop": ["ALL"],
        "--security-opt": ["no-new-privileges", "label=disable"],
        "--pids-limit": ["77"],
        "--memory": ["510m"],
        "--memory-swap": ["510m"],
        "--label": [f"{KIND}=sandbox", f"{OWNER}={owner()}"],
        "--tmpfs": ["/logs/agent:rw,nosuid,nodev,size=10m,mode=0777"],
    }.items():
        assert values(words, flag) == value
    assert {word for word in words if word.startswith("--cap-add")} == {f"--cap-add={each}" for each in CAPABILITIES}
    assert not {"SYS_ADMIN", "SYS_PTRACE", "NET_ADMIN", "NET_RAW", "MKNOD"} & set(CAPABILITIES)
    assert values(words, "--mount")[1:] == [f'type=bind,"source={odd}",target=/odd,readonly', f'type=bind,"source={odd}",target=/own']


def test_a_baked_image_is_built_once_of_numbered_folders(engine, tmp_path):
    (tmp_path / "harness").mkdir()
    (tmp_path / "harness" / "program").write_text("x")
    mounts = [Mount(tmp_path / "harness", "/opt/a b"), Mount(tmp_path / "harness" / "program", "/opt/program")]
    made = {baked(CLI, "sha256:" + "b" * 64, "pi", "c" * 64, mounts) for _ in range(2)}
    assert made == {"sha256:" + "a" * 64}
    (words,) = asked(engine, "build")
    assert values(words, "--label") == [f"{KIND}=baked"]
    text, names = json.loads((engine / "built").read_text())
    assert text == dockerfile("b" * 64, mounts) == f'FROM {"b" * 64}\nCOPY ["0", "/opt/a b"]\nCOPY ["1", "/opt/program"]\n'
    assert names == ["0", "1", "Dockerfile", "program"]


# ---- what a machine lacks, in a sentence


@pytest.mark.parametrize("kind", ["docker", "podman"])
def test_a_machine_without_the_program_is_told_what_to_install(monkeypatch, tmp_path, kind):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert refusal(kind).startswith(f"--sandbox={kind}: there is no {kind} on this machine; install it")


def test_a_machine_whose_daemon_is_down_is_told_to_start_it(engine):
    (engine / "broken-version").write_text("Cannot connect to the Docker daemon. Is it running?\nSee 'docker --help'.")
    reason = refusal("docker")
    assert "does not answer" in reason
    assert "Cannot connect to the Docker daemon" in reason
    assert reason.endswith("start its daemon, or name its socket in DOCKER_HOST")


def test_an_engine_that_hangs_is_given_up(engine):
    (engine / "bin" / "docker").write_text("#!/bin/sh\nexec sleep 1000\n")
    with pytest.raises(SandboxError, match="took more than 0 seconds"):
        CLI.ask("version", seconds=0.1)


def test_an_engine_without_the_image_is_told_how_to_get_it(engine):
    assert refusal("docker") is None
    assert "--image mine: docker does not have it, and nothing is pulled here; run docker pull mine" in refusal("docker", Boxing("mine"))
    (engine / "harness-conformance-base").unlink()
    assert refusal("docker") == (
        "--sandbox=docker: docker has no base image; make it (python -m pytest_harness.provision.base_image docker), "
        "or name one of yours with --image"
    )


def test_a_container_that_does_not_start_says_what_the_engine_says_and_leaves_nothing(engine, temporary):
    (engine / "broken-run").write_text("docker: Error response: no space left on device.")
    assert "docker started no container (docker: Error response: no space left on device.)" in check("docker")
    assert list(temporary.iterdir()) == []
    assert len(asked(engine, "rm")) == 1


def test_a_mount_that_is_not_there_is_said_before_anything_is_started(engine, tmp_path):
    with pytest.raises(SandboxError, match=f"there is no {tmp_path}/none on this machine"):
        ContainerSandbox.start(CLI, "image", Layout(mounts=(Mount(tmp_path / "none", "/x"),)))
    assert not (engine / "asked").exists()


# ---- what is left


def test_only_the_container_of_an_owner_that_is_gone_is_an_orphan(engine):
    program = [sys.executable, "-c", "from pytest_harness.owners import owner; print(owner())"]
    gone = subprocess.run(program, capture_output=True, text=True, check=True).stdout.strip()
    rows = [("one", owner()), ("two", gone), ("three", "elsewhere:1:1")]
    (engine / "listed").write_text(
        json.dumps([{"Id": name, "Name": f"/{name}", "Config": {"Labels": {KIND: "sandbox", OWNER: mark}}} for name, mark in rows])
    )
    assert [(cli.engine, each.name) for cli, each in orphans() if cli == CLI] == [("docker", "two")]
    (left,) = [each for each in leftovers([]) if each.kind == "container" and each.name.endswith("docker")]
    left.remove()
    assert asked(engine, "rm") == [["rm", "--force", "--volumes", "two"]]
    (engine / "broken-rm").write_text("Error response: it is busy")
    with pytest.raises(CleaningError, match=r"the container two cannot be removed .*it is busy.*; remove it yourself"):
        left.remove()


def test_a_base_image_is_found_by_its_digest(engine):
    assert found_image(CLI) == "sha256:" + "a" * 64
