"""The matrix on the terminal: a row a seam, a column a family, counts, the verdict."""

from __future__ import annotations

from collections.abc import Mapping

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pytest_harness.reports.model import Report, ReportedSeam
from pytest_harness.requirements import FAMILIES
from pytest_harness.verdict import Standing

STYLES = {"validated": "bold green", "untested": "yellow", "unstable": "bold red", "unsupported": "bold red", "blocked": "magenta"}
FAILING: tuple[Standing, ...] = ("failed", "unstable", "error")


def print_matrix(report: Report, console: Console) -> None:
    """Print the matrix, the verdict of each seam in a line of its own, and what ran of what was required."""
    families = [family for family in FAMILIES if any(family in seam.families for seam in report.seams)]
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), title="requirements met of those exercised", title_justify="left")
    table.add_column("seam")
    for family in families:
        table.add_column(family, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for seam in report.seams:
        cells = [cell(seam.families.get(family, {})) for family in families]
        table.add_row(_name(seam), *cells, Text(seam.status, STYLES[seam.status]))
    console.print(table)
    for seam in report.seams:
        verdict = f"{seam.status}: {seam.why}" if seam.why else seam.status
        console.print(f"{_name(seam)}: {_rollouts(seam)}, {_reward(seam)}; {verdict}", soft_wrap=True, highlight=False, markup=False)
    console.print(f"{report.ran} of {report.required} required checks ran", highlight=False)


def print_findings(report: Report, console: Console) -> None:
    """Print what was found wrong, requirement by requirement, each with the command that judges it again."""
    for seam in report.seams:
        for attempt in seam.attempts:
            if not attempt.valid:
                _line(console, f"{attempt.name} counts for nothing; to blame: {attempt.blame}: {attempt.reason}", "magenta")
        for requirement in seam.requirements:
            if requirement.standing in FAILING:
                _line(console, f"{requirement.id} {requirement.title} ({requirement.level}): {requirement.statement}", "red")
                for finding in requirement.findings:
                    _line(console, f"  {finding.attempt}: {finding.where}: expected {finding.expected}, seen {finding.seen}")
                    _line(console, f"    {finding.replay}")


def _line(console: Console, text: str, style: str = "") -> None:
    console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)


def cell(standings: Mapping[Standing, int]) -> Text:
    """One family of one seam: ``7/8``, red where one is broken, with ``d`` for known deviations; ``-`` where nothing was exercised."""
    broken = sum(standings.get(standing, 0) for standing in FAILING)
    deviations = standings.get("deviation", 0)
    passed = standings.get("passed", 0)
    exercised = broken + deviations + passed
    if not exercised:
        return Text("-", "dim")
    text = Text(f"{passed}/{exercised}", "red" if broken else "green")
    return text.append(f" {deviations}d", "yellow") if deviations else text


def _name(seam: ReportedSeam) -> str:
    return f"{seam.harness} in {seam.sandbox}"


def _rollouts(seam: ReportedSeam) -> str:
    valid = sum(attempt.valid for attempt in seam.attempts)
    count = len(seam.attempts)
    return f"{count} rollouts" if valid == count else f"{valid} of {count} rollouts valid"


def _reward(seam: ReportedSeam) -> str:
    return "no reward" if seam.mean_reward is None else f"mean reward {seam.mean_reward:.2f} of {seam.graded} graded"
