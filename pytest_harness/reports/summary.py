"""The matrix and what speaks against the seams on the page of a GitHub job, where one runs us."""

from __future__ import annotations

import os
from pathlib import Path

from pytest_harness.reports.counts import is_binding, is_broken
from pytest_harness.reports.markdown import code, matrix_page, text
from pytest_harness.reports.model import Report

VARIABLE = "GITHUB_STEP_SUMMARY"
LARGEST = 900_000
"""Bytes: GitHub refuses a step's summary of more than 1 MiB as a whole, and others may have written into it."""
MOST = 50
"""So many broken requirements are told."""


def step_summary(report: Report) -> str:
    """The text: the matrix, and for each broken MUST the first finding and the command that judges it again."""
    broken = [(seam, each) for seam in report.seams for each in seam.requirements if is_broken(each) and is_binding(each)]
    lines = []
    for seam, requirement in broken[:MOST]:
        lines += [f"### {text(seam.name)}: {requirement.id} {text(requirement.title)}", "", text(requirement.statement), ""]
        if requirement.findings:
            first = requirement.findings[0]
            lines += [f"{text(first.attempt)}, {text(first.where)}: expected {code(first.expected)}, seen {code(first.seen)}", ""]
            lines += [code(first.replay), ""]
        elif requirement.reasons:
            lines += [text(requirement.reasons[0]), ""]
    if len(broken) > MOST:
        lines += [f"And {len(broken) - MOST} more."]
    page = "\n".join([matrix_page(report), *(["## What speaks against them", "", *lines] if lines else [])])
    if len(page.encode(errors="backslashreplace")) <= LARGEST:
        return page.rstrip() + "\n"
    return f"The matrix of {len(report.seams)} seams is too large for this page; see the report.\n"


def append_step_summary(report: Report) -> Path | None:
    """Append it to the file that GitHub names, if it names one. Raises OSError."""
    name = os.environ.get(VARIABLE)
    if not name:
        return None
    path = Path(name)
    with path.open("a", encoding="utf-8", errors="backslashreplace") as file:
        file.write(step_summary(report))
    return path
