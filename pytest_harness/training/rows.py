"""The rows of one episode for a trainer, or why it has none.

Every sampled token of the agent has weight in exactly one row, whatever forks there are; a side call, a subagent, a retried reply and what
was constrained have weight in none. What is below the token contract is refused whole: half an episode looks like all of one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pytest_harness.contract import Grade, State, grade, judge_one, validity
from pytest_harness.evidence.model import Evidence, Manifest
from pytest_harness.graph import Graph, Row, build, training_rows
from pytest_harness.requirements import Catalogue

FAMILIES = ("TOK", "LGP", "GRF")
"""The families whose MUSTs the evidence must keep: the token contract, and each token counted once."""
SCRIPTED = "scripted"


class Refused(Exception):  # noqa: N818 (it is an answer, and no fault of the program)
    """An episode of which no rows are made; the message is one sentence that says why."""


@dataclass(frozen=True, slots=True)
class TrainingRow:
    """One sequence: ``prompt_ids`` and behind them ``completion_ids``; ``mask`` and ``logprobs`` are parallel to the completion."""

    episode: str
    """The id of the attempt; its rows share one reward."""
    row: int
    """Which of the episode's rows this is, from 0."""
    group: str
    """What was the same: harness, version, sandbox, engine, scenario, and the policy where it is known."""
    harness: str
    harness_version: str
    sandbox: str
    engine: str
    scenario: str
    attempt: int
    model: str
    policy_version: str | None
    """SHA-256 of the weights where the evidence records it, else what whoever exports calls it; None where nobody said."""
    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    """From the first sampled token with weight on: the model's tokens, and between them those of the environment."""
    mask: tuple[int, ...]
    """1 where the token has weight."""
    logprobs: tuple[float | None, ...]
    """Natural logarithms of the policy that sampled; None where the mask is 0."""
    reward: float | None
    """Only one that counts; None is not zero."""
    reward_state: State
    truncated: bool
    """Whether a limit ended the last turn of the row."""
    rehearsal: bool
    """Whether a script, or the harness's own sampling, had a say in it: for trying out a trainer, never to train with."""


def rows_of(
    evidence: Evidence, catalogue: Catalogue, *, rehearsal: bool = False, policy_version: str | None = None
) -> tuple[TrainingRow, ...]:
    """The rows of one episode, at least one. Raises Refused."""
    reason = next(_reasons(evidence, catalogue, rehearsal=rehearsal), None)
    if reason is not None:
        raise Refused(f"{evidence.name}: {reason}")
    graph = build(evidence.calls)
    rows = training_rows(graph)
    if not rows:
        raise Refused(f"{evidence.name}: no turn of the agent may be trained on: {_why_none([turn.why for turn in graph.turns])}")
    if not all(row.replayable for row in rows):
        raise Refused(f"{evidence.name}: a prompt holds images, sound or files, so its ids alone are not what the engine saw")
    graded = grade(evidence)
    policy = evidence.manifest.digests.get("model", policy_version)
    return tuple(_row(evidence.manifest, row, graph, number=number, graded=graded, policy=policy) for number, row in enumerate(rows))


def _row(manifest: Manifest, row: Row, graph: Graph, *, number: int, graded: Grade, policy: str | None) -> TrainingRow:
    start = row.mask.index(1)
    return TrainingRow(
        episode=manifest.attempt_id,
        row=number,
        group=group_of(manifest, policy),
        harness=manifest.harness,
        harness_version=manifest.versions.get("harness", ""),
        sandbox=manifest.sandbox,
        engine=manifest.engine,
        scenario=manifest.scenario.name,
        attempt=manifest.attempt,
        model=manifest.model,
        policy_version=policy,
        prompt_ids=row.ids[:start],
        completion_ids=row.ids[start:],
        mask=row.mask[start:],
        logprobs=row.logprobs[start:],
        reward=graded.counted,
        reward_state=graded.state,
        truncated=graph.by_call[row.calls[-1]].truncated,
        rehearsal=_rehearsed(manifest) is not None,
    )


def group_of(manifest: Manifest, policy: str | None) -> str:
    """What the rewards of attempts may be compared within."""
    harness = f"{manifest.harness}@{manifest.versions.get('harness', '')}"
    group = f"{harness}/{manifest.sandbox}/{manifest.engine}/{manifest.scenario.name}"
    return group if policy is None else f"{group}/{policy}"


def _reasons(evidence: Evidence, catalogue: Catalogue, *, rehearsal: bool) -> Iterator[str]:
    manifest = evidence.manifest
    said = validity(evidence)
    if not said.valid:
        yield f"it counts for nothing; to blame: {said.blame}: {said.reason}"
    for requirement in catalogue.of("seam").applicable(manifest.seam, manifest.engine):
        if requirement.family in FAMILIES and requirement.binding:
            judgement = judge_one(evidence, requirement)
            if judgement.result in {"failed", "error", "deviation"}:
                found = f": {judgement.findings[0].where}: seen {judgement.findings[0].seen}" if judgement.findings else ""
                yield f"{requirement.id} {requirement.title} does not hold{found}; see the report of judge"
    if not rehearsal and (why := _rehearsed(manifest)) is not None:
        yield f"{why}; --rehearsal exports it with a mark"


def _rehearsed(manifest: Manifest) -> str | None:
    """Why this is a rehearsal, however good its ids are; None for an episode that was made to train with."""
    if manifest.engine == SCRIPTED:
        return "the scripted engine says what a script makes it say, which is never training data"
    if manifest.purpose != "train":
        return "its session did not make the sampling neutral (LGP-007); collect with rollout --llm-url URL --train"
    return None


def _why_none(whys: list[str]) -> str:
    return "; ".join(dict.fromkeys(filter(None, whys))) or "none has ids and logprobs that were sampled freely"
