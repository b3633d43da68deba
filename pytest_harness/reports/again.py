"""A report from what is stored: from evidence, judged again, or from a report that was written, with the evidence that it names."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pytest_harness import saboteurs
from pytest_harness.evidence import Evidence, EvidenceError, find_evidence, read_evidence
from pytest_harness.reports.build import build_report
from pytest_harness.reports.files import EvidenceOf
from pytest_harness.reports.model import Report, ReportedAttempt
from pytest_harness.reports.store import REPORT, NoReportError, load_report
from pytest_harness.requirements import Catalogue
from pytest_harness.verdict import Rollout, seam_verdicts

type Judges = Callable[[Iterable[Evidence], Catalogue], Iterable[Rollout]]
"""Judges evidence by a catalogue, in the order in which it comes."""


class ReportError(Exception):
    """Folders of which no report can be made; the message says which, why, and what to do."""


@dataclass(frozen=True)
class JudgedAgain:
    """What was said of evidence, with the report of it. The evidence stays on the disk, and is read again by whoever needs it."""

    report: Report
    rollouts: Mapping[Path, Rollout]
    """By the folder of the evidence."""

    @property
    def evidences(self) -> Mapping[Path, Evidence]:
        """By its folder; each is read when it is asked for."""
        return _Stored(tuple(self.rollouts))

    @cached_property
    def _places(self) -> Mapping[str, Path]:
        return {rollout.manifest.attempt_id: folder for folder, rollout in reversed(tuple(self.rollouts.items()))}

    def evidence_of(self, attempt: ReportedAttempt) -> Evidence | None:
        """The evidence that was judged."""
        return self.evidences[self._places[attempt.id]] if attempt.id in self._places else None


class _Stored(Mapping[Path, Evidence]):
    """The evidence in these folders. Raises EvidenceError where one cannot be read any more."""

    def __init__(self, folders: tuple[Path, ...]) -> None:
        self._folders = folders

    def __getitem__(self, folder: Path) -> Evidence:
        return read_evidence(folder)

    def __iter__(self) -> Iterator[Path]:
        return iter(self._folders)

    def __len__(self) -> int:
        return len(self._folders)


def judge_here(evidences: Iterable[Evidence], catalogue: Catalogue) -> Iterable[Rollout]:
    """One after another in this process."""
    return (Rollout.of(evidence, catalogue) for evidence in evidences)


def judge_again(roots: Iterable[Path], catalogue: Catalogue, judges: Judges = judge_here) -> JudgedAgain:
    """Judge all evidence at or below these folders. Raises ReportError where one holds none, EvidenceError where some cannot be read."""
    folders: dict[Path, Path] = {}
    for root in roots:
        found = list(find_evidence(root))
        if not found:
            raise ReportError(
                f"{root} holds no evidence; run pytest --harness=NAME first, or name the folder that its --evidence-dir named"
            )
        folders |= {folder.resolve(): folder for folder in found if folder.resolve() not in folders}
    rollouts = dict(zip(folders.values(), judges(map(read_evidence, folders.values()), catalogue), strict=True))
    places = {rollout.manifest.attempt_id: folder for folder, rollout in rollouts.items()}
    run_id = next(iter(rollouts.values())).manifest.run_id
    report = build_report(seam_verdicts(rollouts.values(), catalogue), catalogue=catalogue, run_id=run_id, folders=places)
    return JudgedAgain(report, rollouts)


def read_report(folder: Path) -> Report:
    """The report that a run wrote into this folder, or that is this file. Raises ReportError."""
    try:
        return load_report(folder if folder.is_file() else folder / REPORT)
    except NoReportError as error:
        advice = "name a folder that a run wrote its report into, or make it again from its evidence: harness-conformance judge EVIDENCE"
        raise ReportError(f"{error}; {advice}") from None


def stored_evidence(report: Report) -> EvidenceOf:
    """Reads the evidence of an attempt from where the report says it is, broken in the way in which it was when it was judged."""

    def evidence_of(attempt: ReportedAttempt) -> Evidence | None:
        try:
            evidence = read_evidence(Path(attempt.evidence))
        except EvidenceError:
            return None
        if evidence.manifest.attempt_id != attempt.id:
            return None  # a later run has put another attempt there
        if report.sabotage is not None:
            with contextlib.suppress(saboteurs.NothingToSabotage):
                return saboteurs.apply(report.sabotage, evidence)
        return evidence

    return evidence_of
