"""The report in the Common Test Report Format (https://ctrf.io), which dashboards and bots of several CI services read."""

from __future__ import annotations

import uuid
from collections import Counter
from datetime import datetime
from typing import Any

from pytest_harness.reports.entries import Entry, Outcome, entries, finding_text
from pytest_harness.reports.model import Report

SPEC = "0.0.0"
"""The version of the format, as its schema calls the first one."""
STATUS: dict[Outcome, str] = {"passed": "passed", "failed": "failed", "error": "failed", "skipped": "skipped", "noted": "other"}
STATUSES = ("passed", "failed", "skipped", "pending", "other")
MOST = 10
"""So many findings of one entry are told; the report as JSON has all."""


def ctrf(report: Report) -> dict[str, Any]:
    """The document. The format wants a duration of each test; judging is not timed, so each says 0 and the run says when it was."""
    listed = list(entries(report))
    counts = Counter(STATUS[entry.outcome] for entry in listed)
    starts = [_milliseconds(attempt.started_at) for seam in report.seams for attempt in seam.attempts]
    written = _milliseconds(report.written_at)
    name = f"harness-conformance:{report.run_id}:{report.written_at}".encode(errors="backslashreplace").decode()
    return {
        "reportFormat": "CTRF",
        "specVersion": SPEC,
        "reportId": str(uuid.uuid5(uuid.NAMESPACE_URL, name)),
        "timestamp": report.written_at,
        "generatedBy": f"harness-conformance {report.harness_conformance}",
        "results": {
            "tool": {"name": "harness-conformance", "version": report.harness_conformance},
            "summary": {
                "tests": len(listed),
                **{status: counts[status] for status in STATUSES},
                "suites": len(report.seams),
                "start": min((start for start in starts if start is not None), default=written) or 0,
                "stop": written or 0,
                "extra": {"requirementSet": report.requirement_set, "required": report.required, "ran": report.ran, "ok": report.ok},
            },
            "tests": [_test(entry) for entry in listed],
        },
        "extra": {"runId": report.run_id, "sabotage": report.sabotage},
    }


def _test(entry: Entry) -> dict[str, Any]:
    findings = () if entry.requirement is None else entry.requirement.findings
    test: dict[str, Any] = {
        "name": entry.name,
        "status": STATUS[entry.outcome],
        "rawStatus": entry.said,
        "duration": 0,
        "suite": [entry.seam.name],
        "labels": entry.labels,
    }
    if entry.message:
        test["message"] = entry.message
    if findings:
        test["trace"] = "\n".join(finding_text(finding) for finding in findings[:MOST])
    return test


def _milliseconds(moment: str) -> int | None:
    try:
        return round(datetime.fromisoformat(moment).timestamp() * 1000)
    except ValueError:
        return None
