"""The report as Markdown: the matrix on one page, and a page for each seam.

Whatever came from a harness, an engine or a file is shown as what it is: nothing in it becomes markup, a link, or a break in a table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from pytest_harness.reports.counts import (
    Count,
    did_not_come_up,
    engines_of,
    families_of,
    is_binding,
    is_broken,
    level_of,
    ran_of_required,
    reward_of,
    rollouts_of,
    verdict_of,
)
from pytest_harness.reports.left_out import sentences
from pytest_harness.reports.model import Report, ReportedFinding, ReportedRequirement, ReportedSeam
from pytest_harness.requirements import FAMILIES

LONGEST = 2000
"""So many characters of what was expected or seen are shown; the report as JSON has all."""
MOST = 10
"""So many findings of one requirement are shown."""

LEGEND = (
    "`7/8`: of 8 requirements that were exercised 7 are met. `d`: broken by a known deviation, a fault of a named version of something "
    "else, which does not count against the seam. `-`: nothing was exercised."
)

Address = Callable[[ReportedSeam], str | None]
"""Where the page of a seam is, relative to the matrix; None where it has none."""


def _no_page(_: ReportedSeam) -> None:
    return None


def matrix_page(report: Report, address: Address = _no_page) -> str:
    """The whole report on one page: the matrix, and for each seam what its verdict rests on."""
    lines = [
        "# Conformance matrix",
        "",
        *_broken_on_purpose(report),
        f"By {_judged_by(report)}: {ran_of_required(report)}.",
        "",
        matrix_table(report, address),
        "",
        LEGEND,
        "",
        *(f"- **{text(seam.name)}**: {rollouts_of(seam)}; {text(verdict_of(seam))}" for seam in report.seams),
        *(f"- {text(sentence)}" for sentence in sentences(report.left_out)),
    ]
    return "\n".join(lines).rstrip() + "\n"


def matrix_table(report: Report, address: Address = _no_page) -> str:
    """The matrix alone: a row a seam, a column a family."""
    families = families_of(report)
    rows = []
    for seam in report.seams:
        page = address(seam)
        name = text(seam.name) if page is None else f"[{text(seam.name)}]({page})"
        rows.append([name, seam.status, *(str(Count.of(seam.families.get(family, {}))) for family in families)])
    return table(["seam", "verdict", *families], rows, right=range(2, 2 + len(families)))


def seam_page(report: Report, seam: ReportedSeam) -> str:
    """One seam on a page of its own: the verdict, what was found and how to see it again, every requirement, every attempt."""
    lines = [
        f"# {text(seam.name)}",
        "",
        *_broken_on_purpose(report),
        f"**{seam.status}**" + (f": {text(seam.why)}" if seam.why else ""),
        "",
        *_facts(report, seam),
        "",
        "## What was found",
        "",
        *_found(seam),
        "## Requirements",
        "",
        *_families(seam),
        "## Attempts",
        "",
        *_attempts(seam),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _broken_on_purpose(report: Report) -> list[str]:
    if report.sabotage is None:
        return []
    return [f"> The evidence was broken on purpose by the saboteur {code(report.sabotage)} before it was judged.", ""]


def _judged_by(report: Report) -> str:
    return f"requirement set {text(report.requirement_set)} of harness-conformance {text(report.harness_conformance)}"


def _facts(report: Report, seam: ReportedSeam) -> Iterable[str]:
    facts = {
        "Harness": f"{text(seam.harness)} {text(seam.version) or 'of unknown version'}, {seam.dialect}, row {code(seam.row[:12])}",
        "Sandbox": text(seam.sandbox),
        "Engines": text(", ".join(engines_of([seam]))) or "none",
        "Rollouts": rollouts_of(seam),
        "Mean reward": "none" if seam.mean_reward is None else f"{seam.mean_reward:g} over {seam.graded} that count",
        "Required checks": f"{seam.ran} of {seam.required} ran",
        "Judged by": _judged_by(report),
        "Last attempt": text(max((attempt.ended_at for attempt in seam.attempts), default="")) or "unknown",
    }
    return (f"- {name}: {fact}" for name, fact in facts.items())


def _found(seam: ReportedSeam) -> list[str]:
    lines = [
        f"- {text(attempt.name)} counts for nothing; to blame: {attempt.blame}: {text(attempt.reason)}"
        for attempt in seam.attempts
        if not attempt.valid
    ]
    lines += [f"- A known deviation no longer occurs: {text(stale)}" for stale in seam.stale_deviations]
    lines += [""] if lines else []
    broken = [each for each in seam.requirements if is_broken(each)]
    for requirement in sorted(broken, key=lambda each: not is_binding(each)):
        lines += [f"### {requirement.id} {text(requirement.title)} ({level_of(requirement)}, {requirement.standing})", ""]
        lines += [text(requirement.statement), "", f"*Why:* {text(requirement.why)}", "", *_findings(requirement)]
    deviations = [each for each in seam.requirements if each.standing == "deviation"]
    lines += [f"- {each.id} {text(each.title)}: {text('; '.join(each.reasons))}" for each in deviations]
    lines += [""] if deviations else []
    return lines or ["Nothing speaks against it.", ""]


def _findings(requirement: ReportedRequirement) -> list[str]:
    if not requirement.findings:
        return [f"- {text('; '.join(requirement.reasons))}", ""]
    lines = [line for finding in requirement.findings[:MOST] for line in _finding(finding)]
    more = len(requirement.findings) - MOST
    return [*lines, *([f"And {more} more."] if more > 0 else []), ""]


def _finding(finding: ReportedFinding) -> list[str]:
    return [
        f"- {text(finding.attempt)}, {text(finding.where)}",
        f"  - expected: {code(finding.expected)}",
        f"  - seen: {code(finding.seen)}",
        f"  - again: {code(finding.replay)}",
    ]


def _families(seam: ReportedSeam) -> list[str]:
    lines = []
    for family, name in FAMILIES.items():
        entries = [each for each in seam.requirements if each.id[:3] == family]
        if not entries:
            continue
        rows = [[each.id, text(each.title), level_of(each), _standing(each), _results(each)] for each in entries]
        lines += [f"### {family}: {name}", "", table(["id", "requirement", "level", "stands", "attempts"], rows), ""]
    return lines


def _standing(requirement: ReportedRequirement) -> str:
    if did_not_come_up(requirement):
        return "did not come up"
    standing = requirement.standing.replace("_", " ")
    explained = requirement.standing in ("unverifiable", "not_exercised", "error") and requirement.reasons
    return f"{standing}: {text(requirement.reasons[0])}" if explained else standing


def _results(requirement: ReportedRequirement) -> str:
    return ", ".join(f"{count} {result.replace('_', ' ')}" for result, count in requirement.results.items()) or "not judged"


def _attempts(seam: ReportedSeam) -> list[str]:
    rows = [
        [
            text(attempt.scenario),
            text(attempt.engine),
            str(attempt.attempt),
            "yes" if attempt.valid else "no",
            reward_of(attempt),
            str(attempt.calls),
            number(attempt.prompt_tokens),
            number(attempt.sampled_tokens),
        ]
        for attempt in seam.attempts
    ]
    heads = ["scenario", "engine", "attempt", "counts", "reward", "calls", "prompt ids", "sampled ids"]
    versions = {name: version for attempt in seam.attempts for name, version in attempt.versions.items()}
    said = ", ".join(f"{text(name)} {text(version)}" for name, version in sorted(versions.items()))
    return [table(heads, rows, right=(2, 5, 6, 7)), "", f"Versions: {said}." if said else "No versions are recorded."]


def number(value: int | None) -> str:
    """The number, or that there is none."""
    return "none" if value is None else str(value)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[int] = ()) -> str:
    """A table of cells that are Markdown already."""
    rights = set(right)
    rule = ["--:" if index in rights else "---" for index in range(len(heads))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (heads, rule, *rows))


_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~&$])")
_ADDRESS = re.compile(r"(?i)\b(https?|ftp|www)([:.])")


def text(raw: str) -> str:
    """Foreign text as running text: one line, printable, nothing of it markup or a link of its own."""
    escaped = _MARKUP.sub(r"\\\1", printable(_cut(raw)))
    return _ADDRESS.sub(r"\1\\\2", escaped).replace("@", "@&#8203;")  # nobody is mentioned, whatever a harness writes


def code(raw: str) -> str:
    """Foreign text as code, also in a table: one line, printable."""
    shown = printable(_cut(raw)).replace("|", "\\|")
    fence = "`" * (max((len(run) for run in re.findall("`+", shown)), default=0) + 1)
    pad = " " if not shown.strip() or shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{pad}{shown}{pad}{fence}" if shown else "(empty)"


def printable(raw: str) -> str:
    """The text with escapes for what cannot be seen, would break the line, or turns its direction."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in raw)


def _cut(raw: str) -> str:
    return raw if len(raw) <= LONGEST else f"{raw[:LONGEST]} … and {len(raw) - LONGEST} more characters"
