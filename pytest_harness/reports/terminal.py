"""The matrix on the terminal: a row a seam, a column a family, counts, the verdict."""

from __future__ import annotations

from collections.abc import Mapping

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pytest_harness.reports.counts import (
    Count,
    did_not_come_up,
    families_of,
    is_binding,
    is_broken,
    level_of,
    ran_of_required,
    rollouts_of,
    verdict_of,
)
from pytest_harness.reports.gate import Settled
from pytest_harness.reports.model import Report, ReportedRequirement
from pytest_harness.verdict import Standing

STYLES = {"validated": "bold green", "untested": "yellow", "unstable": "bold red", "unsupported": "bold red", "blocked": "magenta"}
MOST = 10
"""Of one requirement so many findings and so many reasons are printed; the report has all."""


def print_matrix(report: Report, console: Console) -> None:
    """Print the matrix, the verdict of each seam in a line of its own, and what ran of what was required."""
    families = families_of(report)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), title="requirements met of those exercised", title_justify="left")
    table.add_column("seam")
    for family in families:
        table.add_column(family, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for seam in report.seams:
        cells = [cell(seam.families.get(family, {})) for family in families]
        table.add_row(Text(seam.name), *cells, Text(seam.status, STYLES[seam.status]))
    console.print(table)
    if any("deviation" in standings for seam in report.seams for standings in seam.families.values()):
        _line(console, "d: broken by a known deviation, a fault of a named version of something else", "dim")
    if any(
        requirement.standing == "failed" and requirement.level == "SHOULD" and not requirement.draft
        for seam in report.seams
        for requirement in seam.requirements
    ):
        _line(console, "w: a SHOULD that is not met; it speaks against no verdict", "dim")
    for seam in report.seams:
        _line(console, f"{seam.name}: {rollouts_of(seam)}; {verdict_of(seam)}")
        open_musts = [each for each in seam.requirements if is_binding(each) and each.standing in ("not_exercised", "unverifiable")]
        if absent := [each.id for each in open_musts if did_not_come_up(each)]:
            _line(console, f"  did not come up, so not required: {', '.join(absent)}", "dim")
        open_musts = [each for each in open_musts if each.id not in absent]
        for requirement in open_musts:
            if requirement.results:
                _line(console, f"  did not run: {requirement.id} {requirement.title}: {_reasons(requirement)}", "dim")
        if (unjudged := sum(not requirement.results for requirement in open_musts)) > 0:
            _line(console, f"  did not run: {unjudged} that no test judged", "dim")
    _line(console, ran_of_required(report))


def print_findings(report: Report, console: Console) -> None:
    """Print what speaks against the seams, requirement by requirement, each with the command that judges it again."""
    for seam in report.seams:
        for attempt in seam.attempts:
            if not attempt.valid:
                _line(console, f"{attempt.name} counts for nothing; to blame: {attempt.blame}: {attempt.reason}", "magenta")
        for requirement in seam.requirements:
            if is_broken(requirement) and is_binding(requirement):
                _findings(console, requirement, "red", MOST)


def print_remarks(report: Report, console: Console) -> None:
    """Print what was found and speaks against no verdict: SHOULDs and drafts that are not met, and known deviations."""
    for seam in report.seams:
        for requirement in seam.requirements:
            if is_broken(requirement) and not is_binding(requirement):
                _findings(console, requirement, "yellow", 1, f"{seam.name}: ")
            elif requirement.standing == "deviation":
                _line(console, f"{seam.name}: {requirement.id} {requirement.title}: {_reasons(requirement)}", "yellow")


def print_settled(settled: Settled, console: Console) -> None:
    """Print which failures were expected, and what makes the run red beside the seams."""
    for sentence in settled.excused:
        _line(console, sentence, "yellow")
    for sentence in settled.complaints:
        _line(console, f"GATE: {sentence}", "bold red")


def _findings(console: Console, requirement: ReportedRequirement, style: str, most: int, prefix: str = "") -> None:
    _line(console, f"{prefix}{requirement.id} {requirement.title} ({level_of(requirement)}): {requirement.statement}", style)
    for finding in requirement.findings[:most]:
        _line(console, f"  {finding.attempt}: {finding.where}: expected {finding.expected}, seen {finding.seen}")
        _line(console, f"    {finding.replay}")
    if (more := len(requirement.findings) - most) > 0:
        _line(console, f"  and {more} more, in the report")


def _reasons(requirement: ReportedRequirement) -> str:
    more = len(requirement.reasons) - MOST
    return "; ".join([*requirement.reasons[:MOST], *([f"and {more} more reasons, in the report"] if more > 0 else [])])


def _line(console: Console, text: str, style: str = "") -> None:
    console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)


def cell(standings: Mapping[Standing, int]) -> Text:
    """One family of one seam: ``7/8``, red where one is broken, with ``d`` for known deviations; ``-`` where nothing was exercised."""
    count = Count.of(standings)
    if not count.exercised:
        return Text(str(count), "dim")
    met, _, deviations = str(count).partition(" ")
    text = Text(met, "red" if count.broken else "green")
    return text.append(f" {deviations}", "yellow") if deviations else text
