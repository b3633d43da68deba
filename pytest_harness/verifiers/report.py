"""What was found of one sandbox with its verifier: the document ``verifier.json``."""

from __future__ import annotations

from typing import ClassVar

from pytest_harness.reports.cases import CaseReport


class VerifierReport(CaseReport):
    """One run of the verifier suite."""

    kind: ClassVar[str] = "verifier"
    file: ClassVar[str] = "verifier.json"

    verifier: str
