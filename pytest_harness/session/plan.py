"""Turns the options of a run into the attempts to be judged. Everything that can be wrong with the options is said here."""

from __future__ import annotations

import contextlib
import difflib
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from pytest_harness import saboteurs
from pytest_harness.evidence import Evidence, EvidenceError, SeamFacts, find_evidence, read_evidence
from pytest_harness.places import EVIDENCE_DIR, REPLAY_DIR, REPORT_DIR
from pytest_harness.requirements import Catalogue, Requirement, RequirementsError, load_catalogue
from pytest_harness.rollouts.pool import RolloutPool
from pytest_harness.rollouts.spec import RolloutSpec
from pytest_harness.scenarios import ScenarioError, ScenarioTable
from pytest_harness.seams import Seam, SeamError, SeamTable, Unavailable

SANDBOXES = ("local",)
ENGINES = ("scripted", "vllm")

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
    """The harnesses named one by one; the others were reached by ``all`` or are replayed."""
    unavailable: tuple[Unavailable, ...] = ()
    """The harnesses that ``all`` means too and that no row runs: they are told, and nothing of them is run."""
    evidence_dir: Path = EVIDENCE_DIR
    report_dir: Path = REPORT_DIR
    pool: RolloutPool | None = None
    """What makes the evidence of a live run."""
    engine: str | None = None
    """The engine of a live run."""
    sabotage: str | None = None
    """The known fault that is put into the evidence after it was read; what is on disk stays as it is."""

    @property
    def live(self) -> bool:
        """Whether rollouts run; else stored evidence is judged again."""
        return any(attempt.spec is not None for attempt in self.attempts)

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
        report_dir = config.getoption("harness_report_dir") or (REPORT_DIR if replay is None else REPLAY_DIR)
        return replace(plan, evidence_dir=config.getoption("harness_evidence_dir"), report_dir=report_dir, sabotage=_sabotage(config))
    except (SeamError, ScenarioError, RequirementsError, EvidenceError) as error:
        raise pytest.UsageError(str(error)) from None


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
    wanted = {name: config.getoption(f"harness_{name}") for name in ("harness", "sandbox", "scenario")}
    attempts: dict[str, Attempt] = {}
    for folder in find_evidence(root):
        evidence = read_evidence(folder)
        manifest = evidence.manifest
        seen = {"harness": manifest.harness, "sandbox": manifest.sandbox, "scenario": manifest.scenario.name}
        if any(names and "all" not in names and seen[what] not in names for what, names in wanted.items()):
            continue
        number = sum(name.partition("#")[0] == evidence.name for name in attempts) + 1
        name = evidence.name if number == 1 else f"{evidence.name}#{number}"
        attempts[name] = Attempt(name, manifest.seam, manifest.engine, _reading(folder, evidence))
    if not attempts:
        of = " and ".join(f"{what} {', '.join(names)}" for what, names in wanted.items() if names)
        raise pytest.UsageError(f"--replay {root}: no evidence{f' of {of}' if of else ''} was found there; run pytest --harness=NAME first")
    return tuple(attempts.values())


def _reading(folder: Path, evidence: Evidence) -> Callable[[], tuple[Path, Evidence]]:
    return lambda: (folder, evidence)


def _live(config: pytest.Config, run_id: str, catalogue: Catalogue) -> Plan:
    table = SeamTable.load(*config.getoption("harness_seams"))
    scenarios = ScenarioTable.load(*config.getoption("harness_scenarios"))
    names: list[str] = config.getoption("harness_harness")
    seams: dict[str, Seam] = {}
    for name in names:
        for seam in [table[each] for each in table] if name == "all" else [table.get(name)]:
            if seam.name in seams and seams[seam.name] != seam and name != "all":
                raise pytest.UsageError(f"--harness names {seam.name} in two versions; run pytest once for each")
            seams.setdefault(seam.name, seam)
    sandboxes = _known("sandbox", config.getoption("harness_sandbox") or list(SANDBOXES), SANDBOXES)
    engine = _known("engine", [config.getoption("harness_engine")], ENGINES)[0]
    attempts: int = config.getoption("harness_attempts")
    if not 1 <= attempts <= MOST_ATTEMPTS:
        raise pytest.UsageError(f"--attempts {attempts}: a number from 1 to {MOST_ATTEMPTS} is needed")
    for seam in seams.values():
        for scenario in seam.scenarios:
            scenarios[scenario]  # a row that declares what is not there is refused, also where it is not asked for
    pool = RolloutPool(config.getoption("harness_evidence_dir"), run_id=run_id, requirements=catalogue.version)
    wanted: list[str] = config.getoption("harness_scenario")
    specs = [
        RolloutSpec(seam, sandbox, engine, scenarios[scenario], number)
        for seam in seams.values()
        for sandbox in sandboxes
        for scenario in wanted or seam.scenarios
        for number in range(1, attempts + 1)
    ]
    named = frozenset(name.partition("@")[0] for name in names if name != "all")
    unavailable = table.unavailable if "all" in names else ()
    return Plan(run_id, catalogue, tuple(_attempt(pool, spec) for spec in specs), named, unavailable, pool=pool, engine=engine)


def _attempt(pool: RolloutPool, spec: RolloutSpec) -> Attempt:
    return Attempt(spec.id, spec.seam.facts, spec.engine, lambda: pool.evidence(spec), spec)


def _known(option: str, names: list[str], known: tuple[str, ...]) -> list[str]:
    for name in names:
        if name not in known:
            raise pytest.UsageError(f"--{option} {name!r} is not known to this version; known: {', '.join(known)}")
    return list(dict.fromkeys(names))
