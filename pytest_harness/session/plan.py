"""Turns the options of a run into the attempts to be judged. Everything that can be wrong with the options is said here."""

from __future__ import annotations

import contextlib
import datetime
import difflib
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from pytest_harness import saboteurs
from pytest_harness.evidence import Evidence, EvidenceError, SeamFacts, find_evidence, read_evidence
from pytest_harness.places import EVIDENCE_DIR, REPLAY_DIR, REPORT_DIR
from pytest_harness.reports.gate import OPEN, Gate, GateError
from pytest_harness.reports.model import Shard
from pytest_harness.reports.shards import ShardError, part, read_shard
from pytest_harness.requirements import Catalogue, Requirement, RequirementsError, load_catalogue
from pytest_harness.rollouts.pool import RolloutPool
from pytest_harness.rollouts.spec import RolloutSpec
from pytest_harness.sandboxes.container_cli import ENGINES as ENGINES_OF_CONTAINERS
from pytest_harness.sandboxes.kinds import LOCAL, SANDBOXES, Boxing
from pytest_harness.scenarios import ScenarioError, ScenarioTable
from pytest_harness.seams import Seam, SeamError, SeamTable, Unavailable
from pytest_harness.session.choice import ALL, FAST, GROUPS, Choice, Omission, choose, wanted
from pytest_harness.session.public import require_sandboxes

SCRIPTED, VLLM = ENGINES = ("scripted", "vllm")

MOST_ATTEMPTS = 1000


@dataclass(frozen=True)
class Attempt:
    """One attempt to be judged, run now or read from disk. ``id`` is its part of the test ids."""

    id: str
    seam: SeamFacts
    engine: str
    load: Callable[[], tuple[Path, Evidence]]
    """The folder of the evidence, and the evidence."""
    spec: RolloutSpec | None = None
    """What runs; None where stored evidence is judged again."""


@dataclass(frozen=True)
class Plan:
    """What a run judges, and by what."""

    run_id: str
    catalogue: Catalogue
    attempts: tuple[Attempt, ...]
    named: frozenset[str] = frozenset()
    """The harnesses named one by one; the others were reached by a group or are replayed."""
    left_out: tuple[Omission, ...] = ()
    """What was in reach and does not run."""
    unavailable: tuple[Unavailable, ...] = ()
    """The harnesses that ``all`` means too and that no row runs: they are told, and nothing of them is run."""
    evidence_dir: Path = EVIDENCE_DIR
    report_dir: Path = REPORT_DIR
    pool: RolloutPool | None = None
    """What makes the evidence of a live run."""
    engine: str | None = None
    """The engine of a live run."""
    gate: Gate = OPEN
    """What the run is held to, beside the verdicts."""
    today: datetime.date = datetime.date.min
    """The day that the gate goes by."""
    shard: Shard | None = None
    """Which part of a divided run this is; ``attempts`` are its own alone."""
    sabotage: str | None = None
    """The known fault that is put into the evidence after it was read; what is on disk stays as it is."""

    @property
    def live(self) -> bool:
        """Whether rollouts run; else stored evidence is judged again."""
        return any(attempt.spec is not None for attempt in self.attempts)

    @property
    def specs(self) -> tuple[RolloutSpec, ...]:
        """What runs; nothing where stored evidence is judged again."""
        return tuple(attempt.spec for attempt in self.attempts if attempt.spec is not None)

    @property
    def keeps_findings(self) -> bool:
        """Whether what is said of an attempt is written beside its evidence: not if it was only replayed or sabotaged."""
        return self.sabotage is None and self.live

    def sabotaged(self, evidence: Evidence) -> Evidence:
        """The evidence as it is to be judged: with the fault where it offers a place for it."""
        if self.sabotage is None:
            return evidence
        with contextlib.suppress(saboteurs.NothingToSabotage):
            return saboteurs.apply(self.sabotage, evidence)
        return evidence

    def requirements(self, attempt: Attempt) -> tuple[Requirement, ...]:
        """The requirements that apply to this attempt's seam and engine."""
        return self.catalogue.applicable(attempt.seam, attempt.engine)


