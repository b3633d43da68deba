"""Writes the report in every form that it has, side by side in one folder."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytest_harness.evidence import Evidence
from pytest_harness.reports.badge import badge
from pytest_harness.reports.ctrf import ctrf
from pytest_harness.reports.html import page
from pytest_harness.reports.junit import junit
from pytest_harness.reports.markdown import matrix_page, seam_page
from pytest_harness.reports.model import Report, ReportedAttempt, ReportedSeam
from pytest_harness.reports.store import write_report
from pytest_harness.reports.summary import append_step_summary
from pytest_harness.textfile import write_text

PAGE = "index.html"
MATRIX = "matrix.md"
SEAM_PAGES = "pages"
CTRF = "ctrf.json"
JUNIT = "junit.xml"
BADGE = "badge.json"

EvidenceOf = Callable[[ReportedAttempt], Evidence | None]
"""The evidence of an attempt as it was judged; None where it is not there any more."""


def write_files(report: Report, folder: Path, evidence_of: EvidenceOf) -> Path:
    """Write all forms into ``folder``, and into the summary of a GitHub job where one runs us; the path of the JSON. Raises OSError."""
    written = write_report(report, folder)
    names = page_names(report)
    (folder / SEAM_PAGES).mkdir(exist_ok=True)
    for seam, name in zip(report.seams, names, strict=True):
        write_text(folder / SEAM_PAGES / name, seam_page(report, seam))
    by_seam = {id(seam): f"{SEAM_PAGES}/{name}" for seam, name in zip(report.seams, names, strict=True)}
    write_text(folder / MATRIX, matrix_page(report, lambda seam: by_seam[id(seam)]))
    write_text(folder / CTRF, _json(ctrf(report)))
    write_text(folder / JUNIT, junit(report))
    write_text(folder / BADGE, _json(badge(report)))
    write_text(folder / PAGE, page(report, evidence_of))
    with contextlib.suppress(OSError):  # that the job's page cannot be written is no reason to lose the report
        append_step_summary(report)
    return written


def page_names(report: Report) -> list[str]:
    """The name of each seam's page: ``pi-in-local.md``; of several that would be the same each has its number."""
    names: list[str] = []
    for seam in report.seams:
        stem = _stem(seam)
        number = sum(name == f"{stem}.md" or name.startswith(f"{stem}~") for name in names)
        names.append(f"{stem}~{number + 1}.md" if number else f"{stem}.md")
    return names


def _stem(seam: ReportedSeam) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", seam.name.lower()).strip("-.")[:100] or "seam"


def _json(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
