"""The report on disk."""

from __future__ import annotations

from pathlib import Path

from pytest_harness.reports.model import Report

REPORT = "report.json"


def write_report(report: Report, folder: Path) -> Path:
    """Write the report as JSON into ``folder`` and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / REPORT
    path.write_text(report.model_dump_json(indent=1) + "\n", encoding="utf-8")
    return path