def plan_of(config: pytest.Config) -> Plan:
    """The plan that the options ask for. Raises pytest.UsageError, in one sentence, for what cannot be planned."""
    run_id = getattr(config, "workerinput", {}).get("harness_run_id") or uuid.uuid4().hex
    try:
        catalogue = load_catalogue(config.getoption("harness_requirements"))
        replay: Path | None = config.getoption("harness_replay")
        plan = _live(config, run_id, catalogue) if replay is None else Plan(run_id, catalogue, _stored(config, replay))
        plan = _divided(plan, config.getoption("harness_shard"))
        report_dir = config.getoption("harness_report_dir") or (REPORT_DIR if replay is None else REPLAY_DIR)
        return replace(
            plan,
            evidence_dir=config.getoption("harness_evidence_dir"),
            report_dir=report_dir,
            sabotage=_sabotage(config),
            gate=_gate(config, plan),
            today=datetime.datetime.now(datetime.UTC).date(),
        )
    except (SeamError, ScenarioError, RequirementsError, EvidenceError, GateError) as error:
        raise pytest.UsageError(str(error)) from None


def _divided(plan: Plan, text: str | None) -> Plan:
    """The part of the plan that ``--shard`` asks for."""
    if text is None:
        return plan
    try:
        index, count = read_shard(text)
    except ShardError as error:
        raise pytest.UsageError(str(error)) from None
    if count > len(plan.attempts):
        raise pytest.UsageError(
            f"--shard {text}: there are fewer rollouts to divide ({len(plan.attempts)}); make it that many shards at most"
        )
    shard = Shard(index=index, count=count, rollouts=tuple(attempt.id for attempt in plan.attempts))
    return replace(plan, attempts=tuple(part(plan.attempts, index, count)), shard=shard)


def _gate(config: pytest.Config, plan: Plan) -> Gate:
    path: Path | None = config.getoption("harness_expected_failures")
    rows = () if path is None else SeamTable.load(*config.getoption("harness_seams"))
    harnesses = {*rows, *(attempt.seam.harness for attempt in plan.attempts)}
    return Gate.read(path, config.getoption("harness_require"), harnesses=harnesses, catalogue=plan.catalogue)


def _sabotage(config: pytest.Config) -> str | None:
    name: str | None = config.getoption("harness_sabotage")
    if name is not None and name not in saboteurs.names():
        close = difflib.get_close_matches(name, saboteurs.names(), n=3)
        hint = f"did you mean {' or '.join(close)}?" if close else "harness-conformance info lists them"
        raise pytest.UsageError(f"--sabotage {name!r}: there is no such saboteur; {hint}")
    return name


def _stored(config: pytest.Config, root: Path) -> tuple[Attempt, ...]:
    if not root.is_dir():
        raise pytest.UsageError(f"--replay {root}: there is no such folder; name one that holds evidence, such as {EVIDENCE_DIR}")
    asked = {name: config.getoption(f"harness_{name}") for name in ("harness", "sandbox", "scenario")}
    if FAST in asked["harness"]:
        table = SeamTable.load(*config.getoption("harness_seams"))
        asked["harness"] = [*asked["harness"], *fast_harnesses(table)]
    attempts: dict[str, Attempt] = {}
    for folder in find_evidence(root):
        evidence = read_evidence(folder)
        manifest = evidence.manifest
        seen = {"harness": manifest.harness, "sandbox": manifest.sandbox, "scenario": manifest.scenario.name}
        if any(names and ALL not in names and seen[what] not in names for what, names in asked.items()):
            continue
        number = sum(name.partition("#")[0] == evidence.name for name in attempts) + 1
        name = evidence.name if number == 1 else f"{evidence.name}#{number}"
        attempts[name] = Attempt(name, manifest.seam, manifest.engine, _reading(folder))
    if not attempts:
        of = " and ".join(f"{what} {', '.join(names)}" for what, names in asked.items() if names)
        raise pytest.UsageError(f"--replay {root}: no evidence{f' of {of}' if of else ''} was found there; run pytest --harness=NAME first")
    return tuple(attempts.values())


def _reading(folder: Path) -> Callable[[], tuple[Path, Evidence]]:
    """It was read to see what it is of, and is read again to be judged: all of a large folder at once would not go into memory."""
    return lambda: (folder, read_evidence(folder))


