"""Holds a published report to itself: what it says of a seam must follow from what it says of the attempts.

A report is a file that anybody can edit. Its verdict is computed again from its own attempts, as far as they tell: one that is better than
they are is found, whichever of the two was edited.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from pytest_harness.contract import Result
from pytest_harness.evidence import SeamFacts
from pytest_harness.reports.counts import is_binding
from pytest_harness.reports.model import ReportedAttempt, ReportedSeam
from pytest_harness.requirements import Catalogue
from pytest_harness.verdict import ATTEMPTS, ENGINES, standing_of


def broken_claims(seam: ReportedSeam, row: SeamFacts, catalogue: Catalogue | None = None) -> Iterator[str]:
    """What the report of a seam says and its attempts do not, a sentence each. ``row`` is what the seam table says of it now, ``catalogue``
    the set by which it was judged, where that is at hand."""
    valid = [attempt for attempt in seam.attempts if attempt.valid]
    yield from _requirements(seam, valid)
    speaking = [each for each in seam.requirements if is_binding(each) and each.standing in ("failed", "unstable", "error")]
    if seam.status in ("validated", "untested"):
        if not valid:
            yield f"it is {seam.status}, and none of its attempts counts"
        if speaking:
            yield f"it is {seam.status}, and {', '.join(each.id for each in speaking)} is not met"
    if seam.status == "validated":
        yield from _too_few(valid, row.scenarios)
        if known := sorted({each.requirement for each in row.known_failures} & {each.id for each in seam.requirements if is_binding(each)}):
            yield f"it is validated, and its row says that it breaks {', '.join(known)}"
    if catalogue is not None:
        yield from _left_out(seam, valid, row, catalogue)
    counted = Counter(attempt.reward_state for attempt in seam.attempts)
    if dict(counted) != dict(seam.rewards) or seam.graded != counted["valid"]:
        yield "its count of rewards is not that of its attempts"


def _requirements(seam: ReportedSeam, valid: list[ReportedAttempt]) -> Iterator[str]:
    counts: defaultdict[str, Counter[Result]] = defaultdict(Counter)
    cells: defaultdict[str, defaultdict[tuple[str, str], set[str]]] = defaultdict(lambda: defaultdict(set))
    for attempt in valid:
        for result, requirements in attempt.results.items():
            for name in requirements:
                counts[name][result] += 1
                cells[name][attempt.engine, attempt.scenario].add(result)
    families: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for requirement in seam.requirements:
        if dict(counts[requirement.id]) != dict(requirement.results):
            yield f"{requirement.id} has other results than in the attempts"
        elif standing_of(list(cells[requirement.id].values())) != requirement.standing:
            yield f"{requirement.id} is {requirement.standing}, and its results say otherwise"
        if not requirement.draft:
            families[requirement.id[:3]][requirement.standing] += 1
    if {family: dict(each) for family, each in families.items()} != {family: dict(each) for family, each in seam.families.items()}:
        yield "its count of requirements by family is not that of the requirements"


def _left_out(seam: ReportedSeam, valid: list[ReportedAttempt], row: SeamFacts, catalogue: Catalogue) -> Iterator[str]:
    told = {each.id for each in seam.requirements if is_binding(each)}
    required = {attempt.id: {each.id for each in catalogue.applicable(row, attempt.engine) if each.binding} for attempt in valid}
    if unlike := sorted(told ^ set[str]().union(*required.values())) if valid else []:
        yield f"its MUSTs are not those of {catalogue.version}: {', '.join(unlike)}"
    for attempt in valid:
        if unjudged := sorted(required[attempt.id].difference(*attempt.results.values())):
            yield f"{attempt.name} on {attempt.engine} was not judged by {', '.join(unjudged)}"


def _too_few(valid: list[ReportedAttempt], scenarios: Iterable[str]) -> Iterator[str]:
    for engine in ENGINES:
        for scenario in scenarios:
            made = len({attempt.id for attempt in valid if (attempt.engine, attempt.scenario) == (engine, scenario)})
            if made < ATTEMPTS:
                yield f"it is validated, and {scenario} on {engine} has {made} of {ATTEMPTS} attempts"
