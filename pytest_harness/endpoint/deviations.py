"""Known faults of named versions of engines: ``conformance/engine/deviations.toml``."""

from __future__ import annotations

import datetime
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from pytest_harness.evidence.model import Deviation
from pytest_harness.reports.cases import CaseResult
from pytest_harness.textfile import read_toml

OURS = frozenset({"scripted", "chance"})
"""The local part of the versions that our own engines tell, whose wire is vLLM's."""


class EngineDeviation(Deviation):
    """One that may be seen in some of a requirement's cases only."""

    scenarios: tuple[()] = ()
    """None: an engine is asked case by case."""
    mode: str = ""
    """What the name of the case contains."""

    def holds(self, subject: str, version: str) -> bool:
        """Whether this version of this engine has the fault."""
        try:
            return self.subject == subject and SpecifierSet(self.versions).contains(Version(version), prereleases=True)
        except InvalidVersion:
            return False

    def excuses(self, result: CaseResult, today: datetime.date) -> bool:
        """Whether a failure is this fault, and nobody has to look at it again."""
        alike = re.search(self.seen or "", result.seen) and self.mode in result.case
        return result.requirement == self.requirement and bool(alike) and today.isoformat() <= self.expires

    @property
    def sentence(self) -> str:
        """For people."""
        return f"known deviation of {self.subject} {self.versions}: {self.reason} ({self.link})"


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid")

    deviation: Annotated[tuple[EngineDeviation, ...], Field(min_length=1)]


def read_deviations(path: Path) -> tuple[EngineDeviation, ...]:
    """All that are known."""
    return TypeAdapter(_Document).validate_python(read_toml(path)).deviation


def in_range(deviations: Iterable[EngineDeviation], version: str | None) -> tuple[EngineDeviation, ...]:
    """Those of the engine that tells this version at ``/version``, as vLLM does."""
    if version is None or version.partition("+")[2] in OURS:
        return ()
    return tuple(deviation for deviation in deviations if deviation.holds("vllm", version))


def no_longer_seen(deviations: Iterable[EngineDeviation], results: Iterable[CaseResult]) -> list[EngineDeviation]:
    """Those whose requirement was met in every case that came to it, though they are said to be seen in every run."""
    judged: defaultdict[str, set[str]] = defaultdict(set)
    for each in results:
        judged[each.requirement].add(each.result)
    return [each for each in deviations if not each.flaky and judged[each.requirement] - {"not_exercised"} == {"passed"}]
