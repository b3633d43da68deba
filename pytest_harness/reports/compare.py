"""What became of seams between two reports: what got worse, better, appeared and vanished. Pure: reports in, changes out.

A seam of the one report is compared with that of the other which is of the same harness in the same sandbox: of the same version and row
if there is one, else of the same version, else the one that ran last. What is only in the new report appeared, what is only in the old
one vanished: neither is taken for passed or failed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from pytest_harness.reports.counts import is_binding, is_broken, level_of, verdict_of
from pytest_harness.reports.model import Report, ReportedRequirement, ReportedSeam
from pytest_harness.verdict import Standing, Status

Kind = Literal["worse", "better", "appeared", "vanished"]
KINDS: tuple[Kind, ...] = ("worse", "better", "appeared", "vanished")

STATUSES: tuple[Status, ...] = ("blocked", "unsupported", "unstable", "untested", "validated")
"""From the worst to the best; of a blocked seam nothing is known."""
BADNESS: dict[Standing, int] = {"passed": 0, "deviation": 1, "unstable": 2, "failed": 3, "error": 3}
"""Of what was put to the test; the rest says nothing."""


@dataclass(frozen=True)
class Change:
    """One difference, of a seam's verdict or of one of its requirements."""

    kind: Kind
    subject: str
    """The seam, with the version of its harness, or both versions where they differ."""
    what: str
    """``verdict``, or the requirement with its title and level."""
    told: str
    """What it was and what it is."""
    regression: bool
    """Whether it speaks against going from the old to the new."""

    def __str__(self) -> str:
        return f"{self.subject}: {self.what}: {self.told}"


def compare(old: Report, new: Report) -> tuple[Change, ...]:
    """All changes, in the order of ``KINDS``; within a kind those of the old report's seams first, in its order."""
    changes: list[Change] = []
    for before, after in _pairs(old.seams, new.seams):
        if before is None:
            assert after is not None
            changes.append(Change("appeared", _subject(after), "verdict", verdict_of(after), regression=False))
        elif after is None:
            changes.append(Change("vanished", _subject(before), "verdict", f"was {verdict_of(before)}; nobody ran it", regression=True))
        else:
            changes += _verdict(before, after)
            changes += _requirements(before, after, same_set=old.requirement_set == new.requirement_set)
    return tuple(sorted(changes, key=lambda change: KINDS.index(change.kind)))


def _pairs(old: Sequence[ReportedSeam], new: Sequence[ReportedSeam]) -> Iterator[tuple[ReportedSeam | None, ReportedSeam | None]]:
    places = dict.fromkeys(_place(seam) for seam in (*old, *new))
    for place in places:
        left = [seam for seam in old if _place(seam) == place]
        right = [seam for seam in new if _place(seam) == place]
        found: list[tuple[ReportedSeam, ReportedSeam]] = []
        for same in (lambda seam: (seam.version, seam.row), lambda seam: seam.version):
            found += _take(left, right, same)
        if left and right:
            one, other = max(left, key=_last), max(right, key=_last)
            found.append((one, other))
            left.remove(one)
            right.remove(other)
        yield from found
        yield from ((seam, None) for seam in left)
        yield from ((None, seam) for seam in right)


def _take(
    left: list[ReportedSeam], right: list[ReportedSeam], key: Callable[[ReportedSeam], Hashable]
) -> list[tuple[ReportedSeam, ReportedSeam]]:
    """The pairs that are the same by this key; they are taken out of both lists."""
    taken = []
    for one in tuple(left):
        other = next((each for each in right if key(each) == key(one)), None)
        if other is not None:
            taken.append((one, other))
            left.remove(one)
            right.remove(other)
    return taken


def _place(seam: ReportedSeam) -> tuple[str, str]:
    return seam.harness, seam.sandbox


def _last(seam: ReportedSeam) -> str:
    return max((attempt.ended_at for attempt in seam.attempts), default="")


def _subject(before: ReportedSeam, after: ReportedSeam | None = None) -> str:
    versions = dict.fromkeys(seam.version or "of unknown version" for seam in (before, after) if seam is not None)
    return f"{before.harness} {' -> '.join(versions)} in {before.sandbox}"


def _verdict(before: ReportedSeam, after: ReportedSeam) -> Iterator[Change]:
    one, other = STATUSES.index(before.status), STATUSES.index(after.status)
    if one != other:
        kind: Kind = "worse" if other < one else "better"
        told = f"was {verdict_of(before)}; is {verdict_of(after)}"
        yield Change(kind, _subject(before, after), "verdict", told, regression=kind == "worse")


def _requirements(before: ReportedSeam, after: ReportedSeam, *, same_set: bool) -> Iterator[Change]:
    old = {requirement.id: requirement for requirement in before.requirements}
    new = {requirement.id: requirement for requirement in after.requirements}
    subject = _subject(before, after)
    for name in dict.fromkeys((*old, *new)):
        one, other = old.get(name), new.get(name)
        kind = _kind(one, other)
        if kind is None:
            continue
        named = other or one
        assert named is not None
        regression = is_binding(named) and (
            (kind == "worse" and is_broken(named)) or (kind == "vanished" and same_set and not named.occasional)
        )
        told = f"was {standing_told(one)}; is {standing_told(other)}"
        yield Change(kind, subject, f"{name} {named.title} ({level_of(named)})", told, regression=regression)


def _kind(one: ReportedRequirement | None, other: ReportedRequirement | None) -> Kind | None:
    was = None if one is None else BADNESS.get(one.standing)
    now = None if other is None else BADNESS.get(other.standing)
    if was == now:
        return None
    if now is None:
        return "vanished"
    if was is None:
        return "worse" if other is not None and is_broken(other) and one is not None else "appeared"
    return "worse" if now > was else "better"


def standing_told(requirement: ReportedRequirement | None) -> str:
    """The standing in words, with the attempts that tell a flaky requirement from one that fails."""
    if requirement is None:
        return "not judged"
    results = requirement.results
    failed = results.get("failed", 0)
    ran = sum(results.get(result, 0) for result in ("passed", "failed", "deviation", "error"))
    match requirement.standing:
        case "unstable":
            return f"flaky ({failed} of {ran} attempts failed)"
        case "failed" if failed == ran == 1:
            return "failing (in its only attempt, which cannot tell flaky from failing)"
        case "failed":
            return f"failing ({failed} of {ran} attempts failed)"
        case standing:
            return standing.replace("_", " ")


def shown_changes(changes: Iterable[Change]) -> Iterator[str]:
    """The changes as lines of text under a head for each kind; one line where nothing changed."""
    empty = True
    for kind, group in groupby(changes, key=lambda change: change.kind):
        empty = False
        yield f"{kind}:"
        for change in group:
            yield f"  {change}{' [regression]' if change.regression else ''}"
    if empty:
        yield "nothing changed"
