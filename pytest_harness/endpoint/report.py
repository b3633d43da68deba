"""What was found of one engine: the document ``engine.json``."""

from __future__ import annotations

from typing import ClassVar

from pytest_harness.capture.probe import Level, LogprobMode
from pytest_harness.reports.cases import CaseReport
from pytest_harness.reports.counts import FAILING


class EngineReport(CaseReport):
    """One run of the engine suite."""

    kind: ClassVar[str] = "engine"
    file: ClassVar[str] = "engine.json"

    engine: str
    """Its URL."""
    model: str
    level: Level
    """The highest that its whole replies reach; only ``tokens`` may train."""
    streamed: Level
    """The same of its streams."""
    missing: tuple[str, ...]
    """What whole replies lack for the level ``tokens``."""
    logprobs: LogprobMode
    may_train: str | None
    """Why it may not be a source of training tokens, in one sentence; None if the probe found nothing that speaks against it."""
    stale: tuple[str, ...] = ()
    """Known deviations of its version that are no longer seen."""

    @property
    def headline(self) -> str:
        """The outcome in one line."""
        broken = [entry.id for entry in self.requirements if entry.level == "MUST" and not entry.draft and entry.standing in FAILING]
        against = "; ".join(filter(None, (f"it breaks {', '.join(broken)}" if broken else None, self.may_train)))
        verdict = f"not for training: {against}" if against else "nothing speaks against training with it"
        streamed = "" if self.streamed == self.level else f" (streamed: {self.streamed})"
        return "\n".join((f"{self.model}: level {self.level}{streamed}, logprobs {self.logprobs}; {verdict}", *self.stale))
