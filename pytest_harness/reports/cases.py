"""What tests of one subject (a proxy, a runtime) said of it, requirement by requirement: as a document, and as a row on the terminal."""

from __future__ import annotations

import datetime
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pytest_harness import __version__
from pytest_harness.reports.counts import FAILING
from pytest_harness.reports.store import write_document
from pytest_harness.reports.terminal import cell
from pytest_harness.requirements import FAMILIES, Catalogue, Level, Requirement
from pytest_harness.verdict import Standing

PROPERTY = "harness-conformance-case"

Result = Literal["passed", "failed", "deviation", "not_exercised", "error"]


@dataclass
class CaseResult:
    """What one test said of one requirement, in a form that travels from an xdist worker to the controller."""

    requirement: str
    case: str
    result: Result = "passed"
    reason: str = ""
    expected: str = ""
    seen: str = ""
    exchanges: list[dict[str, Any]] = field(default_factory=list)

    def to_property(self) -> tuple[str, dict[str, Any]]:
        """As an entry of a test's ``user_properties``."""
        return PROPERTY, asdict(self)

    @classmethod
    def of_properties(cls, properties: Iterable[tuple[str, Any]]) -> CaseResult | None:
        """The result among a test's ``user_properties``, or None if it is of no requirement."""
        return next((cls(**value) for name, value in properties if name == PROPERTY), None)


class Part(BaseModel):
    """A part of the document."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class CaseFinding(Part):
    """A requirement broken in one case. ``exchanges`` are the last that passed between the suite and the subject."""

    case: str
    expected: str
    seen: str
    note: str
    exchanges: tuple[dict[str, Any], ...]


class CaseRequirement(Part):
    """How one requirement stands for the subject."""

    id: str
    title: str
    level: Level
    draft: bool
    statement: str
    why: str
    standing: Standing
    results: dict[Result, int]
    """How many cases gave each result."""
    reasons: tuple[str, ...]
    """Why cases were not exercised, which known deviations they are, and what failed of ours."""
    findings: tuple[CaseFinding, ...]


class CaseReport(Part):
    """One run. A subclass has the name of its subject in the field that ``kind`` names."""

    kind: ClassVar[str]
    file: ClassVar[str]
    """Where in the report folder it is written."""

    report_version: Literal[1] = 1
    harness_conformance: str
    requirement_set: str
    versions: dict[str, str]
    written_at: str
    required: int
    """MUSTs in the set."""
    ran: int
    """MUSTs of which at least one case was exercised."""
    ok: bool
    families: dict[str, dict[Standing, int]]
    requirements: tuple[CaseRequirement, ...]

    @classmethod
    def of(cls, catalogue: Catalogue, results: Iterable[CaseResult], versions: Mapping[str, str], **subject: Any) -> Self:
        """The report of these results; a requirement without any is not exercised. ``subject`` are the subclass's own fields."""
        by_requirement: defaultdict[str, list[CaseResult]] = defaultdict(list)
        for result in results:
            by_requirement[result.requirement].append(result)
        requirements = tuple(_requirement(each, by_requirement[each.id]) for each in catalogue)
        families: defaultdict[str, Counter[Standing]] = defaultdict(Counter)
        for entry in requirements:
            if not entry.draft:
                families[entry.id[:3]][entry.standing] += 1
        musts = [entry for entry in requirements if entry.level == "MUST" and not entry.draft]
        return cls(
            harness_conformance=__version__,
            requirement_set=catalogue.version,
            versions=dict(versions),
            written_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            required=len(musts),
            ran=sum(entry.standing not in ("not_exercised", "error") for entry in musts),
            ok=not any(entry.standing in FAILING for entry in musts),
            families={family: dict(families[family]) for family in FAMILIES if family in families},
            requirements=requirements,
            **subject,
        )

    @property
    def subject(self) -> str:
        """How the subject was named."""
        return str(getattr(self, self.kind))

    @property
    def headline(self) -> str | None:
        """What the run says of the subject as a whole, in one line, where there is more to say than the requirements do."""
        return None


def _requirement(requirement: Requirement, results: list[CaseResult]) -> CaseRequirement:
    counts: Counter[Result] = Counter(result.result for result in results)
    order: tuple[Result, ...] = ("failed", "error", "deviation", "passed")
    standing: Standing = next((result for result in order if counts[result]), "not_exercised")
    return CaseRequirement(
        id=requirement.id,
        title=requirement.title,
        level=requirement.level,
        draft=requirement.draft,
        statement=requirement.statement,
        why=requirement.why,
        standing=standing,
        results=dict(counts),
        reasons=tuple(dict.fromkeys(result.reason for result in results if result.result in ("not_exercised", "deviation", "error"))),
        findings=tuple(
            CaseFinding(case=each.case, expected=each.expected, seen=each.seen, note=each.reason, exchanges=tuple(each.exchanges))
            for each in results
            if each.result in ("failed", "deviation")
        ),
    )


def write_report(report: CaseReport, folder: Path) -> Path:
    """Write the report as JSON into ``folder`` and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / report.file
    write_document(report, path)
    return path


def print_report(report: CaseReport, console: Console) -> None:
    """Print the row, then a line for each requirement that is broken, with its first finding."""
    if report.families:  # a set may hold only drafts for a subject
        console.print(_row(report))
    for entry in report.requirements:
        if entry.standing == "failed":
            first, more = entry.findings[0], len(entry.findings) - 1
            others = f" (and {more} more)" if more else ""
            level = f"{entry.level}, a draft that is not scored" if entry.draft else entry.level
            line = f"{entry.id} {entry.title} ({level}): {first.case}: expected {first.expected}, seen {first.seen}{others}"
            console.print(line, style="red" if level == "MUST" else "yellow", highlight=False, markup=False, soft_wrap=True)
        elif entry.standing == "deviation":
            console.print(
                f"{entry.id} {entry.title}: {'; '.join(entry.reasons)}", style="yellow", highlight=False, markup=False, soft_wrap=True
            )
        elif entry.standing == "error":
            console.print(f"{entry.id} {entry.title}: the suite or the adapter failed", style="magenta", highlight=False, markup=False)
    unexercised = [entry.id for entry in report.requirements if entry.standing == "not_exercised"]
    if unexercised:
        console.print(f"not exercised: {', '.join(unexercised)}", highlight=False, soft_wrap=True)
    if report.headline is not None:
        console.print(report.headline, highlight=False, markup=False, soft_wrap=True)
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    console.print(f"{versions}: {report.ran} of {report.required} required checks ran", highlight=False, markup=False)


def _row(report: CaseReport) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), title="requirements met of those exercised", title_justify="left")
    table.add_column(report.kind)
    for family in report.families:
        table.add_column(family, justify="right", no_wrap=True)
    table.add_row(Text(report.subject), *(cell(standings) for standings in report.families.values()))
    return table
