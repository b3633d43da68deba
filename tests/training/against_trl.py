"""What the exported rows are to TRL: its own trainers take one step on them, on the small policy. Run by ``make trainers``.

TRL is in an environment of its own in the cache, made as that of vLLM is: by pip, whose configuration is where a machine says from where it
has a PyTorch without CUDA. No file of the lock has it.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_harness.provision.cache import Cache, Made
from pytest_harness.provision.python import installer_environment
from pytest_harness.provision.tools import run_installer, uv_program
from pytest_harness.provision.vllm import PYTHON

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ["torch==2.13.0", "trl==1.16.0", "transformers==5.24.0", "datasets==5.2.0"]
WITHOUT_WEIGHT = -100
"""What TRL calls a label of no weight."""


def install(making):
    python = making.tree / "venv" / "bin" / "python"
    create = [uv_program(), "venv", "--seed", "--python", PYTHON, "--python-preference", "system", making.tree / "venv"]
    run_installer(making, f"uv venv --python {PYTHON}", create, installer_environment())
    run_installer(making, "pip install trl", [python, "-m", "pip", "install", *PACKAGES], installer_environment())
    return Made(version=PACKAGES[1], digest="")


@pytest.fixture(scope="module")
def python():
    """A Python that has TRL."""
    cache = Cache()
    entry = cache.entry("engine/trl", "1.16.0", [PYTHON, *PACKAGES])
    cache.obtain(entry, "TRL (a few minutes, 2 to 7 GB)", install, print)
    return entry.tree / "venv" / "bin" / "python"


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """What ``judge --export`` writes of three episodes, of which one was not graded."""
    folder = tmp_path_factory.mktemp("rows")
    command = [
        sys.executable,
        "-m",
        "pytest_harness.cli",
        "judge",
        ROOT / "fixtures" / "evidence" / "pi",
        "--report-dir",
        folder / "report",
    ]
    subprocess.run([*command, "--rehearsal", "--export", folder / "rows.jsonl"], check=True, stdout=subprocess.DEVNULL)
    return [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]


@pytest.fixture
def trained(python, tmp_path):
    """What a trainer of TRL made of rows."""

    def train(kind, rows):
        (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        env = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "home"), "TRL_EXPERIMENTAL_SILENCE": "1"}
        places = [tmp_path / "rows.jsonl", ROOT / "fixtures" / "policy" / "model", ROOT / "fixtures" / "tokenizer", tmp_path / "out"]
        command = [python, Path(__file__).with_name("with_trl.py"), kind, *places]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout.splitlines()[-1])

    return train


def sequence(row):
    return row["prompt_ids"] + row["completion_ids"]


def without_padding(values, row):
    """Of a completion that TRL has filled up behind its end."""
    return values[: len(row["completion_ids"])]


def test_trl_learns_from_exactly_the_tokens_that_have_weight(trained, rows):
    made = trained("sft", rows)
    for row, labels in zip(rows, made["labels"], strict=True):
        weights = [0] * len(row["prompt_ids"]) + row["mask"]
        wanted = [token if weight else WITHOUT_WEIGHT for token, weight in zip(sequence(row), weights, strict=True)]
        assert labels[: len(wanted)] == wanted
        assert set(labels[len(wanted) :]) <= {WITHOUT_WEIGHT}
    assert sum(label != WITHOUT_WEIGHT for labels in made["labels"] for label in labels) == sum(sum(row["mask"]) for row in rows)
    assert math.isfinite(made["loss"])


def test_trl_compares_the_rewards_of_a_group_and_takes_none_for_no_zero(trained, rows):
    graded, ungraded = (
        min((row for row in rows if row["reward"] is not None), key=lambda row: len(row["mask"])),
        next(row for row in rows if row["reward"] is None),
    )
    attempts = [graded, graded | {"attempt": 2, "reward": 0.0}, ungraded, ungraded | {"attempt": 2, "reward": 1.0}]
    made = trained("grpo", attempts)
    # TRL shuffles the groups, and keeps the attempts of one together.
    by_group = {row["group"]: [each for each in attempts if each["group"] == row["group"]] for row in attempts}
    order = [row for group in dict.fromkeys(made["group"]) for row in by_group[group]]
    for index, row in enumerate(order):
        prompt = [token for token, there in zip(made["prompt_ids"][index], made["prompt_mask"][index], strict=True) if there]
        assert prompt == row["prompt_ids"]
        assert without_padding(made["completion_ids"][index], row) == row["completion_ids"]
        assert without_padding(made["tool_mask"][index], row) == row["mask"]
        told = without_padding(made["sampling_per_token_logps"][index], row)
        assert [value is None for value in told] == [value is None for value in row["logprobs"]]
        assert [value for value in told if value is not None] == pytest.approx([value for value in row["logprobs"] if value is not None])
    advantages = dict(zip([(row["group"], row["attempt"]) for row in order], made["advantages"], strict=True))
    assert advantages[graded["group"], graded["attempt"]] > 0 > advantages[graded["group"], 2]
    # One of its two attempts was graded, so there is nothing to compare it with: were None a zero, one would be better than the other.
    assert advantages[ungraded["group"], ungraded["attempt"]] == advantages[ungraded["group"], 2] == 0
    assert math.isfinite(made["loss"])
