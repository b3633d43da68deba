"""What was found of one white-box runtime: the document ``runtime.json``."""

from __future__ import annotations

from typing import ClassVar

from pytest_harness.reports.cases import CaseReport


class RuntimeReport(CaseReport):
    """One run of the runtime suite."""

    kind: ClassVar[str] = "runtime"
    file: ClassVar[str] = "runtime.json"

    runtime: str
