"""What the fixtures for other repositories are made of: a scripted engine, the proxy before it, rollouts, and their evidence."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from pytest_harness import __version__
from pytest_harness.capture import CaptureProxy, Session, Upstream
from pytest_harness.capture.budget import Budget
from pytest_harness.contract import Finding, judge, validity
from pytest_harness.engines.scripted import Fault, Script, ScriptedEngine
from pytest_harness.evidence import Call, Ending, Evidence, Manifest, ScenarioFacts, SeamFacts, read_evidence
from pytest_harness.requirements import load_catalogue
from pytest_harness.rollouts.pool import RolloutPool
from pytest_harness.rollouts.spec import RolloutSpec
from pytest_harness.sandboxes.bubblewrap import check
from pytest_harness.scenarios import ScenarioTable
from pytest_harness.seams import SeamTable
from pytest_harness.serving import BackgroundServer

OF_A_TRIAL = frozenset({"ATF", "REW", "SBX", "SEA"})
"""The families that are about a trial in a sandbox; what was captured without one is not judged by them."""
MOST_TURNS = 10_000


class CountsForNothing(AssertionError):  # noqa: N818 (it is what a test fails with)
    """Evidence that says nothing of its subject, such as one without a call; the message says why and who is to blame."""


class NoRollout(Exception):  # noqa: N818 (it is a state of the machine)
    """A rollout that cannot be run here; the message says what is missing."""


@dataclass(frozen=True)
class Captured:
    """A session of the capture proxy: where an agent finds it, and what it said there."""

    url: str
    """The proxy's address, without a path."""
    session: Session = field(repr=False)

    @property
    def key(self) -> str:
        """What the agent must present as its API key."""
        return self.session.key

    @property
    def model(self) -> str:
        """The name under which the engine serves its model; the proxy takes any."""
        return self.session.upstream.model

    @property
    def base_urls(self) -> dict[str, str]:
        """What the SDK of each vendor is given as its base URL."""
        return {"openai": f"{self.url}/v1", "anthropic": self.url, "gemini": self.url}

    def calls(self) -> tuple[Call, ...]:
        """The calls so far, in order of arrival."""
        return self.session.calls()


class ProxyServer:
    """One capture proxy with as many sessions as are asked for. A context manager."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._proxy = CaptureProxy()
        self._server = BackgroundServer(self._proxy)
        self._sessions: list[Session] = []

    def __enter__(self) -> ProxyServer:
        self._url = self._server.start().listen().url
        return self

    def __exit__(self, *_: object) -> None:
        try:
            for session in self._sessions:
                session.end()
        finally:
            self._server.close()

    def open(self, engine: Upstream, *, calls: int | None = None) -> Captured:
        """A session with a key of its own, which lets ``calls`` calls through. Raises JournalError."""
        journal = self._folder / f"session-{len(self._sessions)}.ndjson"
        session = self._proxy.open_session(engine, journal, budget=Budget(calls=calls))
        self._sessions.append(session)
        return Captured(self._url, session)


def engine_server(
    steps: Iterable[tuple[str, Sequence[str]]],
    *,
    tool: str | None,
    argument: str,
    instruction: str | None,
    faults: Iterable[Fault],
    api_key: str,
) -> BackgroundServer:
    """A server of an engine that says these steps, not yet started. Raises ScriptError."""
    script = Script.for_seam(steps, shell_tool=tool, shell_argument=argument, instruction=instruction)
    return BackgroundServer(ScriptedEngine(script, api_key=api_key, faults=faults, salt=uuid.uuid4().hex))


def evidence_of(source: Captured | Path, *, name: str, requirements: str) -> Evidence:
    """The evidence in a folder, or what a session captured, in which nothing but the calls is known. Raises EvidenceError."""
    if isinstance(source, Path):
        return read_evidence(source)
    calls = source.session.close()
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    seam = SeamFacts(
        harness=name,
        digest="",
        dialect=calls[0].dialect if calls else "chat",
        streams=any(call.streamed for call in calls),
        trajectory="none",
        scenarios=("test",),
    )
    scenario = ScenarioFacts(name="test", steps=0, shell_commands=(), reward=None, turns=(1, MOST_TURNS), may_fail=True)
    manifest = Manifest(
        attempt_id=uuid.uuid4().hex,
        run_id=uuid.uuid4().hex,
        harness=name,
        sandbox="none",
        engine="scripted",
        scenario=scenario,
        attempt=1,
        seam=seam,
        model=source.model,
        versions={"harness-conformance": __version__},
        key_digest=hashlib.sha256(source.key.encode()).hexdigest(),
        purpose=source.session.purpose,
        requirements=requirements,
        started_at=now,
        ended_at=now,
        ending=Ending(how="finished"),
    )
    return Evidence(manifest, calls)


def broken(evidence: Evidence, *, requirements: str | None = None) -> tuple[Finding, ...]:
    """The findings of every MUST that the evidence breaks, by the newest released set or the one named; empty if it breaks none.

    What was captured without a trial is not judged by the families that are about one. A check of ours that breaks raises RuntimeError.
    Raises CountsForNothing, so that a test in which nothing was captured cannot pass.
    """
    verdict = validity(evidence)
    if not verdict.valid:
        raise CountsForNothing(f"this evidence counts for nothing; to blame: {verdict.blame}: {verdict.reason}")
    left_out = frozenset[str]() if evidence.trial_result is not None else OF_A_TRIAL
    judgements = [each for each in judge(evidence, load_catalogue(requirements)) if each.requirement.family not in left_out]
    if errors := [f"{each.requirement.id}: {each.reason}" for each in judgements if each.result == "error"]:
        raise RuntimeError("; ".join(errors))
    failed = [each for each in judgements if each.result == "failed" and each.requirement.binding]
    return tuple(finding for each in failed for finding in each.findings)


class Rollouts:
    """Rollouts of seams in the local sandbox on the scripted engine; each seam and scenario is rolled out once."""

    def __init__(self, evidence_dir: Path) -> None:
        self.requirements = load_catalogue(None).version
        self._pool = RolloutPool(evidence_dir, run_id=uuid.uuid4().hex, requirements=self.requirements)

    def evidence(self, harness: str, scenario: str, *, seams: Path | None, scenarios: Path | None) -> Evidence:
        """The evidence of this rollout. Raises SeamError, ScenarioError, ProvisionError or NoRollout."""
        seam = SeamTable.load(*_folders(seams)).get(harness)
        asked = ScenarioTable.load(*_folders(scenarios))[scenario]
        if (reason := check()) is not None:
            raise NoRollout(reason)
        with ThreadPoolExecutor(1) as aside:  # a test that is a coroutine has a loop running in this thread, and a rollout has its own
            return aside.submit(self._pool.evidence, RolloutSpec(seam, "local", "scripted", asked)).result()[1]


def _folders(folder: Path | None) -> list[Path]:
    return [] if folder is None else [folder]
