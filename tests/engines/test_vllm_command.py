"""What is run to serve a model: with the vLLM for CPUs, and with one of the user's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_harness.engines.vllm import EngineError, cpu_command, own_command, serve
from pytest_harness.engines.vllm.server import CPU_FLAGS, FLAGS, PROGRAM_VARIABLE
from pytest_harness.rollouts.engines import shared_vllm


@pytest.fixture
def program(tmp_path, monkeypatch):
    """A folder on the PATH, which is all there is of it, and how to put a program there."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv(PROGRAM_VARIABLE, raising=False)

    def put(name: str) -> str:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
        return str(folder / name)

    return put


@pytest.fixture
def started(monkeypatch):
    """What was to be started; it ends at once."""
    runs: list[tuple[list[str], dict[str, str]]] = []

    class Ended:
        pid, returncode = 2**22 + 1, 3  # no process has this id

        def __init__(self, command, env, **_):
            runs.append((command, env))

        def poll(self):
            return self.returncode

        def wait(self, timeout=None):
            return self.returncode

    monkeypatch.setattr(subprocess, "Popen", Ended)
    return runs


def test_the_vllm_on_the_path_serves_a_model_of_ones_own(program):
    found = program("vllm")
    assert own_command("org/model") == [found, "serve", "org/model"]


def test_the_variable_names_another_one(program, monkeypatch):
    program("vllm")
    monkeypatch.setenv(PROGRAM_VARIABLE, other := program("vllm-nightly"))
    assert own_command("org/model") == [other, "serve", "org/model"]


def test_a_vllm_that_is_not_there_is_one_sentence_with_what_to_do(program, monkeypatch):
    with pytest.raises(EngineError, match=r"^--model org/model is served by a vLLM of your own, and there is no vllm on the PATH; install"):
        own_command("org/model")
    monkeypatch.setenv(PROGRAM_VARIABLE, "/nowhere/vllm")
    with pytest.raises(EngineError, match=f"^{PROGRAM_VARIABLE} names /nowhere/vllm, which cannot be run; correct it"):
        own_command("org/model")


def test_a_model_of_ones_own_gets_what_training_needs_and_nothing_of_the_cpu(program, started, tmp_path):
    command = [program("vllm"), "serve", "org/model"]
    told: list[str] = []
    with pytest.raises(EngineError, match="ended with exit code 3"), shared_vllm(tmp_path / "log", told.append, model="org/model"):
        pass
    [(run, env)] = started
    assert run[5:8] == command
    assert {*FLAGS, "--served-model-name=model", "--host=127.0.0.1"} <= set(run[8:])
    assert not set(CPU_FLAGS) & set(run)
    assert "HF_HUB_OFFLINE" not in env.keys() - os.environ.keys()
    assert len(env["VLLM_API_KEY"]) > 32
    assert told == [f"starting {command[0]} with org/model; its log is {tmp_path / 'log'}"]


def test_the_cpu_serves_offline_and_in_one_process(started, tmp_path):
    command = cpu_command(Path(sys.executable), tmp_path / "model")
    with pytest.raises(EngineError), serve(command, name="policy", log=tmp_path / "log"):
        pass
    [(run, env)] = started
    assert run[5:9] == [sys.executable, "-m", "vllm.entrypoints.openai.api_server", f"--model={tmp_path / 'model'}"]
    assert {*FLAGS, *CPU_FLAGS} <= set(run)
    assert env["HF_HUB_OFFLINE"] == "1"
