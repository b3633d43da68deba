"""A vLLM that is started for a run and does not come up: the run ends before any rollout, with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

SEAMS = Path(__file__).resolve().parents[2] / "examples" / "own-harness" / "seams"

BROKEN = """
from pathlib import Path

import pytest_harness.rollouts.engines as engines
from pytest_harness.provision.vllm import Vllm

program = Path(__file__).with_name("broken")
program.write_text("#!/bin/sh\\necho RuntimeError: no room for it\\nexit 3\\n")
program.chmod(0o755)
engines.obtain_vllm = lambda *_: Vllm(program, "0.0", "", Path("model"), "", Path("policy"), "")
"""


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_a_vllm_that_ends_while_it_starts_is_one_sentence_and_no_rollout(tmp_path, run_pytest, workers):
    (tmp_path / "broken_engine.py").write_text(BROKEN)
    options = ("-p", "broken_engine", "--harness=tiny-agent", f"--seams={SEAMS}", "--engine=vllm", *workers)
    done = run_pytest(tmp_path, *options, env={"PYTHONPATH": str(tmp_path)})
    log = tmp_path / ".harness" / "evidence" / ".engine" / "vllm.log"
    said = f"--engine vllm: vLLM ended with exit code 3 before it was ready: RuntimeError: no room for it; its log is {log}"
    told = done.stdout + done.stderr
    assert done.returncode == 4, told
    assert said in told
    assert "Traceback" not in told
    assert "  rollout " not in told