def _live(config: pytest.Config, run_id: str, catalogue: Catalogue) -> Plan:
    table = SeamTable.load(*config.getoption("harness_seams"))
    scenarios = ScenarioTable.load(*config.getoption("harness_scenarios"))
    names: list[str] = config.getoption("harness_harness")
    seams, groups = _seams(names, table)
    sandboxes = require_sandboxes(config.getoption("harness_sandbox") or [LOCAL], SANDBOXES)
    boxing = _boxing(config, sandboxes)
    engine = _known("engine", [config.getoption("harness_engine")], ENGINES)[0]
    if engine == SCRIPTED and config.getoption("harness_model") is not None:
        raise pytest.UsageError("--model names what a vLLM of yours is to serve, and the engine is scripted; add --engine=vllm")
    attempts: int = config.getoption("harness_attempts")
    if not 1 <= attempts <= MOST_ATTEMPTS:
        raise pytest.UsageError(f"--attempts {attempts}: a number from 1 to {MOST_ATTEMPTS} is needed")
    asked: list[str] = config.getoption("harness_scenario")
    for scenario in [*asked, *(each for seam in seams.values() for each in seam.scenarios)]:
        scenarios[scenario]  # a row that declares what is not there is refused, also where it is not asked for
    played = {seam.name: [name for name in asked if seam.meets(scenarios[name].needs)] for seam in seams.values()}
    for seam in seams.values():
        for name in asked:
            if seam.name not in groups and name not in played[seam.name]:
                needs = scenarios[name].needs
                raise pytest.UsageError(f"--scenario {name} needs {needs}, and the row of {seam.name} has none; ask another harness for it")
    able = [seam for seam in seams.values() if played[seam.name] or not asked]
    faulty = () if engine == SCRIPTED else [name for name in scenarios if scenarios[name].faults]
    rows = [wanted(seam, groups.get(seam.name, frozenset()), played[seam.name], faulty) for seam in able]
    choice = choose(rows, sandboxes, full_matrix=config.getoption("harness_full_matrix"))
    if not choice.cells:
        raise pytest.UsageError(_nothing_to_run(names, choice))
    pool = RolloutPool(config.getoption("harness_evidence_dir"), run_id=run_id, requirements=catalogue.version)
    specs = [
        RolloutSpec(seams[cell.harness], cell.sandbox, engine, scenarios[cell.scenario], number, boxing=boxing)
        for cell in choice.cells
        for number in range(1, attempts + 1)
    ]
    named = frozenset(seams) - frozenset(groups)
    unavailable = table.unavailable if ALL in names else ()
    attempted = tuple(_attempt(pool, spec) for spec in specs)
    return Plan(run_id, catalogue, attempted, named, choice.left_out, unavailable, pool=pool, engine=engine)


def _boxing(config: pytest.Config, sandboxes: list[str]) -> Boxing:
    boxing = Boxing(config.getoption("harness_image"), config.getoption("harness_bake"))
    others = [name for name in sandboxes if name not in ENGINES_OF_CONTAINERS]
    if boxing != Boxing() and others:
        option = "--bake" if boxing.image is None else f"--image {boxing.image}"
        raise pytest.UsageError(
            f"{option}: the sandbox {others[0]} is made from no image of yours; with it name --sandbox=docker and --sandbox=podman alone"
        )
    return boxing


def _seams(names: list[str], table: SeamTable) -> tuple[dict[str, Seam], dict[str, frozenset[str]]]:
    """The rows that are asked for, and of each that was not named the groups that reached it."""
    named: dict[str, Seam] = {}
    for name in names:
        if name not in GROUPS:
            seam = table.get(name)
            if named.setdefault(seam.name, seam) != seam:
                raise pytest.UsageError(f"--harness names {seam.name} in two versions; run pytest once for each")
    members = {ALL: list(table), FAST: fast_harnesses(table)}
    groups = {
        name: frozenset(group for group in GROUPS.intersection(names) if name in members[group])
        for group in names
        if group in GROUPS
        for name in members[group]
        if name not in named
    }
    return {**named, **{name: table[name] for name in groups}}, groups


def fast_harnesses(table: SeamTable) -> list[str]:
    """The rows of the fast tier."""
    return [name for name in table if table[name].fast]


def _nothing_to_run(names: list[str], choice: Choice) -> str:
    said = f"--harness {', '.join(names)}: there is nothing to run"
    if not choice.left_out:
        return f"{said}, no row belongs to it; harness-conformance info lists the rows"
    cell, why = choice.left_out[0]
    return f"{said}; {cell.scenario} of {cell.harness}: {why}"


def _attempt(pool: RolloutPool, spec: RolloutSpec) -> Attempt:
    return Attempt(spec.id, spec.seam.facts, spec.engine, lambda: pool.evidence(spec), spec)


def _known(option: str, names: list[str], known: tuple[str, ...]) -> list[str]:
    for name in names:
        if name not in known:
            raise pytest.UsageError(f"--{option} {name!r} is not known to this version; known: {', '.join(known)}")
    return list(dict.fromkeys(names))
