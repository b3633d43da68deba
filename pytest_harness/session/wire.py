"""A run that judges a capture proxy. Registered as a plugin only when ``--proxy`` was given."""

from __future__ import annotations

from typing import Any, ClassVar

from pytest_harness.reports.cases import CaseReport, CaseResult
from pytest_harness.requirements import Subject as Kind
from pytest_harness.session.cases import CaseSession
from pytest_harness.wire.adapter import load_adapter
from pytest_harness.wire.report import ProxyReport
from pytest_harness.wire.subject import Subject


class WireSession(CaseSession):
    """The hooks of one such run."""

    kind: ClassVar[Kind] = "proxy"
    option: ClassVar[str] = "proxy"
    noun: ClassVar[str] = "capture proxy"
    suite: ClassVar[str] = "wire"

    def load(self) -> None:
        """Make the adapter. Raises AdapterError."""
        self.adapter = load_adapter(self.spec)

    def subject(self) -> Subject:
        """The proxy."""
        return Subject(self.adapter)

    def report_of(self, results: list[CaseResult]) -> CaseReport:
        """``wire.json``."""
        adapter, versions = self.adapter, self.told_versions(self.adapter.versions)
        return ProxyReport.of(self.catalogue, results, versions, proxy=self.spec, dialects=tuple(sorted(adapter.dialects)))

    def shown(self, exchanges: list[dict[str, Any]]) -> list[str]:
        """The last request and its reply."""
        lines = []
        for exchange in exchanges[-1:]:
            lines += [f"  request   {exchange['request']}", f"            {exchange['request_body']}"]
            lines += [f"  reply     {exchange['status']}", f"            {exchange['reply_body']}"]
        return lines
