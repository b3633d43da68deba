"""A run that judges a sandbox with its verifier. Registered as a plugin only when ``--verifier`` was given."""

from __future__ import annotations

import datetime
from importlib.metadata import version
from typing import Any, ClassVar

from pytest_harness.endpoint.deviations import read_deviations
from pytest_harness.reports.cases import CaseReport, CaseResult
from pytest_harness.requirements import Subject as Kind
from pytest_harness.resources import resource
from pytest_harness.session.cases import CaseSession
from pytest_harness.verifiers.boxes import box_of
from pytest_harness.verifiers.report import VerifierReport
from pytest_harness.verifiers.subject import Subject
from pytest_harness.wire.guarding import AdapterError


class VerifierSession(CaseSession):
    """The hooks of one such run."""

    kind: ClassVar[Kind] = "sandbox"
    option: ClassVar[str] = "verifier"
    noun: ClassVar[str] = "sandbox with its verifier"
    suite: ClassVar[str] = "verifier"

    def load(self) -> None:
        """Find the sandbox. Raises AdapterError."""
        sandboxes = self.config.getoption("harness_sandbox")
        if len(sandboxes) > 1:
            raise AdapterError(f"--verifier {self.spec}: one sandbox is judged at a time; run pytest once for each --sandbox")
        self.box = box_of(self.spec, sandboxes[0] if sandboxes else None)
        known = read_deviations(resource("conformance", "verifier", "deviations.toml"))
        self.deviations = [each for each in known if each.holds("harbor", version("harbor"))]

    def excuse(self, result: CaseResult) -> str | None:
        """A known deviation of the installed version of Harbor."""
        today = datetime.datetime.now(datetime.UTC).date()
        return next((each.sentence for each in self.deviations if each.excuses(result, today)), None)

    def subject(self) -> Subject:
        """The sandbox."""
        return Subject(self.spec, self.box)

    def report_of(self, results: list[CaseResult]) -> CaseReport:
        """``verifier.json``."""
        return VerifierReport.of(self.catalogue, results, {"harbor": version("harbor")}, verifier=self.spec)

    def shown(self, exchanges: list[dict[str, Any]]) -> list[str]:
        """What Harbor recorded of the trial."""
        return [f"  {name:9} {value}" for exchange in exchanges[-1:] for name, value in exchange.items()]
