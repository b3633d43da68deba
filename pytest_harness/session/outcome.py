"""Gives a judgement its place among pytest's outcomes.

A failed MUST and a broken check of ours are failures, save those of a draft. Everything that is neither a pass nor a failure is a
skip to pytest, with its reason, and is counted under its own name.
"""

from __future__ import annotations

import pytest

from pytest_harness.contract import Judgement
from pytest_harness.reports.build import replay_command
from pytest_harness.session.judged import Judged

CATEGORIES = {
    "not_exercised": ("not exercised", "-", "NOT EXERCISED"),
    "unverifiable": ("unverifiable", "u", "UNVERIFIABLE"),
    "deviation": ("known deviations", "d", "KNOWN DEVIATION"),
}
SHOULD_NOT_MET = ("SHOULDs not met", "w", "SHOULD NOT MET")
DRAFT_NOT_MET = ("drafts not met", "~", "DRAFT NOT MET")


def category_of(judgement: Judgement) -> tuple[str, str, str] | None:
    """Pytest's category, letter and word for the judgement; None where pytest's own are right."""
    if judgement.result in ("failed", "error") and judgement.requirement.draft:
        return DRAFT_NOT_MET
    if judgement.result == "failed" and judgement.requirement.level == "SHOULD":
        return SHOULD_NOT_MET
    return CATEGORIES.get(judgement.result)


def raise_outcome(judged: Judged, excuse: str | None = None) -> None:
    """Return for a pass, raise pytest's outcome for everything else. ``excuse``: why a failure is expected."""
    judgement = judged.judgement
    if judgement.result == "passed":
        return
    if judgement.result == "error" and not judgement.requirement.draft:
        pytest.fail(f"{judgement.requirement.id}: {judgement.reason}", pytrace=False)
    if judgement.result == "failed" and judgement.requirement.binding:
        if excuse is not None:
            pytest.xfail(f"{judgement.requirement.id}: {excuse}")
        pytest.fail(explain(judged), pytrace=False)
    pytest.skip(judgement.reason or "; ".join(str(finding) for finding in judgement.findings))


MOST_FINDINGS = 5
"""So many of one test are printed; the report has all."""


def explain(judged: Judged) -> str:
    """The findings for people: what was expected, what was seen, where, why it matters, and how to see it again."""
    findings = judged.judgement.findings
    requirement = judged.judgement.requirement
    lines = [f"{requirement.id} {requirement.title} ({requirement.level}): {requirement.statement}"]
    for finding in findings[:MOST_FINDINGS]:
        lines += [f"  {finding.where}", f"    expected  {finding.expected}", f"    seen      {finding.seen}"]
    if len(findings) > MOST_FINDINGS:
        lines += [f"  and {len(findings) - MOST_FINDINGS} more, in the report"]
    lines += [f"  why: {requirement.why}", f"  replay: {replay_command(judged.folder, requirement.id, judged.sabotage)}"]
    return "\n".join(lines)
