"""From a run's evidence to the published reports, and whether what is published still is what the seam table says.

A report is only published where its evidence was made with the row as the table has it now. What is published is the same whenever and
wherever it is made from the same evidence: its date is that of the last attempt, its paths are those that everybody's own run has.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_harness.evidence import Evidence, attempt_dir, find_evidence, read_evidence
from pytest_harness.places import EVIDENCE_DIR
from pytest_harness.reports.build import build_report
from pytest_harness.reports.claims import broken_claims
from pytest_harness.reports.cleaning import Machine, Unpublishable
from pytest_harness.reports.model import Report
from pytest_harness.reports.published import SEAMS, Published, PublishError, file_name, last_attempt
from pytest_harness.requirements import Catalogue
from pytest_harness.seams import SeamTable
from pytest_harness.textfile import TextFileError, read_text, write_text
from pytest_harness.verdict import Rollout, SeamVerdict, seam_verdicts


@dataclass(frozen=True)
class Outcome:
    """What came of it."""

    written: tuple[str, ...]
    """The names of the seams whose reports were published."""
    passed_over: tuple[str, ...]
    """What of the evidence was not published, and why, a sentence each."""
    open: tuple[str, ...]
    """What still is to be done, a sentence each."""


def publish(evidence: Path, into: Path, *, seams: SeamTable, catalogue: Catalogue, readme: Path | None = None) -> Outcome:
    """Publish the reports of the evidence below a folder, and make everything anew that depends on them.

    What was published before of other seams stays as long as the table has their row. Raises PublishError or EvidenceError.
    """
    folders = list(find_evidence(evidence))
    if not folders:
        raise PublishError(
            f"{evidence} holds no evidence; run pytest --harness=NAME first, or name the folder that its --evidence-dir named"
        )
    evidences = (_by_its_row(read_evidence(folder), seams) for folder in folders)
    verdicts = seam_verdicts([Rollout.of(evidence, catalogue) for evidence in evidences], catalogue)
    current, passed_over = _current(verdicts, seams)
    machine = Machine.this(evidence)
    before = Published.read(into, seams, catalogue.version)
    kept = {name: report for name, report in before.reports.items() if report.seams[0].harness in seams}
    new = {file_name(verdict.harness, verdict.sandbox): _report(verdict, catalogue, machine) for verdict in current}
    published = replace(before, reports=dict(sorted({**kept, **new}.items())))
    table = None if readme is None else published.with_table(_readme(readme), _from(readme, into), str(readme))
    _write(published, into)
    if readme is not None and table is not None:
        write_text(readme, table)
    return Outcome(tuple(new), passed_over, tuple(disagreements(into, seams, catalogue, readme)))


def disagreements(folder: Path, seams: SeamTable, catalogue: Catalogue, readme: Path | None = None) -> Iterator[str]:
    """Where the published reports, the seam table and the README do not say the same, a sentence each. Raises PublishError."""
    published = Published.read(folder, seams, catalogue.version)
    for name, report in published.reports.items():
        seam = report.seams[0]
        again = f"pytest --harness={seam.harness} --sandbox={seam.sandbox}, then harness-conformance publish"
        if seam.harness not in seams:
            yield f"{name}: the seam table has no row {seam.harness}; publish again"
            continue
        row = seams[seam.harness]
        if seam.row != row.facts.digest:
            yield f"{name}: its row of the seam table has changed since it was run; run it again: {again}"
        if report.requirement_set != catalogue.version:
            yield f"{name}: it was judged by {report.requirement_set}, and the set is {catalogue.version}; judge it again: {again}"
        asked = catalogue if report.requirement_set == catalogue.version else None
        yield from (f"{name}: {claim}; run it again: {again}" for claim in broken_claims(seam, row.facts, asked))
    wanted = dict(published.files())
    for path, text in wanted.items():
        if not _is(folder / path, text):
            yield f"{folder / path} is not what the reports and the seam table say; publish again"
    yield from (f"{path} belongs to no report; publish again" for path in _others(folder, wanted))
    if readme is not None:
        text = _readme(readme)
        if published.with_table(text, _from(readme, folder), str(readme)) != text:
            yield f"the table in {readme} is not what the reports say; publish again"


def _by_its_row(evidence: Evidence, seams: SeamTable) -> Evidence:
    """The evidence held to what its row says now: by which scenarios it is judged and what it is known to break may have been found out
    since, and neither makes it another row."""
    seam = evidence.manifest.seam
    if seam.harness not in seams or (row := seams[seam.harness].facts).digest != seam.digest:
        return evidence
    now = seam.model_copy(update={"scenarios": row.scenarios, "known_failures": row.known_failures})
    return replace(evidence, manifest=evidence.manifest.model_copy(update={"seam": now}))


def _current(verdicts: Iterable[SeamVerdict], seams: SeamTable) -> tuple[list[SeamVerdict], tuple[str, ...]]:
    """The newest verdict of each row as it is now, in each sandbox; and why the others are passed over."""
    newest: dict[tuple[str, str], SeamVerdict] = {}
    passed_over = []
    for verdict in sorted(verdicts, key=_last):
        name = f"{verdict.harness} {verdict.version} in {verdict.sandbox}".replace("  ", " ")
        if verdict.harness not in seams:
            passed_over.append(f"{name}: the seam table has no row {verdict.harness}")
        elif seams[verdict.harness].facts.digest != verdict.row:
            passed_over.append(f"{name}: it was run with another row than the table has now; run pytest --harness={verdict.harness}")
        else:
            if (key := (verdict.harness, verdict.sandbox)) in newest:
                passed_over.append(
                    f"{newest[key].harness} {newest[key].version} in {newest[key].sandbox}: there is newer evidence of {verdict.version}"
                )
            newest[key] = verdict
    return [newest[key] for key in sorted(newest)], tuple(passed_over)


def _last(verdict: SeamVerdict) -> str:
    return max(rollout.manifest.ended_at for rollout in verdict.rollouts)


def _report(verdict: SeamVerdict, catalogue: Catalogue, machine: Machine) -> Report:
    manifests = [rollout.manifest for rollout in verdict.rollouts]
    newest = max(manifests, key=lambda manifest: manifest.ended_at)
    places = {
        each.attempt_id: attempt_dir(
            EVIDENCE_DIR,
            harness=each.harness,
            sandbox=each.sandbox,
            engine=each.engine,
            scenario=each.scenario.name,
            attempt=each.attempt,
        )
        for each in manifests
    }
    report = build_report((verdict,), catalogue=catalogue, run_id=newest.run_id, folders=places)
    dated = report.model_copy(update={"written_at": last_attempt(report.seams) or ""})
    name = f"{verdict.harness} in {verdict.sandbox}"
    try:
        return Report.model_validate_json(json.dumps(machine.cleaned(dated.model_dump(mode="json"), name)))
    except Unpublishable as error:
        raise PublishError(str(error)) from None


def _write(published: Published, into: Path) -> None:
    wanted = dict(published.files())
    try:
        (into / SEAMS).mkdir(parents=True, exist_ok=True)
        for path, text in wanted.items():
            write_text(into / path, text)
        for other in _others(into, wanted):
            other.unlink()
    except OSError as error:
        raise PublishError(f"{into} cannot be written ({error.strerror}); name a folder of yours with --into") from None


def _others(folder: Path, wanted: Iterable[str]) -> list[Path]:
    """Files beside the seams' reports that belong to none of them."""
    belonging = {folder / path for path in wanted}
    return sorted({path for suffix in ("json", "md") for path in (folder / SEAMS).glob(f"*.{suffix}")} - belonging)


def _is(path: Path, text: str) -> bool:
    try:
        return read_text(path) == text
    except TextFileError:
        return False


def _readme(path: Path) -> str:
    try:
        return read_text(path)
    except TextFileError as error:
        raise PublishError(str(error)) from None


def _from(readme: Path, into: Path) -> str:
    """The folder of the reports as seen from the README, with a slash at its end."""
    relative = into.resolve().relative_to(readme.resolve().parent, walk_up=True).as_posix()
    return "" if relative == "." else f"{relative}/"
