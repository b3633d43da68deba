"""``harness-conformance rollout``: from names to a collection."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from pytest_harness.collect.collector import CollectError, Collection, Plan, collect
from pytest_harness.collect.narration import Narrator
from pytest_harness.collect.rollouts import Kind, Rollouts
from pytest_harness.provision import provision
from pytest_harness.requirements import catalogue_versions
from pytest_harness.rollouts.spec import RolloutSpec
from pytest_harness.scenarios import ScenarioTable
from pytest_harness.seams import Seam, SeamTable

SANDBOX = "local"
ENGINE = "scripted"
MOST = 1_000_000
"""Episodes that one collection may have."""


@dataclass(frozen=True)
class Asked:
    """What the command was asked for."""

    harnesses: Sequence[str]
    scenarios: Sequence[str] = ()
    attempts: int = 1
    workers: int = 1
    tries: int = 1
    retry_dropped: bool = False
    seam_folders: Sequence[Path] = ()
    scenario_folders: Sequence[Path] = ()


def specs_of(asked: Asked) -> list[RolloutSpec]:
    """One for each harness and scenario. Raises CollectError, SeamError or ScenarioError."""
    if not asked.harnesses:
        raise CollectError("no harness is named; name one with --harness=NAME, as harness-conformance info lists them")
    table, scenarios = SeamTable.load(*asked.seam_folders), ScenarioTable.load(*asked.scenario_folders)
    seams: dict[str, Seam] = {}
    for name in asked.harnesses:
        seam = table.get(name)
        if seams.setdefault(seam.name, seam) != seam:
            raise CollectError(f"--harness names {seam.name} in two versions; collect each into an --out of its own")
    specs = [
        RolloutSpec(seam, SANDBOX, ENGINE, scenarios[name])
        for seam in seams.values()
        for name in dict.fromkeys(asked.scenarios or seam.scenarios)
    ]
    for option, number, most in (("-n", asked.attempts, MOST), ("--parallel", asked.workers, 256), ("--tries", asked.tries, 100)):
        if not 1 <= number <= most:
            raise CollectError(f"{option} {number}: a number from 1 to {most} is needed")
    return specs


def kinds_of(specs: Sequence[RolloutSpec], say: Callable[[str], None]) -> list[Kind]:
    """The same with their harnesses, installed where they are not yet. Raises CollectError or ProvisionError."""
    from pytest_harness.sandboxes.bubblewrap import check  # noqa: PLC0415 (it starts a sandbox to see whether it can)

    if (reason := check()) is not None:
        raise CollectError(reason)
    installed = {seam.name: provision(seam, progress=say) for seam in {spec.seam.name: spec.seam for spec in specs}.values()}
    return [Kind(spec, installed[spec.seam.name]) for spec in specs]


def collect_rollouts(asked: Asked, out: Path, console: Console) -> Collection:
    """Collect what is missing in ``out``. Raises the errors of bad input in one sentence, or Interrupted."""
    specs = specs_of(asked)
    kinds = kinds_of(specs, lambda text: console.print(text, highlight=False, markup=False, soft_wrap=True))
    plan = Plan(
        tuple(kind.task for kind in kinds),
        attempts=asked.attempts,
        workers=min(asked.workers, asked.attempts * len(kinds)),
        tries=asked.tries,
        retry_dropped=asked.retry_dropped,
    )
    rollouts = Rollouts(kinds, out, run_id=uuid.uuid4().hex, requirements=catalogue_versions()[-1])
    with rollouts, Narrator(console) as narrator:
        return collect(plan, rollouts, out, on_disk=rollouts.on_disk, told=narrator)
