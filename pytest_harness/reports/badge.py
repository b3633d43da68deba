"""The file behind a badge: what https://shields.io/badges/endpoint-badge reads from any URL that serves it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from pytest_harness.reports.model import Report
from pytest_harness.verdict import Status

COLORS: dict[Status, str] = {"unsupported": "red", "unstable": "red", "blocked": "orange", "untested": "yellow", "validated": "brightgreen"}
"""The worst first: the badge of several seams has the colour of the worst of them."""


def badge(report: Report) -> dict[str, Any]:
    """One seam by its name and verdict; of several, how many have which. A report of broken evidence is no news about any seam."""
    counts = Counter(seam.status for seam in report.seams)
    if report.sabotage is not None:
        label, message, color = "harness conformance", "sabotaged", "lightgrey"
    elif not counts:
        label, message, color = "harness conformance", "no seam", "lightgrey"
    else:
        single = len(report.seams) == 1
        label = report.seams[0].name if single else "harness conformance"
        message = report.seams[0].status if single else ", ".join(f"{counts[each]} {each}" for each in reversed(COLORS) if counts[each])
        color = next(color for status, color in COLORS.items() if counts[status])
    return {"schemaVersion": 1, "label": label, "message": message, "color": color}
