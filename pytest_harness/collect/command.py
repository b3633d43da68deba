"""``harness-conformance rollout``: from names to a collection."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import ValidationError
from rich.console import Console

from pytest_harness.collect.collector import CollectError, Collection, Plan, collect, locked
from pytest_harness.collect.narration import Narrator
from pytest_harness.collect.rollouts import Kind, Rollouts, check_folder
from pytest_harness.provision import provision
from pytest_harness.requirements import load_catalogue
from pytest_harness.rollouts.engines import SharedEngine
from pytest_harness.rollouts.spec import RolloutSpec
from pytest_harness.scenarios import ScenarioTable
from pytest_harness.seams import Seam, SeamTable
from pytest_harness.textfile import read_text

SANDBOX = "local"
SCRIPTED, VLLM = ENGINES = ("scripted", "vllm")
ATTACHED = "attached"
"""What an engine is called that somebody else runs."""
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
    llm_url: str | None = None
    """An engine that runs already, instead of ``engine``."""
    model: str | None = None
    llm_key: str | None = field(default=None, repr=False)
    train: bool = False
    """Only from an engine whose replies may be trained on."""


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
        RolloutSpec(seam, SANDBOX, asked.engine if asked.llm_url is None else ATTACHED, scenarios[name])
        for seam in seams.values()
        for name in dict.fromkeys(asked.scenarios or seam.scenarios)
    ]
    for spec in specs:
        if not spec.seam.meets(spec.scenario.needs):
            needs = spec.scenario.needs
            raise CollectError(f"--scenario {spec.scenario.name} needs {needs}, and the row of {spec.seam.name} has none; leave it out")
        _check_task(spec)
    for option, number, most in (("-n", asked.attempts, MOST), ("--parallel", asked.workers, 256), ("--tries", asked.tries, 100)):
        if not 1 <= number <= most:
            raise CollectError(f"{option} {number}: a number from 1 to {most} is needed")
    return specs


def _check_task(spec: RolloutSpec) -> None:
    """Raises CollectError or ScenarioError for a task that Harbor would refuse: every try of it would fail alike."""
    from harbor.models.task.config import TaskConfig  # noqa: PLC0415 (only a collection needs it)

    spec.scenario.check_task()
    path = spec.scenario.task / "task.toml"
    try:
        TaskConfig.model_validate_toml(read_text(path))
    except ValueError as error:
        reason = error.errors()[0] if isinstance(error, ValidationError) else {"loc": (), "msg": str(error).split("\n", 1)[0]}
        key = ".".join(map(str, reason["loc"]))
        raise CollectError(f"{path} is no task for Harbor ({key + ': ' if key else ''}{reason['msg']}); correct the task") from None


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

    _check_choice(asked, out)
    specs = specs_of(asked)
    shared = _attached(asked)  # refused before a harness is installed for nothing
    kinds = [replace(kind, engine=shared) for kind in kinds_of(specs, say)]
    with ExitStack() as stack:
        stack.enter_context(locked(out))  # before an engine is started for nothing
        check_folder(out)
        if shared is None and asked.engine == VLLM:
            engine = stack.enter_context(_vllm(out, say, asked.model))
            kinds = [replace(kind, engine=engine) for kind in kinds]
        plan = Plan(
            tuple(kind.task for kind in kinds),
            attempts=asked.attempts,
            workers=min(asked.workers, asked.attempts * len(kinds)),
            tries=asked.tries,
            retry_dropped=asked.retry_dropped,
        )
        rollouts = stack.enter_context(Rollouts(kinds, out, run_id=uuid.uuid4().hex, requirements=load_catalogue().version))
        narrator = stack.enter_context(Narrator(console))
        return collect(plan, rollouts, out, on_disk=rollouts.on_disk, told=narrator)


def _check_choice(asked: Asked, out: Path) -> None:
    """Raises CollectError for options that contradict each other, and for a folder whose name no record could hold."""
    if asked.llm_url is not None and asked.engine != SCRIPTED:
        raise CollectError(f"--engine {asked.engine} starts an engine and --llm-url names another; choose one of the two")
    for option, value in (("--model", asked.model if asked.engine != VLLM else None), ("--llm-key-env", asked.llm_key)):
        if asked.llm_url is None and value is not None:
            raise CollectError(f"{option} says something of the engine that --llm-url names, and none is named; name it too")
    try:
        str(out).encode()
    except UnicodeEncodeError:
        raise CollectError(f"--out {os.fsencode(out)!r} is no UTF-8 text; name another folder") from None


def _attached(asked: Asked) -> SharedEngine | None:
    """The engine that was named by its URL. Raises CollectError if it cannot be used, or if none was named to train with."""
    if asked.llm_url is None and asked.train:
        raise CollectError(
            f"--train: the engine {asked.engine} says what a script makes it say, which is never training data; name yours with --llm-url"
        )
    if asked.llm_url is None:
        return None
    from pytest_harness.capture import UpstreamError  # noqa: PLC0415 (most collections need none of this)
    from pytest_harness.capture.probe import ProbeError  # noqa: PLC0415
    from pytest_harness.rollouts.engines import attached  # noqa: PLC0415

    try:
        return attached(asked.llm_url, model=asked.model, api_key=asked.llm_key, train=asked.train)
    except (ProbeError, UpstreamError) as error:
        raise CollectError(f"{'--train' if asked.train else '--llm-url'}: {error}") from None


@contextmanager
def _vllm(out: Path, say: Callable[[str], None], model: str | None) -> Iterator[SharedEngine]:
    from pytest_harness.engines.vllm import EngineError  # noqa: PLC0415 (most collections need none of this)
    from pytest_harness.rollouts.engines import LOG, shared_vllm  # noqa: PLC0415

    with ExitStack() as stack:
        try:
            engine = stack.enter_context(shared_vllm(out.absolute() / ENGINE_FOLDER / LOG, say, model=model))
        except EngineError as error:
            raise CollectError(f"--engine vllm: {error}") from None
        yield engine
