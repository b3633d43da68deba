"""The published reports: what a folder of them holds, and the pages that are made of it.

``seams/<harness>-in-<sandbox>.json`` is the report of one seam, as a run writes it. Everything else is made of these and of the seam table,
so that it can be made again, and compared, without any evidence:

    matrix.json  matrix.md        every row of the table, judged or not, and every harness that is known and not run
    seams/*.md                    a page for each report
    README.md                     the table between the two markers
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from pytest_harness.places import EVIDENCE_DIR
from pytest_harness.reports.counts import engines_of, is_binding, rollouts_of, verdict_of
from pytest_harness.reports.markdown import LEGEND, matrix_table, seam_page, table, text
from pytest_harness.reports.model import Part, Report, ReportedSeam
from pytest_harness.reports.store import NoReportError, as_json, load_report
from pytest_harness.seams import Seam, SeamTable
from pytest_harness.verdict import Standing, Status

SEAMS = "seams"
MATRIX = "matrix"
BEGIN = "<!-- the matrix: made by harness-conformance publish, not by hand -->"
END = "<!-- the end of the matrix -->"

INTRODUCTION = (
    "What was found when the real programs ran, one rollout after another, on one machine. Each name leads to the report of its seam: "
    "every requirement, what was seen where one is broken, and the command that shows it again. No verdict was written by hand: each is "
    "computed from the evidence of these runs."
)


class PublishError(Exception):
    """Published reports, or evidence to be published, that cannot be used; the message says which, why, and what to do."""


class MatrixRow(Part):
    """One row of the seam table in one sandbox, or a row of which nothing is published."""

    harness: str
    title: str
    sandbox: str | None
    """Where it ran; null where nothing is published, and so is everything that only a run tells."""
    version: str | None
    row: str
    """SHA-256 of its row in the seam table."""
    dialect: str
    status: Status
    why: str
    required: int | None
    ran: int | None
    met: int | None
    """Of those that ran, how many are met; what is neither met nor broken is a known deviation."""
    families: dict[str, dict[Standing, int]]
    engines: tuple[str, ...]
    rollouts: int
    last_attempt: str | None
    report: str | None
    """Its report, relative to the matrix."""


class NotRun(Part):
    """A harness that is known and that no row runs."""

    harness: str
    title: str
    status: str


class Matrix(Part):
    """Every row of the seam table, and what is known of it."""

    matrix_version: Literal[1] = 1
    requirement_set: str
    harness_conformance: tuple[str, ...]
    """The versions that judged."""
    seams: tuple[MatrixRow, ...]
    not_run: tuple[NotRun, ...]


def file_name(harness: str, sandbox: str) -> str:
    """What the files of a seam are called, without their suffix."""
    return f"{harness}-in-{sandbox}"


@dataclass(frozen=True)
class Published:
    """The reports of a folder by the names of their files, and the table that they are of."""

    reports: Mapping[str, Report]
    """Each of one seam."""
    seams: SeamTable
    requirement_set: str

    @classmethod
    def read(cls, folder: Path, seams: SeamTable, requirement_set: str) -> Published:
        """What is published in a folder; nothing if it is not there. Raises PublishError."""
        reports = {}
        for path in sorted((folder / SEAMS).glob("*.json")):
            report = read_report(path)
            seam = report.seams[0]
            if file_name(seam.harness, seam.sandbox) != path.stem:
                raise PublishError(f"{path} is the report of {seam.harness} in {seam.sandbox}; give it its name again, or remove it")
            reports[path.stem] = report
        return cls(reports, seams, requirement_set)

    @cached_property
    def matrix(self) -> Matrix:
        """The matrix over all rows."""
        rows = []
        for name in self.seams:
            judged = [seam for _, seam in self.judged if seam.harness == name]
            rows += [_judged_row(self.seams[name], seam) for seam in judged] or [_open_row(self.seams[name])]
        return Matrix(
            requirement_set=self.requirement_set,
            harness_conformance=tuple(sorted({report.harness_conformance for report in self.reports.values()})),
            seams=tuple(rows),
            not_run=tuple(NotRun(harness=each.name, title=each.title, status=each.status) for each in self.seams.unavailable),
        )

    @property
    def judged(self) -> Iterator[tuple[Report, ReportedSeam]]:
        """Each report with its seam, in the order of their files' names."""
        return ((report, report.seams[0]) for report in self.reports.values())

    def files(self) -> Iterator[tuple[str, str]]:
        """Everything that belongs into the folder: path below it, and text."""
        yield f"{MATRIX}.json", as_json(self.matrix)
        yield f"{MATRIX}.md", self.page()
        for name, report in self.reports.items():
            yield f"{SEAMS}/{name}.json", as_json(report)
            yield f"{SEAMS}/{name}.md", seam_page(report, report.seams[0]) + _again(report.seams[0])

    def page(self) -> str:
        """The matrix for people."""
        judged = tuple(seam for _, seam in self.judged)
        judges = ", ".join(self.matrix.harness_conformance)
        lines = [
            "# Conformance matrix",
            "",
            INTRODUCTION,
            "",
            f"Requirement set {self.requirement_set}, judged by harness-conformance {judges or 'nobody'}.",
            "",
            self.front(""),
            "",
        ]
        if judged:
            lines += ["## Requirements met of those exercised", "", LEGEND, "", self._families(judged), ""]
            lines += ["## What each verdict rests on", ""]
            lines += [*(f"- **{text(seam.name)}**: {rollouts_of(seam)}; {text(verdict_of(seam))}" for seam in judged), ""]
        if self.matrix.not_run:
            rows = [[text(each.title), text(each.status)] for each in self.matrix.not_run]
            lines += ["## Known, and not run", "", table(["harness", "why"], rows), ""]
        return "\n".join(lines).rstrip() + "\n"

    def _families(self, judged: tuple[ReportedSeam, ...]) -> str:
        first = next(iter(self.reports.values()))
        return matrix_table(first.model_copy(update={"seams": judged}), lambda seam: f"{SEAMS}/{file_name(seam.harness, seam.sandbox)}.md")

    def front(self, folder: str) -> str:
        """The table of all rows; ``folder`` is where the matrix lies as seen from the page that holds the table."""
        heads = ["harness", "version", "wire", "sandbox", "verdict", "MUSTs met", "put to the test", "engines", "rollouts", "last run"]
        return table(heads, [_cells(row, folder) for row in self.matrix.seams], right=(8,))

    def with_table(self, readme: str, folder: str, where: str) -> str:
        """The text of a README with the table between its markers made anew. Raises PublishError if it has no such place."""
        before, begin, rest = readme.partition(BEGIN)
        _, end, after = rest.partition(END)
        if not begin or not end:
            raise PublishError(f"{where} has no place for the table: put the lines {BEGIN} and {END} where it belongs")
        return f"{before}{BEGIN}\n\n{self.front(folder)}\n\n{END}{after}"


