"""What a process that makes one rollout after another keeps of each: memory, files, threads, processes, folders, tasks.

    python benchmarks/leaks/run.py                               # 200 rollouts of pi; into measured.json and docs/scaling.md
    python benchmarks/leaks/run.py --rollouts 30 --no-page --harness tiny-agent --seams examples/own-harness/seams

Makes the rollouts as a worker of ``pytest`` does, each through the pool and with a proxy of its own, all in this process; ``--shared``
gives them one engine that another process serves, as ``--engine=vllm`` and ``--llm-url`` do. After each one everything that the process
holds is counted. The first ones only warm it up: imports, caches, pools of threads. Over the others the line of least squares says how much
more of it there is after a hundred rollouts. Prints a table and a line for each figure that grows by more than its bound; exit code 1 if
there is any.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from figures import adopt_orphans, held, slope

from pytest_harness.contract import validity
from pytest_harness.provision import provision
from pytest_harness.requirements import load_catalogue
from pytest_harness.rollouts.engines import SharedEngine, attached
from pytest_harness.rollouts.pool import RolloutPool
from pytest_harness.rollouts.spec import RolloutSpec
from pytest_harness.rollouts.workplace import RUNNING
from pytest_harness.scenarios import ScenarioTable
from pytest_harness.seams import SeamTable

ROOT = Path(__file__).resolve().parents[2]
MEASURED = Path(__file__).with_name("measured.json")
PAGE = ROOT / "docs" / "scaling.md"
BEGIN, END = "<!-- leaks: made by benchmarks/leaks/run.py -->\n\n", "\n<!-- /leaks -->\n"
WARMING = 20
PER = 100
MOST = {"resident memory, MB": 5.0, "objects of Python": 1000.0}
"""By how much a figure may grow in a hundred rollouts."""
OTHERWISE = 1.0
"""Any other: what each rollout leaves would come to a hundred."""


def main() -> int:
    """Measure, print and write; the exit code."""
    asked = _options()
    adopt_orphans()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (temporary := folder / "temporary").mkdir()
        os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
        with _engine() if asked.shared else contextlib.nullcontext() as shared:
            rows = _measure(asked, folder / "evidence", temporary, shared)
    warm = rows[asked.warm_up :]
    result = {
        "harness": asked.harness,
        "scenario": asked.scenario,
        "engine": "one for all" if asked.shared else "one for each",
        "measured_at": datetime.now(UTC).isoformat(timespec="minutes"),
        "rollouts": asked.rollouts,
        "warm_up": asked.warm_up,
        "figures": {
            figure: {
                "warm": round(warm[0][figure], 1),
                "end": round(warm[-1][figure], 1),
                "per_100": round(PER * slope([row[figure] for row in warm]), 2),
            }
            for figure in warm[0]
        },
    }
    print(table(result))
    if asked.page:
        MEASURED.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}{table(result)}{END}{rest.partition(END)[2]}", encoding="utf-8")
    complaints = [
        f"{figure}: {values['per_100']:g} more after {PER} rollouts"
        for figure, values in result["figures"].items()
        if values["per_100"] > MOST.get(figure, OTHERWISE)
    ]
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    return 1 if complaints else 0


def table(result: dict[str, Any]) -> str:
    """The figures for people, in Markdown."""
    lines = [
        f"| held by the process | after {result['warm_up']} | after {result['rollouts']} | more after {PER} rollouts |",
        "|---|---|---|---|",
    ]
    lines += [f"| {figure} | {each['warm']:g} | {each['end']:g} | {each['per_100']:g} |" for figure, each in result["figures"].items()]
    return "\n".join(lines) + "\n"


def _measure(asked: argparse.Namespace, evidence: Path, temporary: Path, shared: SharedEngine | None) -> list[dict[str, float]]:
    """What is held after each rollout."""
    seam = SeamTable.load(*asked.seams)[asked.harness]
    provision(seam, progress=print)
    pool = RolloutPool(evidence, run_id="leaks", requirements=load_catalogue().version)
    pool.engine = shared
    spec = RolloutSpec(seam, "local", "scripted" if shared is None else "attached", ScenarioTable.load()[asked.scenario])
    rows = []
    for number in range(1, asked.rollouts + 1):
        folder, made = pool.evidence(replace(spec, attempt=number))
        if not (said := validity(made)).valid:
            raise RuntimeError(f"rollout {number} counts for nothing: {said.reason}")
        del made
        shutil.rmtree(folder)
        rows.append(held([temporary, evidence / RUNNING]))
        if number % 10 == 0:
            print(f"{number}: " + ", ".join(f"{figure} {value:.0f}" for figure, value in rows[-1].items()), file=sys.stderr, flush=True)
    return rows


@contextmanager
def _engine() -> Iterator[SharedEngine]:
    """An engine for all, in a process of its own, which calls pi's tool by its script."""
    command = [sys.executable, "-m", "pytest_harness.engines.scripted"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield attached(process.stdout.readline().strip())
        finally:
            process.terminate()


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rollouts", type=int, default=200)
    options.add_argument("--warm-up", type=int, default=WARMING, help="rollouts that come before the first figure")
    options.add_argument("--harness", default="pi")
    options.add_argument("--scenario", default="edit_file")
    options.add_argument("--seams", type=Path, action="append", default=[], help="a folder with rows of your own")
    options.add_argument("--shared", action="store_true", help="one engine for all, in a process of its own")
    options.add_argument("--no-page", dest="page", action="store_false", help="print, and write nothing")
    asked = options.parse_args()
    if asked.rollouts < asked.warm_up + 2:
        options.error(f"--rollouts {asked.rollouts}: two more than the {asked.warm_up} of --warm-up are needed for a line")
    return asked


if __name__ == "__main__":
    sys.exit(main())
