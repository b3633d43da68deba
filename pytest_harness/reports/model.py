"""The report of one run as a document. Its JSON Schema is ``conformance/schemas/report.schema.json``.

``None`` is never zero here: a reward that was not given, and a mean over nothing, are null.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from pytest_harness.contract import Blame, Result, State
from pytest_harness.evidence import KnownFailure
from pytest_harness.requirements import Level
from pytest_harness.verdict import Standing, Status


class Part(BaseModel):
    """A part of the document."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class ReportedFinding(Part):
    """A requirement broken by one attempt, with the place that shows it and the command that judges it again."""

    attempt: str
    attempt_id: str
    """The id of that attempt: its name may be that of another on another engine too."""
    call: int | None
    """Index of the wire call, from 0; null if it is about no single one."""
    where: str
    expected: str
    seen: str
    replay: str


class ReportedRequirement(Part):
    """How one requirement stands for the seam."""

    id: str
    title: str
    level: Level
    draft: bool
    """Whether it is shown without being scored: part of no verdict, no count and no exit code."""
    occasional: bool
    """Whether it is required only where what it speaks of comes up."""
    statement: str
    why: str
    standing: Standing
    results: dict[Result, int]
    """How many attempts gave each result."""
    reasons: tuple[str, ...]
    findings: tuple[ReportedFinding, ...]
    expected: str = ""
    """Why it was expected to fail, where it did; then it makes the run no redder, and the verdict no better."""


class ReportedAttempt(Part):
    """One attempt."""

    id: str
    name: str
    engine: str
    scenario: str
    attempt: int
    evidence: str
    """Its folder, relative to the folder in which pytest ran where it lies below it."""
    valid: bool
    """Whether the rollout says anything of its subject; not that it met any requirement, and not that it may be trained on."""
    blame: Blame | None
    """Who is to blame where it is not valid."""
    reason: str
    reward: float | None
    """What the verifier said, whether it counts or not; null, not zero, where it said nothing that can be used."""
    reward_state: State
    """Whether it counts: ``valid`` and ``invalid`` were graded; the others were not, with an exception that may say why, and without."""
    reward_reason: str
    """Why it does not count, or why there is none."""
    reward_key: str | None
    """Under which of the verifier's keys it stands."""
    reward_text: str | None
    """The number as the verifier wrote it."""
    solved: bool
    """Only where the reward counts and is positive."""
    calls: int
    prompt_tokens: int | None
    """Sum over the calls; ids reported by the engine, and null, not zero, where it reported none for any call."""
    sampled_tokens: int | None
    """Likewise."""
    versions: dict[str, str]
    started_at: str
    ended_at: str
    results: dict[Result, tuple[str, ...]]
    """The ids of the requirements by which it was judged, by what came of it."""


class ReportedSeam(Part):
    """One seam with its verdict."""

    name: str
    """What to call it in this report: ``pi in local``, with version and row where two would be called the same."""
    harness: str
    version: str
    """The version that really ran; empty if none is recorded."""
    row: str
    """SHA-256 of its row in the seam table."""
    sandbox: str
    dialect: str
    scenarios: tuple[str, ...] = ()
    """The scenarios that its row declares; empty where they are not recorded."""
    status: Status
    why: str
    """What speaks against it, or what is missing for ``validated``; empty if it is validated."""
    required: int
    """MUSTs that apply to it."""
    ran: int
    """MUSTs that at least one attempt exercised."""
    mean_reward: float | None
    """Over the rewards that count; null if there are none, or if attempts of one scenario have theirs under different keys."""
    graded: int
    """How many count."""
    rewards: dict[State, int]
    """How many attempts are in each state that occurs; what is not graded is counted here, and is in no mean."""
    families: dict[str, dict[Standing, int]]
    requirements: tuple[ReportedRequirement, ...]
    attempts: tuple[ReportedAttempt, ...]
    stale_deviations: tuple[str, ...]
    known_failures: tuple[KnownFailure, ...] = ()
    """What its row says that it is known to break."""


class LeftOut(Part):
    """A rollout that was in reach of the run and was not made."""

    rollout: str
    """What its evidence would be called: ``pi-in-local-edit_file``."""
    why: str


class Shard(Part):
    """Which part of a divided run this is."""

    index: int
    """From 1."""
    count: int
    rollouts: tuple[str, ...]
    """The names of the whole run's rollouts, in the order in which they are divided."""


class Report(Part):
    """One run."""

    report_version: Literal[1] = 1
    harness_conformance: str
    """The version that wrote the report."""
    requirement_set: str
    sabotage: str | None
    """The known fault that was put into the evidence before it was judged; null for an honest report."""
    run_id: str
    written_at: str
    required: int
    ran: int
    ok: bool
    """Whether nothing speaks against any seam; not yet that any of them is validated."""
    seams: tuple[ReportedSeam, ...]
    left_out: tuple[LeftOut, ...] = ()
    """What the run chose not to roll out, so that nobody takes it for what was judged."""
    shard: Shard | None = None
    """Null for a run that was not divided, and for its parts joined."""
