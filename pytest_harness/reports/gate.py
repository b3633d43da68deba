"""The gate of a run: which failures are expected, until when, and what a seam must be for the run to be green.

An expected failure changes no verdict: the seam stays what it is, only the run is not red because of it. It is expected by an entry of the
user's file, or because the seam's row says that it is known. An entry that is stale or has expired makes the run red itself, so that the
file and the row say what is so and no more.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pytest_harness.evidence import known_failure
from pytest_harness.reports.counts import is_binding, is_broken, is_excused, verdict_of
from pytest_harness.reports.model import Report, ReportedRequirement, ReportedSeam
from pytest_harness.requirements import Catalogue, RequirementsError
from pytest_harness.textfile import TextFileError, read_toml

REQUIRABLE = ("validated",)
"""What ``--require`` may ask of every seam."""
_KEY = re.compile(r"(?P<seam>[^\s:]+):(?P<requirement>[A-Z]{3}-\d{3})")


class GateError(Exception):
    """A file of expected failures, or a demand, that cannot be used; one sentence for each fault, with the entry and what to do."""


class Expected(BaseModel):
    """One expected failure."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    reason: Annotated[str, Field(min_length=1)]
    link: Annotated[str, Field(pattern=r"^https?://\S+$")]
    expires: datetime.date
    """The last day on which it excuses anything."""
    flaky: bool = False
    """Whether it fails in some runs only, so that a run in which it holds does not make the entry stale."""

    @property
    def told(self) -> str:
        """For people."""
        return f"expected failure until {self.expires}: {self.reason} ({self.link})"


@dataclass(frozen=True)
class Key:
    """What an entry is of: ``pi:PAR-006``, or in one sandbox alone ``pi-in-docker:PAR-006``."""

    harness: str
    sandbox: str | None
    requirement: str

    def is_of(self, harness: str, sandbox: str) -> bool:
        """Whether it is of this seam."""
        return self.harness == harness and self.sandbox in (None, sandbox)

    def __str__(self) -> str:
        place = "" if self.sandbox is None else f"-in-{self.sandbox}"
        return f"{self.harness}{place}:{self.requirement}"


@dataclass(frozen=True)
class Gate:
    """What a run is held to."""

    entries: Mapping[Key, Expected]
    where: str = ""
    """What to call the file of the entries."""
    require: str | None = None

    @classmethod
    def read(cls, path: Path | None, require: str | None, *, harnesses: Collection[str], catalogue: Catalogue) -> Gate:
        """The gate of these options; ``harnesses`` are the known ones. Raises GateError."""
        if require is not None and require not in REQUIRABLE:
            raise GateError(f"--require {require!r}: what can be required is {', '.join(REQUIRABLE)}")
        if path is None:
            return cls({}, require=require)
        try:
            tables = read_toml(path)
        except TextFileError as error:
            raise GateError(f"--expected-failures: {error}") from None
        entries: dict[Key, Expected] = {}
        faults: list[str] = []
        for name, table in tables.items():
            try:
                key = _key(name, harnesses, catalogue)
                entries[key] = Expected.model_validate(table)
            except GateError as error:
                faults.append(f"{path}: {error}")
            except ValidationError as error:
                faults += (f"{path}: {name}: {_fault(each['loc'], each['msg'])}" for each in error.errors())
        if faults:
            raise GateError("\n".join(faults))
        return cls(entries, str(path), require)

    def excuse(self, harness: str, sandbox: str, requirement: str, today: datetime.date) -> str | None:
        """Why a failure of this requirement is expected today; None if it is not."""
        for key, entry in self.entries.items():
            if key.requirement == requirement and key.is_of(harness, sandbox) and today <= entry.expires:
                return entry.told
        return None

    def settle(self, report: Report, today: datetime.date) -> Settled:
        """Hold a report against the gate."""
        marked = report.model_copy(update={"seams": tuple(self._marked(seam, today) for seam in report.seams)})
        excused = [
            f"{seam.name}: {each.id} {each.title}: {each.expected}" for seam in marked.seams for each in seam.requirements if each.expected
        ]
        complaints = [*self._about_entries(report, today), *_about_rows(report), *self._about_seams(marked)]
        return Settled(marked, tuple(excused), tuple(complaints))

    def _marked(self, seam: ReportedSeam, today: datetime.date) -> ReportedSeam:
        def marked(requirement: ReportedRequirement) -> ReportedRequirement:
            excuse = self.excuse(seam.harness, seam.sandbox, requirement.id, today) or _known(seam, requirement)
            if not excuse or requirement.standing not in ("failed", "unstable") or not is_binding(requirement):
                return requirement
            return requirement.model_copy(update={"expected": excuse, "reasons": (*requirement.reasons, excuse)})

        return seam.model_copy(update={"requirements": tuple(map(marked, seam.requirements))})

    def _about_entries(self, report: Report, today: datetime.date) -> list[str]:
        said = []
        for key, entry in self.entries.items():
            if today > entry.expires:
                said.append(f"{self.where}: {key} expired on {entry.expires}; look at {entry.link} again, then renew or remove it")
            elif not entry.flaky and (seams := _held_in(key, report)):
                said.append(f"{self.where}: {key} is stale, as it does not fail in {', '.join(seams)}; remove it")
        return said

    def _about_seams(self, report: Report) -> list[str]:
        if self.require is not None and not report.seams:
            return [f"--require {self.require}: nothing was judged"]
        if self.require is not None:
            return [f"--require {self.require}: {each.name} is {verdict_of(each)}" for each in report.seams if each.status != self.require]
        return []


