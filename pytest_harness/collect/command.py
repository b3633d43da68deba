"""``harness-conformance rollout``: from names to a collection."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError
from rich.console import Console

from pytest_harness.cluster import Cluster, connected
from pytest_harness.collect.collector import CollectError, Collection, Plan, collect, locked
from pytest_harness.collect.narration import Narrator
from pytest_harness.collect.on_ray import RolloutsOnRay, memory_of
from pytest_harness.collect.rollouts import Kind, Rollouts, check_folder
from pytest_harness.evidence import Evidence, read_evidence
from pytest_harness.provision import provision
from pytest_harness.requirements import load_catalogue
from pytest_harness.rollouts.engines import SharedEngine
from pytest_harness.rollouts.spec import RolloutSpec
from pytest_harness.scenarios import ScenarioTable
from pytest_harness.seams import Seam, SeamTable
from pytest_harness.seams.limits import MB
from pytest_harness.textfile import read_text

if TYPE_CHECKING:
    from pytest_harness.collect.landing import Landing  # it needs an extra

SANDBOX = "local"
SCRIPTED, VLLM = ENGINES = ("scripted", "vllm")
ATTACHED = "attached"
"""What an engine is called that somebody else runs."""
ENGINE_FOLDER = ".engine"
MOST = 1_000_000
"""Episodes that one collection may have."""
MOST_HERE, MOST_ON_A_CLUSTER = 256, 4096
"""Episodes at the same time: processes here, or threads that wait for a cluster."""


@dataclass(frozen=True)
class Asked:
    """What the command was asked for."""

    harnesses: Sequence[str]
    scenarios: Sequence[str] = ()
    engine: str = SCRIPTED
    attempts: int = 1
    workers: int | None = None
    """Episodes at the same time; None is one, or on a cluster as many as it has processors."""
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
    ray: str | None = None
    """The address of a cluster on which the episodes are to run; None is this machine."""
    evidence_to: str | None = None
    """The URL where a cluster is to bring the evidence, instead of back."""


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
    workers, most_workers = 1 if asked.workers is None else asked.workers, MOST_HERE if asked.ray is None else MOST_ON_A_CLUSTER
    for option, number, most in (("-n", asked.attempts, MOST), ("--parallel", workers, most_workers), ("--tries", asked.tries, 100)):
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


def kinds_of(specs: Sequence[RolloutSpec], say: Callable[[str], None], *, here: bool = True) -> list[Kind]:
    """The same with their harnesses, installed where they are not yet. Raises CollectError or ProvisionError.

    ``here`` says that they are to run on this machine, which then must be able to.
    """
    from pytest_harness.sandboxes.bubblewrap import check  # noqa: PLC0415 (it starts a sandbox to see whether it can)

    if here and (reason := check()) is not None:
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
    with ExitStack() as stack:
        landing = None if asked.evidence_to is None else _landing(asked.evidence_to)
        cluster = None if asked.ray is None else stack.enter_context(connected(asked.ray))
        kinds = [replace(kind, engine=shared) for kind in kinds_of(specs, say, here=cluster is None)]
        stack.enter_context(locked(out))  # before an engine is started for nothing
        check_folder(out)
        if shared is None and asked.engine == VLLM:
            engine = stack.enter_context(_vllm(out, say, asked.model))
            kinds = [replace(kind, engine=engine) for kind in kinds]
        plan = Plan(
            tuple(kind.task for kind in kinds),
            attempts=asked.attempts,
            workers=min(_workers(asked, cluster), asked.attempts * len(kinds)),
            tries=asked.tries,
            retry_dropped=asked.retry_dropped,
        )
        run = {"run_id": uuid.uuid4().hex, "requirements": load_catalogue().version}
        if cluster is None:
            rollouts = stack.enter_context(Rollouts(kinds, out, **run))
        else:
            _say_what_has_no_room(kinds, cluster, say)
            rollouts = stack.enter_context(RolloutsOnRay(kinds, out, cluster, landing=landing, **run))
        narrator = stack.enter_context(Narrator(console))
        return collect(plan, rollouts, out, on_disk=rollouts.on_disk, told=narrator, interrupt=rollouts.interrupt)


def evidence_of(asked: Asked, out: Path, episodes: Sequence[str]) -> Iterator[Evidence]:
    """The evidence of these episodes, one after another, from where it was brought. Raises EvidenceError or CollectError."""
    if asked.evidence_to is None:
        yield from (read_evidence(out / episode) for episode in episodes)
    else:
        landing = _landing(asked.evidence_to)
        yield from (landing.read(episode) for episode in episodes)


def _workers(asked: Asked, cluster: Cluster | None) -> int:
    if asked.workers is not None:
        return asked.workers
    return 1 if cluster is None else min(cluster.processors, MOST_ON_A_CLUSTER)


def _say_what_has_no_room(kinds: Sequence[Kind], cluster: Cluster, say: Callable[[str], None]) -> None:
    """Ray waits for such a node without a word, and one may well join."""
    for name, memory in {kind.spec.seam.name: memory_of(kind) for kind in kinds}.items():
        if not cluster.has_room(processors=1, memory=memory):
            say(f"no node of the cluster has a processor and the {memory // MB} MB of memory that {name} may take; one is waited for")


def _landing(url: str) -> Landing:
    try:
        from pytest_harness.collect.landing import landing_at  # noqa: PLC0415 (an extra)

        return landing_at(url)
    except ImportError as error:
        raise CollectError(
            f"--evidence-to needs a package that is not here ({error}); install harness-conformance[push], or that package, here and on "
            "every node"
        ) from None


def _check_choice(asked: Asked, out: Path) -> None:
    """Raises CollectError for options that contradict each other, and for a folder whose name no record could hold."""
    if asked.llm_url is not None and asked.engine != SCRIPTED:
        raise CollectError(f"--engine {asked.engine} starts an engine and --llm-url names another; choose one of the two")
    if asked.ray is not None and asked.engine == VLLM:
        raise CollectError("--engine vllm would start an engine that the nodes of --ray cannot reach; start one and name it with --llm-url")
    if asked.evidence_to is not None and asked.ray is None:
        raise CollectError(
            "--evidence-to says where the nodes of --ray bring the evidence, and no cluster is named; harness-conformance push sends what "
            "is in --out"
        )
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
