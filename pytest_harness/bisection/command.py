"""``harness-conformance bisect``: from names to the release that broke a requirement."""

from __future__ import annotations

import difflib
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from pytest_harness.bisection import BisectError
from pytest_harness.bisection.halving import Found, Said, expected, halve
from pytest_harness.bisection.judging import Judge, Tried
from pytest_harness.evidence import Evidence
from pytest_harness.provision import ProvisionError
from pytest_harness.provision.releases import releases_of
from pytest_harness.reports.build import replay_command, shown
from pytest_harness.requirements import Requirement, load_catalogue
from pytest_harness.rollouts.pool import RolloutPool
from pytest_harness.rollouts.spec import RolloutSpec
from pytest_harness.scenarios import Scenario, ScenarioTable
from pytest_harness.seams import Seam, SeamTable

SANDBOX = "local"
SCRIPTED, VLLM = ENGINES = ("scripted", "vllm")


@dataclass(frozen=True)
class Asked:
    """What the command was asked for."""

    harness: str
    good: str
    bad: str
    requirement: str
    scenarios: Sequence[str] = ()
    engine: str = SCRIPTED
    evidence_dir: Path = Path()
    seam_folders: Sequence[Path] = ()
    scenario_folders: Sequence[Path] = ()


@dataclass(frozen=True)
class Answer:
    """What was found, with everything that was tried on the way."""

    found: Found
    scenario: str
    tried: tuple[Tried, ...]
    requirement: Requirement

    def lines(self, harness: str) -> list[str]:
        """The answer for people: the release, what it was seen by, and how to see it again."""
        name = f"{self.requirement.id} {self.requirement.title}"
        if (first := self.found.first_bad) is not None:
            lines = [f"{harness} {first} is the first release that breaks {name}; {self.found.last_good} is the last that meets it"]
        else:
            *skipped, bad = self.found.candidates
            unknown = f"{', '.join(skipped)} between them could not be judged and may have broken it already"
            lines = [f"{harness} {bad} breaks {name} and {self.found.last_good} meets it; {unknown}"]
        for which, version in (("good", self.found.last_good), ("bad", self.found.candidates[-1])):
            tried = next(each for each in self.tried if each.version == version and each.scenario == self.scenario)
            assert tried.folder is not None
            lines += [f"  {which}  {version}: {tried.why}", f"        {shown(tried.folder)}"]
            lines += [f"        {replay_command(tried.folder, self.requirement.id)}"]
        return lines


@dataclass
class Bisection:
    """One search. ``between`` gives the releases from good to bad; ``judge`` judges one."""

    asked: Asked
    requirement: Requirement
    scenarios: Sequence[Scenario]
    releases: Sequence[str]
    judge: Judge
    told: Callable[[Tried], None]
    tried: list[Tried] = field(default_factory=list)

    def run(self) -> Answer:
        """Check both ends, then halve. Raises BisectError."""
        asked, name = self.asked, self.requirement.id
        witness = self.judge.first(asked.bad, self.scenarios, "bad", self._tell)
        if witness is None:
            said = "; ".join(f"{each.scenario}: {each.why}" for each in self.tried)
            raise BisectError(f"{asked.harness} {asked.bad} does not break {name} ({said}), so there is nothing to search for")
        scenario = next(each for each in self.scenarios if each.name == witness.scenario)
        good = self.judge.first(asked.good, [scenario], "good", self._tell)
        if good is None:
            why = f"in {scenario.name}: {self.tried[-1].why}"
            raise BisectError(f"{asked.harness} {asked.good} does not meet {name} ({why}); name an earlier release as good")

        def judge(version: str) -> Said:
            self._tell(tried := self.judge(version, scenario))
            return tried.said

        return Answer(halve(self.releases, judge), scenario.name, tuple(self.tried), self.requirement)

    def _tell(self, tried: Tried) -> None:
        self.tried.append(tried)
        self.told(tried)


def between(releases: Sequence[str], good: str, bad: str, harness: str) -> tuple[str, ...]:
    """The releases from ``good`` to ``bad``, both included. Raises BisectError."""
    for version in (good, bad):
        if version not in releases:
            near = difflib.get_close_matches(version, releases, n=3, cutoff=0.3)
            hint = f"near it are {', '.join(near)}" if near else f"the newest is {releases[-1]}" if releases else "there is none at all"
            raise BisectError(f"{harness} has no release {version}; {hint}")
    first, last = releases.index(good), releases.index(bad)
    if first >= last:
        raise BisectError(f"{good} is no earlier release of {harness} than {bad}; write the good one first, then the bad one")
    return tuple(releases[first : last + 1])


