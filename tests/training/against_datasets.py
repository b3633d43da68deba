"""What the exported files are to those who read them: ``datasets`` loads both forms and finds the same. Run by ``make trainers``.

It and pyarrow are in an environment of their own, made here by uv: no file of the lock has them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

EVIDENCE = Path(__file__).resolve().parents[2] / "fixtures" / "evidence" / "pi"
READ = """
import json, sys
from datasets import load_dataset
folder = sys.argv[1]
for kind, name in (("json", "rows.jsonl"), ("parquet", "rows.parquet")):
    print(json.dumps(list(load_dataset(kind, data_files=f"{folder}/{name}", split="train", cache_dir=f"{folder}/cache"))))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """A Python that has pyarrow and datasets."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    uv = Path(sys.executable).with_name("uv")
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, folder], check=True)
    subprocess.run([uv, "pip", "install", "--quiet", "--python", folder / "bin" / "python", "pyarrow>=18", "datasets>=4"], check=True)
    return folder / "bin" / "python"


def test_datasets_loads_both_forms_alike(python, tmp_path):
    packages = python.parents[1] / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    judge = [sys.executable, "-m", "pytest_harness.cli", "judge", EVIDENCE, "--report-dir", tmp_path / "report", "--rehearsal", "--export"]
    for name in ("rows.jsonl", "rows.parquet"):
        subprocess.run([*judge, tmp_path / name], check=True, env=os.environ | {"PYTHONPATH": str(packages)}, stdout=subprocess.DEVNULL)
    offline = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "home")}
    done = subprocess.run([python, "-c", READ, tmp_path], check=True, env=offline, capture_output=True, text=True)
    from_json, from_parquet = map(json.loads, done.stdout.splitlines())
    written = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert written == from_parquet
    assert [row["reward"] for row in from_parquet] == [1.0, None, 1.0]
    assert from_json == from_parquet
