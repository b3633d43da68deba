"""The verdict of a seam, computed from the judgements of all its rollouts. Nobody types a status.

Rollouts that say nothing of their subject count for nothing: they are listed with who is to blame, and are in no mean.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from pytest_harness.contract import (
    Finding,
    Grade,
    Judgement,
    Outline,
    Result,
    State,
    Validity,
    deviations_in_range,
    group_findings,
    judge,
    mean,
)
from pytest_harness.evidence.model import Deviation, Evidence, Manifest
from pytest_harness.requirements import FAMILIES, Catalogue, Requirement

Status = Literal["validated", "unstable", "unsupported", "blocked", "untested"]
Standing = Literal["passed", "failed", "unstable", "deviation", "error", "unverifiable", "not_exercised"]

OURS = "scripted"
"""The engine that has no version of its own."""
ENGINES = (OURS, "vllm")
"""The engines on which a seam must have passed."""
ATTEMPTS = 3
"""How often each scenario must have been run on each of them."""
_NAMED = 3
"""Of requirements by which not every rollout was judged so many are named; a run of one test alone lacks nearly all."""


@dataclass(frozen=True)
class Rollout:
    """One rollout with what was said of it. Of its evidence only an outline is kept."""

    outline: Outline
    judgements: tuple[Judgement, ...]

    @classmethod
    def of(cls, evidence: Evidence, catalogue: Catalogue) -> Rollout:
        """Judge the evidence by the whole catalogue."""
        return cls(Outline.of(evidence), judge(evidence, catalogue))

    @property
    def manifest(self) -> Manifest:
        """What it was."""
        return self.outline.manifest

    @property
    def validity(self) -> Validity:
        """Whether it counts."""
        return self.outline.validity

    @property
    def grade(self) -> Grade:
        """What became of its reward."""
        return self.outline.grade


@dataclass(frozen=True)
class RequirementVerdict:
    """How one requirement stands over all valid rollouts."""

    requirement: Requirement
    standing: Standing
    counts: dict[Result, int]
    """How many rollouts gave each result."""
    findings: tuple[Finding, ...]
    reasons: tuple[str, ...]
    """The different reasons that the judgements gave, e.g. why nothing could be compared."""

    @property
    def exercised(self) -> bool:
        """Whether any rollout came to what it is about."""
        return self.standing in {"passed", "failed", "unstable", "deviation"}

    @property
    def due(self) -> bool:
        """Whether it is required: always, save where it is occasional and whoever looked saw that it did not come up."""
        return not (self.requirement.occasional and self.standing == "not_exercised" and self.counts)


@dataclass(frozen=True)
class SeamVerdict:
    """The status of one seam: a harness in a sandbox."""

    harness: str
    version: str
    """The version that really ran; empty if none is recorded."""
    row: str
    """SHA-256 of its row in the seam table."""
    sandbox: str
    status: Status
    why: str
    """Empty for ``validated``; for ``untested`` what is missing."""
    requirements: tuple[RequirementVerdict, ...]
    required: int
    """The number of MUSTs that apply, without drafts and without the occasional ones that did not come up."""
    ran: int
    """How many of these were exercised at least once."""
    rollouts: tuple[Rollout, ...]
    stale: tuple[Deviation, ...]
    """Known deviations that no longer occur."""
    mean_reward: float | None
    """Over the rewards that count; None if there are none, or if attempts of one scenario have theirs under different keys."""
    rewards: dict[State, int]
    """How many rollouts are in each state that occurs. What is not graded is counted here, and is in no mean."""

    @property
    def graded(self) -> int:
        """How many rewards count."""
        return self.rewards.get("valid", 0)

    @property
    def label(self) -> str:
        """``validated``, or ``untested: what is missing``."""
        return f"{self.status}: {self.why}" if self.why else self.status

    @property
    def ok(self) -> bool:
        """Whether nothing speaks against the seam: what ran passed, though it may not be enough for ``validated``."""
        return self.status in {"validated", "untested"}

    @property
    def invalid(self) -> tuple[Rollout, ...]:
        """The rollouts that count for nothing."""
        return tuple(rollout for rollout in self.rollouts if not rollout.validity.valid)

    @property
    def families(self) -> dict[str, dict[Standing, int]]:
        """For each family of which a requirement applies, how many of them stand how; drafts are not counted."""
        standings: defaultdict[str, Counter[Standing]] = defaultdict(Counter)
        for verdict in self.requirements:
            if verdict.requirement.draft:
                continue
            standings[verdict.requirement.family][verdict.standing] += 1
        return {family: dict(standings[family]) for family in FAMILIES if family in standings}


def seam_verdicts(rollouts: Iterable[Rollout], catalogue: Catalogue) -> tuple[SeamVerdict, ...]:
    """One verdict for each harness and sandbox, in the order of their first rollout.

    Another version of the harness, and another row of the seam table, is another seam: what it did says nothing of this one.
    """
    seams: dict[tuple[str, ...], list[Rollout]] = {}
    for rollout in rollouts:
        manifest = rollout.manifest
        key = (manifest.harness, manifest.sandbox, manifest.versions.get("harness", ""), manifest.seam.digest)
        seams.setdefault(key, []).append(rollout)
    return tuple(seam_verdict(group, catalogue) for group in seams.values())


def seam_verdict(rollouts: Iterable[Rollout], catalogue: Catalogue) -> SeamVerdict:
    """The verdict of one seam. ``rollouts`` are all of one harness and sandbox, at least one."""
    group = _with_group_findings(tuple(rollouts))
    first = group[0].manifest
    valid = [rollout for rollout in group if rollout.validity.valid]
    requirements = tuple(_requirement(requirement, valid) for requirement in _applicable(group, catalogue))
    musts = [verdict for verdict in requirements if verdict.requirement.binding and verdict.due]
    stale = _stale(valid, requirements)
    status, why = _status(group, valid, requirements, stale, catalogue)
    return SeamVerdict(
        harness=first.harness,
        version=first.versions.get("harness", ""),
        row=first.seam.digest,
        sandbox=first.sandbox,
        status=status,
        why=why,
        requirements=requirements,
        required=len(musts),
        ran=sum(verdict.exercised for verdict in musts),
        rollouts=group,
        stale=stale,
        mean_reward=None if _mixed_keys(group) else mean(rollout.grade.counted for rollout in group),
        rewards=dict(Counter(rollout.grade.state for rollout in group)),
    )


def _applicable(group: tuple[Rollout, ...], catalogue: Catalogue) -> tuple[Requirement, ...]:
    """What applies to any of them, in order; it is occasional only where it is so for all of them."""
    applicable: dict[str, Requirement] = {}
    for rollout in group:
        for requirement in catalogue.applicable(rollout.manifest.seam):
            if requirement.id not in applicable or applicable[requirement.id].occasional:
                applicable[requirement.id] = requirement
    return tuple(applicable[requirement.id] for requirement in catalogue if requirement.id in applicable)


def _with_group_findings(group: tuple[Rollout, ...]) -> tuple[Rollout, ...]:
    """The rollouts with what only they together show, among the judgements of those that were judged by the requirement.

    A rollout that counts for nothing shows nothing.
    """
    found = group_findings([rollout.outline for rollout in group if rollout.validity.valid])
    return tuple(_with_findings(rollout, found.get(rollout.manifest.attempt_id, ())) for rollout in group)


def _with_findings(rollout: Rollout, found: tuple[Finding, ...]) -> Rollout:
    if not found:
        return rollout
    judgements = []
    for judgement in rollout.judgements:
        more = tuple(finding for finding in found if finding.requirement == judgement.requirement.id)
        broken = replace(judgement, result="failed", findings=(*judgement.findings, *more)) if more else judgement
        judgements.append(broken)
    return replace(rollout, judgements=tuple(judgements))


def _mixed_keys(group: tuple[Rollout, ...]) -> bool:
    keys: defaultdict[str, set[str | None]] = defaultdict(set)
    for rollout in group:
        if rollout.grade.counted is not None:
            keys[rollout.manifest.scenario.name].add(rollout.grade.key)
    return any(len(each) > 1 for each in keys.values())


def _requirement(requirement: Requirement, valid: list[Rollout]) -> RequirementVerdict:
    cells: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    judgements = []
    for rollout in valid:
        manifest = rollout.manifest
        for judgement in rollout.judgements:
            if judgement.requirement.id == requirement.id:
                judgements.append(judgement)
                cells[manifest.engine, manifest.scenario.name].add(judgement.result)
    return RequirementVerdict(
        requirement=requirement,
        standing=standing_of(list(cells.values())),
        counts=dict(Counter(judgement.result for judgement in judgements)),
        findings=tuple(finding for judgement in judgements for finding in judgement.findings),
        reasons=tuple(dict.fromkeys(judgement.reason for judgement in judgements if judgement.reason)),
    )


def standing_of(cells: list[set[str]]) -> Standing:
    """A cell holds the results of the attempts of one scenario on one engine: only there do pass and failure mean luck."""
    failing = [cell for cell in cells if "failed" in cell]
    if failing:
        return "unstable" if all("passed" in cell for cell in failing) else "failed"
    seen = set[str]().union(*cells)
    order: tuple[Standing, ...] = ("error", "deviation", "passed", "unverifiable")
    return next((standing for standing in order if standing in seen), "not_exercised")


def _stale(valid: list[Rollout], requirements: tuple[RequirementVerdict, ...]) -> tuple[Deviation, ...]:
    """The deviations in range whose requirement was exercised and never broken, save those that are seen in some runs only; none while a
    scenario that may show it was not run."""
    manifests = [rollout.manifest for rollout in valid]
    if not {name for manifest in manifests for name in manifest.seam.scenarios} <= {manifest.scenario.name for manifest in manifests}:
        return ()
    passed = {verdict.requirement.id for verdict in requirements if verdict.standing == "passed" and not verdict.requirement.draft}
    in_range = dict.fromkeys(deviation for manifest in manifests for deviation in deviations_in_range(manifest))
    return tuple(deviation for deviation in in_range if deviation.requirement in passed and not deviation.flaky)


def _status(
    group: tuple[Rollout, ...],
    valid: list[Rollout],
    requirements: tuple[RequirementVerdict, ...],
    stale: tuple[Deviation, ...],
    catalogue: Catalogue,
) -> tuple[Status, str]:
    if not valid:
        return "blocked", "; ".join(dict.fromkeys(f"{rollout.validity.blame}: {rollout.validity.reason}" for rollout in group))
    musts = [verdict for verdict in requirements if verdict.requirement.binding]
    if broken := "; ".join(filter(None, (_named(musts, "failed"), _known(valid, musts)))):
        return "unsupported", broken
    if broken := _named(musts, "unstable"):
        return "unstable", broken
    errors = [verdict.requirement.id for verdict in requirements if verdict.standing == "error" and not verdict.requirement.draft]
    if errors:
        return "blocked", f"ourselves: the checks of {', '.join(errors)} broke"
    if stale:
        named = ", ".join(f"{deviation.requirement} of {deviation.subject} {deviation.versions}" for deviation in stale)
        return "blocked", f"the known deviation {named} no longer occurs: remove it from the seam's row"
    missing = _missing(valid, musts) + _unjudged(valid, catalogue)
    if missing and len(valid) < len(group):
        missing.append(f"{len(group) - len(valid)} rollouts count for nothing")
    return ("untested", "; ".join(missing)) if missing else ("validated", "")


def _named(verdicts: list[RequirementVerdict], standing: Standing) -> str:
    found = [verdict.requirement for verdict in verdicts if verdict.standing == standing]
    return "; ".join(f"{requirement.id} {requirement.title}" for requirement in found)


def _known(valid: list[Rollout], musts: list[RequirementVerdict]) -> str:
    """What the row says that it breaks, though these rollouts do not show it: where it was not looked for, and where it takes luck."""
    requirements = {verdict.requirement.id: verdict.requirement for verdict in musts if verdict.standing != "failed"}
    known = dict.fromkeys(failure for rollout in valid for failure in rollout.manifest.seam.known_failures)
    told = [(requirements[each.requirement], each.reason) for each in known if each.requirement in requirements]
    return "; ".join(f"{requirement.id} {requirement.title} (known: {reason})" for requirement, reason in told)


def _missing(valid: list[Rollout], musts: list[RequirementVerdict]) -> list[str]:
    """What stands between these rollouts, none of which speaks against the seam, and ``validated``."""
    manifests = [rollout.manifest for rollout in valid]
    missing = []
    for what, values in (
        ("versions of the harness", {manifest.versions.get("harness") for manifest in manifests}),
        ("builds of the harness", {manifest.digests.get("harness") for manifest in manifests}),
        ("rows of the seam table", {manifest.seam.digest for manifest in manifests}),
    ):
        if len(values) > 1:
            missing.append(f"rollouts of one and the same version: these are of {len(values)} {what}")
    facts = {(manifest.scenario.name, manifest.scenario) for manifest in manifests}
    changed = [name for name, count in Counter(name for name, _ in facts).items() if count > 1]
    if changed:
        missing.append(f"rollouts of one and the same scenario: those of {', '.join(sorted(changed))} ask for different things")
    declared = sorted({scenario for manifest in manifests for scenario in manifest.seam.scenarios})
    if not declared:
        missing.append("the scenarios that the seam declares, which the evidence does not name")
    for engine in ENGINES:
        on_engine = [rollout for rollout in valid if rollout.manifest.engine == engine]
        if not on_engine:
            missing.append(f"rollouts on the engine {engine}")
            continue
        few = {scenario: count for scenario in declared if (count := _attempts(on_engine, scenario)) < ATTEMPTS}
        if few:
            counted = ", ".join(f"{scenario} {count}" for scenario, count in few.items())
            if len(few) == len(declared) and len(set(few.values())) == 1:
                counted = f"{few[declared[0]]} of each"
            missing.append(f"{ATTEMPTS} attempts of each scenario on {engine} (so far {counted})")
        if engine != OURS and (unnamed := sum(engine not in rollout.manifest.versions for rollout in on_engine)):
            missing.append(f"the version of {engine}, which {unnamed} of its rollouts do not name")
        missing += _not_exercised(engine, on_engine, musts)
    return missing


def _unjudged(valid: list[Rollout], catalogue: Catalogue) -> list[str]:
    """By what not every rollout was judged: a test that was deselected, or never ran, may be the one that would have failed."""
    unjudged: dict[str, None] = {}
    for rollout in valid:
        manifest, judged = rollout.manifest, {judgement.requirement.id for judgement in rollout.judgements}
        applicable = catalogue.applicable(manifest.seam, manifest.engine)
        unjudged |= dict.fromkeys(each.id for each in applicable if each.binding and each.id not in judged)
    if not unjudged:
        return []
    named = ", ".join(list(unjudged)[:_NAMED])
    return [f"a judgement of each rollout by {named}{f' and {more} more' if (more := len(unjudged) - _NAMED) > 0 else ''}"]


def _attempts(rollouts: list[Rollout], scenario: str) -> int:
    """How many different attempts: a copy of stored evidence is no attempt of its own."""
    manifests = [rollout.manifest for rollout in rollouts]
    return len({manifest.attempt_id for manifest in manifests if manifest.scenario.name == scenario})


def _not_exercised(engine: str, rollouts: list[Rollout], musts: list[RequirementVerdict]) -> list[str]:
    results: defaultdict[str, set[Result]] = defaultdict(set)
    for rollout in rollouts:
        for judgement in rollout.judgements:
            results[judgement.requirement.id].add(judgement.result)
    open_musts = [verdict.requirement.id for verdict in musts if _open(verdict.requirement, results[verdict.requirement.id])]
    return [f"evidence on {engine} that exercises {', '.join(open_musts)}"] if open_musts else []


def _open(requirement: Requirement, results: set[Result]) -> bool:
    """Whether it was judged and nothing settles it; what is occasional may not have come up."""
    return bool(results - {"not_exercised"} if requirement.occasional else results) and not results & {"passed", "deviation"}
