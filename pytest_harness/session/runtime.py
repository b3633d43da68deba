"""A run that judges a white-box runtime. Registered as a plugin only when ``--runtime`` was given."""

from __future__ import annotations

from typing import Any, ClassVar

from pytest_harness.reports.cases import CaseReport, CaseResult
from pytest_harness.requirements import Subject as Kind
from pytest_harness.runtimes.adapter import load_adapter
from pytest_harness.runtimes.report import RuntimeReport
from pytest_harness.runtimes.subject import Subject
from pytest_harness.session.cases import CaseSession


class RuntimeSession(CaseSession):
    """The hooks of one such run."""

    kind: ClassVar[Kind] = "runtime"
    option: ClassVar[str] = "runtime"
    noun: ClassVar[str] = "white-box runtime"
    suite: ClassVar[str] = "runtime"

    def load(self) -> None:
        """Make the adapter. Raises AdapterError."""
        self.adapter = load_adapter(self.spec)

    def subject(self) -> Subject:
        """The runtime."""
        return Subject(self.adapter)

    def report_of(self, results: list[CaseResult]) -> CaseReport:
        """``runtime.json``."""
        return RuntimeReport.of(self.catalogue, results, self.told_versions(self.adapter.versions), runtime=self.spec)

    def shown(self, exchanges: list[dict[str, Any]]) -> list[str]:
        """The last episode, a message a line."""
        return [f"  {role:9} {line}" for exchange in exchanges[-1:] for role, line in exchange["lines"]]