def releases_from(seam: Seam, good: str, bad: str, say: Callable[[str], None]) -> tuple[str, ...]:
    """The releases between the two, with alphas and candidates only if one of the two is one. Raises BisectError or ProvisionError."""
    releases = releases_of(seam, say)
    if not {good, bad} <= set(releases):
        releases = releases_of(seam, say, early=True)
    return between(releases, good, bad, seam.name)


def bisect_releases(asked: Asked, console: Console) -> Answer:
    """Do what was asked. Raises the errors of bad input in one sentence."""

    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    if asked.engine not in ENGINES:
        raise BisectError(f"--engine {asked.engine} is not known to this version; known: {', '.join(ENGINES)}")
    table, scenarios = SeamTable.load(*asked.seam_folders), ScenarioTable.load(*asked.scenario_folders)
    seam = table.get(asked.harness)
    for version in (asked.good, asked.bad):
        table.get(f"{seam.name}@{version}")  # refused before anything is asked of a registry
    requirement = _requirement(asked, seam)
    chosen = [scenarios[name] for name in asked.scenarios or seam.scenarios]
    from pytest_harness.sandboxes.bubblewrap import check  # noqa: PLC0415 (it starts a sandbox to see whether it can)

    if (reason := check()) is not None:
        raise BisectError(reason)
    try:
        asked.evidence_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BisectError(f"--evidence-dir {asked.evidence_dir} cannot be written ({error.strerror}); name a folder of yours") from None
    releases = releases_from(seam, asked.good, asked.bad, say)
    say(f"{len(releases)} releases from {asked.good} to {asked.bad}: about {expected(len(releases))} of them are to be judged")
    with ExitStack() as stack:
        pools = _pools(asked, stack, say)

        def roll_out(version: str, spec: RolloutSpec) -> tuple[Path, Evidence]:
            return pools(version).evidence(spec)

        bar = stack.enter_context(Narrator(console, expected(len(releases))))
        judge = Judge(requirement, SANDBOX, asked.engine, lambda version: table.get(f"{seam.name}@{version}"), roll_out)
        return Bisection(asked, requirement, chosen, releases, judge, bar).run()


def _requirement(asked: Asked, seam: Seam) -> Requirement:
    catalogue = load_catalogue()
    if asked.requirement not in catalogue:
        near = difflib.get_close_matches(asked.requirement, [each.id for each in catalogue], n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "docs/requirements.md lists them"
        raise BisectError(f"there is no requirement {asked.requirement} of seams in {catalogue.version}; {hint}")
    if asked.requirement not in {each.id for each in catalogue.applicable(seam.facts, asked.engine)}:
        raise BisectError(f"{asked.requirement} does not apply to {seam.name} on {asked.engine}: no rollout of it could break it")
    return catalogue[asked.requirement]


def _pools(asked: Asked, stack: ExitStack, say: Callable[[str], None]) -> Callable[[str], RolloutPool]:
    """The evidence of each version has a folder of its own; the engine is one for all."""
    engine = None
    if asked.engine == VLLM:
        from pytest_harness.engines.vllm import EngineError  # noqa: PLC0415 (most need none of this)
        from pytest_harness.rollouts.engines import LOG, shared_vllm  # noqa: PLC0415

        try:
            engine = stack.enter_context(shared_vllm(asked.evidence_dir.absolute() / ".engine" / LOG, say))
        except EngineError as error:
            raise ProvisionError(f"--engine vllm: {error}") from None
    run_id, requirements = uuid.uuid4().hex, load_catalogue().version

    def pool(version: str) -> RolloutPool:
        made = RolloutPool(asked.evidence_dir / version, run_id=run_id, requirements=requirements)
        made.engine = engine
        return made

    return pool


class Narrator:
    """A context manager that tells of each release that was tried: a line, and on a terminal a bar below."""

    def __init__(self, console: Console, total: int) -> None:
        self._console = console
        columns = (SpinnerColumn(), TextColumn("bisecting"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._bar.add_task("", total=total)

    def __enter__(self) -> Narrator:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, tried: Tried) -> None:
        """Tell it."""
        self._bar.advance(self._task)
        other = f" (it says it is {tried.really})" if tried.really not in (None, tried.version) else ""
        line = f"{tried.version}{other} in {tried.scenario}: {tried.said}: {tried.why}"
        style = {"good": "green", "bad": "red", "skip": "yellow"}[tried.said]
        self._console.print(line, style=style, highlight=False, markup=False, soft_wrap=True)
