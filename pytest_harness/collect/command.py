"""``harness-conformance rollout``: from names to a collection."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from pytest_harness.collect.collector import CollectError, Collection, Plan, collect, locked
from pytest_harness.collect.narration import Narrator
from pytest_harness.collect.rollouts import Kind, Rollouts
from pytest_harness.provision import provision
from pytest_harness.requirements import catalogue_versions
from pytest_harness.rollouts.engines import SharedEngine
from pytest_harness.rollouts.spec import RolloutSpec
from pytest_harness.scenarios import ScenarioTable
from pytest_harness.seams import Seam, SeamTable

SANDBOX = "local"
SCRIPTED, VLLM = ENGINES = ("scripted", "vllm")
ENGINE_FOLDER = ".engine"
MOST = 1_000_000
"""Episodes that one collection may have."""


@dataclass(frozen=True)
class Asked:
    """What the command was asked for."""

    harnesses: Sequence[str]
    scenarios: Sequence[str] = ()
    engine: str = SCRIPTED
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
    if asked.engine not in ENGINES:
        raise CollectError(f"--engine {asked.engine} is not known to this version; known: {', '.join(ENGINES)}")
    table, scenarios = SeamTable.load(*asked.seam_folders), ScenarioTable.load(*asked.scenario_folders)
    seams: dict[str, Seam] = {}
    for name in asked.harnesses:
        seam = table.get(name)
        if seams.setdefault(seam.name, seam) != seam:
            raise CollectError(f"--harness names {seam.name} in two versions; collect each into an --out of its own")
    specs = [
        RolloutSpec(seam, SANDBOX, asked.engine, scenarios[name])
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

    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    kinds = kinds_of(specs_of(asked), say)
    with ExitStack() as stack:
        stack.enter_context(locked(out))  # before an engine is started for nothing
        if asked.engine == VLLM:
            engine = stack.enter_context(_vllm(out, say))
            kinds = [replace(kind, engine=engine) for kind in kinds]
        plan = Plan(
            tuple(kind.task for kind in kinds),
            attempts=asked.attempts,
            workers=min(asked.workers, asked.attempts * len(kinds)),
            tries=asked.tries,
            retry_dropped=asked.retry_dropped,
        )
        rollouts = stack.enter_context(Rollouts(kinds, out, run_id=uuid.uuid4().hex, requirements=catalogue_versions()[-1]))
        narrator = stack.enter_context(Narrator(console))
        return collect(plan, rollouts, out, on_disk=rollouts.on_disk, told=narrator)


@contextmanager
def _vllm(out: Path, say: Callable[[str], None]) -> Iterator[SharedEngine]:
    from pytest_harness.engines.vllm import EngineError  # noqa: PLC0415 (most collections need none of this)
    from pytest_harness.rollouts.engines import LOG, shared_vllm  # noqa: PLC0415

    with ExitStack() as stack:
        try:
            engine = stack.enter_context(shared_vllm(out.absolute() / ENGINE_FOLDER / LOG, say))
        except EngineError as error:
            raise CollectError(f"--engine vllm: {error}") from None
        yield engine
