"""Makes the report from verdicts."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pytest_harness import __version__
from pytest_harness.contract import Result
from pytest_harness.reports.model import LeftOut, Report, ReportedAttempt, ReportedFinding, ReportedRequirement, ReportedSeam
from pytest_harness.requirements import Catalogue
from pytest_harness.verdict import RequirementVerdict, Rollout, SeamVerdict


def build_report(
    verdicts: tuple[SeamVerdict, ...],
    *,
    catalogue: Catalogue,
    run_id: str,
    folders: Mapping[str, Path],
    sabotage: str | None = None,
    left_out: Iterable[LeftOut] = (),
) -> Report:
    """The report of these seams. ``folders`` maps the id of each attempt to the folder of its evidence."""
    context = _Context(folders, sabotage, _names(verdicts))
    return Report(
        harness_conformance=__version__,
        requirement_set=catalogue.version,
        sabotage=sabotage,
        run_id=run_id,
        written_at=datetime.now(UTC).isoformat(timespec="seconds"),
        required=sum(verdict.required for verdict in verdicts),
        ran=sum(verdict.ran for verdict in verdicts),
        ok=all(verdict.ok for verdict in verdicts),
        seams=tuple(_seam(verdict, context) for verdict in verdicts),
        left_out=tuple(left_out),
    )


def replay_command(folder: Path, requirement: str, sabotage: str | None = None) -> str:
    """The command that judges one requirement again on stored evidence."""
    fault = f" --sabotage {sabotage}" if sabotage else ""
    return f"pytest --replay {shlex.quote(shown(folder))}{fault} -k {requirement}"


def shown(folder: Path) -> str:
    """The folder as people want to read and paste it: relative where it lies below the current one."""
    here = Path.cwd()
    return str(folder.relative_to(here) if folder.is_relative_to(here) else folder)


@dataclass(frozen=True)
class _Context:
    """What the parts of a report have in common."""

    folders: Mapping[str, Path]
    sabotage: str | None
    names: Mapping[tuple[str, str, str, str], str]


def _names(verdicts: Iterable[SeamVerdict]) -> dict[tuple[str, str, str, str], str]:
    """A name for each seam: as short as it can be without two being called the same."""
    keys = [_key(verdict) for verdict in verdicts]
    names = {}
    for key in keys:
        harness, sandbox, version, row = key
        same = [other for other in keys if other[:2] == key[:2]]
        name = harness if len(same) == 1 else f"{harness} {version}"
        if sum(other[2] == version for other in same) > 1:
            name += f" (row {row[:8]})"
        names[key] = f"{name} in {sandbox}"
    return names


def _key(verdict: SeamVerdict) -> tuple[str, str, str, str]:
    return verdict.harness, verdict.sandbox, verdict.version, verdict.row


def _seam(verdict: SeamVerdict, context: _Context) -> ReportedSeam:
    seams = [rollout.manifest.seam for rollout in verdict.rollouts]  # one row, which may have come to say more between them
    return ReportedSeam(
        name=context.names[_key(verdict)],
        harness=verdict.harness,
        version=verdict.version,
        row=verdict.row,
        sandbox=verdict.sandbox,
        dialect=verdict.rollouts[0].manifest.seam.dialect,
        scenarios=tuple(dict.fromkeys(name for seam in seams for name in seam.scenarios)),
        status=verdict.status,
        why=verdict.why,
        required=verdict.required,
        ran=verdict.ran,
        mean_reward=verdict.mean_reward,
        graded=verdict.graded,
        rewards=verdict.rewards,
        families=verdict.families,
        requirements=tuple(_requirement(requirement, verdict.rollouts, context) for requirement in verdict.requirements),
        attempts=tuple(_attempt(rollout, context.folders) for rollout in verdict.rollouts),
        stale_deviations=tuple(f"{stale.requirement}: {stale.reason} ({stale.link})" for stale in verdict.stale),
        known_failures=tuple(dict.fromkeys(each for seam in seams for each in seam.known_failures)),
    )


def _requirement(verdict: RequirementVerdict, rollouts: tuple[Rollout, ...], context: _Context) -> ReportedRequirement:
    requirement = verdict.requirement
    return ReportedRequirement(
        id=requirement.id,
        title=requirement.title,
        level=requirement.level,
        draft=requirement.draft,
        occasional=requirement.occasional,
        statement=requirement.statement,
        why=requirement.why,
        standing=verdict.standing,
        results=verdict.counts,
        reasons=verdict.reasons,
        findings=tuple(
            ReportedFinding(
                attempt=rollout.outline.name,
                attempt_id=rollout.manifest.attempt_id,
                call=finding.call,
                where=finding.where,
                expected=finding.expected,
                seen=finding.seen,
                replay=replay_command(context.folders[rollout.manifest.attempt_id], requirement.id, context.sabotage),
            )
            for rollout in rollouts
            if rollout.validity.valid
            for judgement in rollout.judgements
            if judgement.requirement.id == requirement.id
            for finding in judgement.findings
        ),
    )


def _attempt(rollout: Rollout, folders: Mapping[str, Path]) -> ReportedAttempt:
    outline, manifest, grade = rollout.outline, rollout.manifest, rollout.grade
    return ReportedAttempt(
        id=manifest.attempt_id,
        name=outline.name,
        engine=manifest.engine,
        scenario=manifest.scenario.name,
        attempt=manifest.attempt,
        evidence=shown(folders[manifest.attempt_id]),
        valid=rollout.validity.valid,
        blame=rollout.validity.blame,
        reason=rollout.validity.reason,
        reward=grade.value,
        reward_state=grade.state,
        reward_reason=grade.reason,
        reward_key=grade.key,
        reward_text=grade.text,
        solved=grade.solved,
        calls=outline.calls,
        prompt_tokens=outline.prompt_tokens,
        sampled_tokens=outline.sampled_tokens,
        versions=manifest.versions,
        started_at=manifest.started_at,
        ended_at=manifest.ended_at,
        results=_results(rollout),
    )


def _results(rollout: Rollout) -> dict[Result, tuple[str, ...]]:
    results: defaultdict[Result, list[str]] = defaultdict(list)
    for judgement in rollout.judgements:
        results[judgement.result].append(judgement.requirement.id)
    return {result: tuple(ids) for result, ids in results.items()}
