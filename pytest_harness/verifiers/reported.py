"""A trial of the verifier suite as evidence, and what the reports make of its reward."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pytest_harness.contract.grading import RESULT, REWARD_JSON, REWARD_TEXT, Grade, recorded_choice
from pytest_harness.evidence import Call, Ending, Evidence, Manifest, Message, ScenarioFacts, SeamFacts, Times
from pytest_harness.reports.build import build_report
from pytest_harness.reports.html import page
from pytest_harness.reports.html.page import unpacked
from pytest_harness.reports.markdown import seam_page
from pytest_harness.reports.store import as_json
from pytest_harness.requirements import Catalogue
from pytest_harness.verdict import Rollout, seam_verdict

NO_REQUIREMENTS = Catalogue("none", ())
"""The reports are asked for the reward alone."""
SAID = "trial/verifier/test-stdout.txt"
"""What the verifier printed."""
_REPORT_DATA = re.compile(r'id="report-data">([^<]*)<')
_REWARD_COLUMN = 4


@dataclass(frozen=True)
class Told:
    """What is made of one reward, on the way from evidence to people."""

    grade: Grade
    of_json: Any
    of_html: Any
    of_markdown: str
    """The cell of the table."""
    graded: int
    """How many rewards of the seam count: 1 or 0."""
    mean: float | None


def evidence_of(sandbox: str, trial: Path, ending: Ending) -> Evidence:
    """The evidence of a trial by its folder. A call stands for those of the agent where it ran, since this agent makes none."""
    paths = {name: trial / name.removeprefix("trial/") for name in (RESULT, REWARD_JSON, REWARD_TEXT, SAID)}
    files = {name: path.read_text(encoding="utf-8", errors="replace") for name, path in paths.items() if path.is_file()}
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    manifest = Manifest(
        attempt_id="verifier",
        run_id="verifier",
        harness="acting",
        sandbox=sandbox,
        engine="none",
        scenario=ScenarioFacts(name="verifier", steps=0, shell_commands=(), reward=1.0),
        attempt=1,
        seam=SeamFacts(harness="acting", digest="0" * 64, dialect="chat", streams=False, trajectory="none"),
        model="none",
        versions={"harness": "1", "harbor": version("harbor")},
        requirements=NO_REQUIREMENTS.version,
        started_at=now,
        ended_at=now,
        ending=ending,
    )
    bare = Evidence(manifest, (), files)
    ran = (bare.trial_result or {}).get("agent_execution")
    calls = (_stand_in(),) if ran else ()
    return Evidence(manifest.model_copy(update={"reward": recorded_choice(bare)}), calls, files)


def told_in_reports(evidence: Evidence) -> Told:
    """The reward in each form of the report."""
    rollout = Rollout.of(evidence, NO_REQUIREMENTS)
    verdict = seam_verdict([rollout], NO_REQUIREMENTS)
    report = build_report(
        (verdict,), catalogue=NO_REQUIREMENTS, run_id="verifier", folders={evidence.manifest.attempt_id: Path("verifier")}
    )
    match = _REPORT_DATA.search(page(report, lambda _: None))
    assert match is not None
    seam = type(report).model_validate_json(as_json(report)).seams[0]
    table = seam_page(report, report.seams[0]).partition("| scenario")[2].splitlines()
    return Told(
        grade=rollout.grade,
        of_json=seam.attempts[0].reward,
        of_html=unpacked(match[1])["report"]["seams"][0]["attempts"][0]["reward"],
        of_markdown=table[2].strip("| ").split("|")[_REWARD_COLUMN].strip(),
        graded=seam.graded,
        mean=seam.mean_reward,
    )


def _stand_in() -> Call:
    message = Message(headers={}, body="{}")
    reply = message.model_copy(update={"status": 200})
    return Call(
        index=0,
        id="stand-in",
        dialect="chat",
        method="POST",
        path="/v1/chat/completions",
        streamed=False,
        received=message,
        forwarded=message,
        replied=reply,
        delivered=reply,
        outcome="complete",
        times=Times(received=0.0),
    )
