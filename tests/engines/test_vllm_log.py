"""The log of a vLLM that is started: where it cannot be written, that is one sentence and nothing is started."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from pytest_harness.engines.vllm import EngineError
from pytest_harness.engines.vllm.server import serve


@pytest.mark.parametrize(
    ("taken", "make", "said"),
    [
        (".engine", Path.touch, r"cannot be written \(File exists\); remove what is in its place"),
        (".engine/engine.log", Path.mkdir, "is no plain file; remove it"),
        (".engine/engine.log", os.mkfifo, "is no plain file; remove it"),
    ],
)
def test_a_log_that_cannot_be_written_is_one_sentence_and_starts_nothing(tmp_path, monkeypatch, taken, make, said):
    started = []
    monkeypatch.setattr(subprocess, "Popen", lambda *arguments, **_: started.append(arguments))
    (tmp_path / taken).parent.mkdir(exist_ok=True)
    make(tmp_path / taken)
    with pytest.raises(EngineError, match=said), serve(["vllm", "serve", "model"], name="it", log=tmp_path / ".engine" / "engine.log"):
        pass
    assert started == []
