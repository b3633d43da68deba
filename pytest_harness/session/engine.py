"""A run that judges an engine endpoint. Registered as a plugin only when ``--llm-url`` was given."""

from __future__ import annotations

import datetime
import os
from typing import Any, ClassVar

import pytest

from pytest_harness.capture import UpstreamError
from pytest_harness.capture.probe import Probe, ProbeError, probe
from pytest_harness.capture.upstream import without_credentials
from pytest_harness.endpoint.asking import Endpoint
from pytest_harness.endpoint.deviations import in_range, no_longer_seen, read_deviations
from pytest_harness.endpoint.report import EngineReport
from pytest_harness.endpoint.subject import Subject
from pytest_harness.reports.cases import CaseReport, CaseResult
from pytest_harness.requirements import Subject as Kind
from pytest_harness.resources import resource
from pytest_harness.session.cases import CaseSession
from pytest_harness.wire.loading import AdapterError


class EngineSession(CaseSession):
    """The hooks of one such run."""

    kind: ClassVar[Kind] = "engine"
    option: ClassVar[str] = "llm_url"
    noun: ClassVar[str] = "engine"
    suite: ClassVar[str] = "engine"

    def load(self) -> None:
        """Probe the endpoint. Raises AdapterError."""
        model, key = self.config.getoption("harness_model"), _key(self.config)
        try:
            self.probe: Probe = probe(self.spec, model=model, api_key=key)
        except (ProbeError, UpstreamError) as error:
            raise AdapterError(f"--llm-url {without_credentials(self.spec)}: {error}") from None
        self.endpoint = Endpoint(self.spec, self.probe.model, key, self.probe.streams_ids)
        self.deviations = in_range(read_deviations(resource("conformance", "engine", "deviations.toml")), self.probe.version)

    def excuse(self, result: CaseResult) -> str | None:
        """A known deviation of the engine's version."""
        today = datetime.datetime.now(datetime.UTC).date()
        return next((each.sentence for each in self.deviations if each.excuses(result, today)), None)

    def subject(self) -> Subject:
        """The endpoint."""
        return Subject(self.endpoint, self.probe)

    def report_of(self, results: list[CaseResult]) -> CaseReport:
        """``engine.json``."""
        found = self.probe
        return EngineReport.of(
            self.catalogue,
            results,
            {"engine": found.version or "of unknown version"},
            engine=self.spec,
            model=found.model,
            level=found.level,
            streamed=found.streamed.level,
            missing=found.whole.missing,
            logprobs=found.logprobs,
            may_train=found.speaks_against_training(self.spec),
            stale=self._stale(results),
        )

    def _stale(self, results: list[CaseResult]) -> tuple[str, ...]:
        gone = no_longer_seen(self.deviations, results)
        return tuple(f"{each.requirement}: the {each.sentence} is no longer seen; remove it for this version" for each in gone)

    def shown(self, exchanges: list[dict[str, Any]]) -> list[str]:
        """The last request and its reply."""
        lines = []
        for exchange in exchanges[-1:]:
            lines += [f"  request   {exchange['request']}", f"            {exchange['request_body']}"]
            lines += [f"  reply     {exchange['status']}", f"            {exchange['reply_body']}"]
        return lines


def _key(config: pytest.Config) -> str | None:
    """The value of the variable that ``--llm-key-env`` names. Raises AdapterError."""
    variable: str | None = config.getoption("harness_llm_key_env")
    if variable is None:
        return None
    value = os.environ.get(variable)
    if not value:
        raise AdapterError(f"--llm-key-env names {variable}, and that variable is not set; set it to the key of the engine")
    return value