def read_report(path: Path) -> Report:
    """A published report, of one seam. Raises PublishError."""
    try:
        report = load_report(path)
    except NoReportError as error:
        raise PublishError(f"{error}; publish it again") from None
    if len(report.seams) != 1 or report.sabotage is not None:
        raise PublishError(f"{path} is not the honest report of one seam; publish it again")
    return report


def last_attempt(seams: Iterable[ReportedSeam]) -> str | None:
    """When the last of their attempts ended; None if there are none."""
    return max((attempt.ended_at for seam in seams for attempt in seam.attempts), default=None)


def _judged_row(row: Seam, seam: ReportedSeam) -> MatrixRow:
    return MatrixRow(
        harness=row.name,
        title=row.title,
        sandbox=seam.sandbox,
        version=seam.version or None,
        row=row.facts.digest,
        dialect=seam.dialect,
        status=seam.status,
        why=seam.why,
        required=seam.required,
        ran=seam.ran,
        met=sum(is_binding(each) and each.standing == "passed" for each in seam.requirements),
        families=seam.families,
        engines=engines_of([seam]),
        rollouts=len(seam.attempts),
        last_attempt=last_attempt([seam]),
        report=f"{SEAMS}/{file_name(seam.harness, seam.sandbox)}.json",
    )


def _open_row(row: Seam) -> MatrixRow:
    return MatrixRow(
        harness=row.name,
        title=row.title,
        sandbox=None,
        version=None,
        row=row.facts.digest,
        dialect=row.dialect,
        status="untested",
        why="no run of it is published",
        required=None,
        ran=None,
        met=None,
        families={},
        engines=(),
        rollouts=0,
        last_attempt=None,
        report=None,
    )


def _again(seam: ReportedSeam) -> str:
    """How a reader comes to evidence of their own, which the commands above judge."""
    engines = [engine for engine in engines_of([seam]) if engine != "scripted"]
    runs = [f"pytest --harness={seam.harness} --sandbox={seam.sandbox}{engine}" for engine in ("", *(f" --engine={e}" for e in engines))]
    return "\n".join(["", "## See it for yourself", "", "```", *runs, f"pytest --replay {EVIDENCE_DIR}/{seam.harness}", "```", ""])


def _cells(row: MatrixRow, folder: str) -> list[str]:
    name = text(row.title) if row.report is None else f"[{text(row.title)}]({folder}{row.report.removesuffix('.json')}.md)"
    return [
        name,
        text(row.version or "-"),
        row.dialect,
        text(row.sandbox or "-"),
        row.status,
        "-" if row.met is None else f"{row.met} of {row.ran}",
        "-" if row.ran is None else f"{row.ran} of {row.required}",
        text(", ".join(row.engines) or "-"),
        str(row.rollouts),
        "-" if row.last_attempt is None else row.last_attempt[:10],
    ]