OPEN = Gate({})
"""Excuses nothing and asks for nothing beside the verdicts."""


@dataclass(frozen=True)
class Settled:
    """A report held against a gate."""

    report: Report
    """The same report, in which what is excused says so."""
    excused: tuple[str, ...]
    complaints: tuple[str, ...]
    """What makes the run red beside the seams themselves."""

    @property
    def ok(self) -> bool:
        """Whether the run is green."""
        return not self.complaints and all(seam.status in ("validated", "untested") or is_excused(seam) for seam in self.report.seams)


def _held_in(key: Key, report: Report) -> list[str]:
    """The seams of an entry if all of them came to the requirement, in every scenario of theirs, and none broke it."""
    seams = [seam for seam in report.seams if key.is_of(seam.harness, seam.sandbox)]
    for seam in seams:
        ran = {attempt.scenario for attempt in seam.attempts if attempt.valid}
        standing = next((each for each in seam.requirements if each.id == key.requirement), None)
        if not seam.scenarios or not ran.issuperset(seam.scenarios) or standing is None:
            return []
        if is_broken(standing) or standing.standing not in ("passed", "deviation"):
            return []
    return [seam.name for seam in seams]


def _known(seam: ReportedSeam, requirement: ReportedRequirement) -> str | None:
    """Why its row says that this requirement fails, if that is said of every scenario in which it does. What a known deviation excuses in
    another scenario has findings too."""
    failed = {attempt.id: attempt.scenario for attempt in seam.attempts if requirement.id not in attempt.results.get("deviation", ())}
    failed_in = dict.fromkeys(failed[finding.attempt_id] for finding in requirement.findings if finding.attempt_id in failed)
    reasons = [known_failure(seam.known_failures, requirement.id, scenario) for scenario in failed_in]
    return "; ".join(dict.fromkeys(filter(None, reasons))) if all(reasons) else None


def _about_rows(report: Report) -> list[str]:
    """What rows call known, and no attempt of a scenario showed."""
    said = []
    for seam in report.seams:
        for entry in seam.known_failures:
            if entry.flaky:
                continue
            held = [scenario for scenario in entry.scenarios or seam.scenarios if _holds(seam, entry.requirement, scenario)]
            if held and (entry.scenarios or len(held) == len(seam.scenarios)):
                said.append(f"{seam.name}: the known failure {entry.requirement} no longer occurs in {', '.join(held)}; correct the row")
    return said


def _holds(seam: ReportedSeam, requirement: str, scenario: str) -> bool:
    """Whether every valid attempt of the scenario met the requirement, and there is one."""
    attempts = [attempt for attempt in seam.attempts if attempt.scenario == scenario and attempt.valid]
    return bool(attempts) and all(requirement in attempt.results.get("passed", ()) for attempt in attempts)


def _key(name: str, harnesses: Collection[str], catalogue: Catalogue) -> Key:
    found = _KEY.fullmatch(name)
    if found is None:
        raise GateError(f"{name!r} names no failure; write seam:requirement, such as ['pi:PAR-006'] or ['pi-in-docker:PAR-006']")
    harness, sandbox = found["seam"], None
    if harness not in harnesses:
        harness, _, sandbox = found["seam"].rpartition("-in-")
    if harness not in harnesses:
        raise GateError(f"{name}: there is no harness {found['seam']!r}; correct the name or remove the entry")
    try:
        requirement = catalogue[found["requirement"]]
    except RequirementsError as error:
        raise GateError(f"{name}: {error}; correct it or remove the entry") from None
    if not requirement.binding:
        kind = "a draft" if requirement.draft else f"a {requirement.level}"
        raise GateError(f"{name}: {requirement.id} is {kind}, which makes no run red; remove the entry")
    return Key(harness, sandbox, requirement.id)


def _fault(place: tuple[int | str, ...], message: str) -> str:
    key = ".".join(map(str, place))
    return f"{key}: {message}; an entry has reason, link, expires (a date), and may have flaky" if key else message
