"""The terminal: what it prints has a bound, however much was found."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from pytest_harness.contract import Finding
from pytest_harness.reports.build import build_report
from pytest_harness.reports.terminal import MOST, print_findings, print_matrix, print_remarks
from pytest_harness.requirements import load_catalogue
from pytest_harness.verdict import Rollout, seam_verdict

CATALOGUE = load_catalogue("2026.11")


@pytest.fixture
def report_of(healthy):
    """The report of one rollout, in which the judgement of one requirement is changed, or taken for that of many."""

    def make(name, change):
        rollout = Rollout.of(healthy.pi(), CATALOGUE)
        changed = []
        for judgement in rollout.judgements:
            changed += change(judgement) if judgement.requirement.id == name else [judgement]
        verdict = seam_verdict([replace(rollout, judgements=tuple(changed))], CATALOGUE)
        folders = {rollout.manifest.attempt_id: Path("evidence")}
        return build_report((verdict,), catalogue=CATALOGUE, run_id="run", folders=folders)

    return make


def printed(report):
    text = io.StringIO()
    console = Console(file=text, width=160)
    for part in (print_findings, print_remarks, print_matrix):
        part(report, console)
    return text.getvalue()


def findings(count):
    return tuple(Finding("LGP-003", number, "a number", "nan", f"calls.ndjson line {number + 1}") for number in range(count))


@pytest.mark.parametrize(
    ("count", "told"), [(MOST, None), (MOST + 1, "  and 1 more, in the report"), (5000, "  and 4990 more, in the report")]
)
def test_of_a_requirement_so_many_findings_are_printed_and_the_rest_is_counted(report_of, count, told):
    report = report_of("LGP-003", lambda judgement: [replace(judgement, result="failed", findings=findings(count))])
    lines = printed(report).splitlines()
    assert sum("seen nan" in line for line in lines) == MOST
    assert [line for line in lines if "more, in the report" in line] == ([told] if told else [])
    (requirement,) = [each for each in report.seams[0].requirements if each.id == "LGP-003"]
    assert len(requirement.findings) == count


def test_of_many_reasons_so_many_are_printed_and_the_rest_is_counted(report_of):
    report = report_of(
        "LGP-003", lambda judgement: [replace(judgement, result="unverifiable", reason=f"reason {number}.") for number in range(5000)]
    )
    (line,) = [line for line in printed(report).splitlines() if "did not run: LGP-003" in line]
    assert line.count("reason ") == MOST
    assert line.endswith("; and 4990 more reasons, in the report")
