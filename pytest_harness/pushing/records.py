"""What is sent of a folder: the attempts and reports in it, whole and as they were written, the ledger of a collection, and nothing else.

So a folder that is named by mistake sends nothing that a run did not write, and what arrives can be read there as it can be read here.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from pytest_harness.collect import LEDGER
from pytest_harness.endpoint.report import EngineReport
from pytest_harness.evidence import find_evidence, read_evidence
from pytest_harness.pushing import PushError
from pytest_harness.reports.cases import CaseReport
from pytest_harness.reports.files import BADGE, CTRF, JUNIT, MATRIX, PAGE, SEAM_PAGES
from pytest_harness.reports.store import REPORT, NoReportError, load_report
from pytest_harness.runtimes.report import RuntimeReport
from pytest_harness.textfile import TextFileError, read_text
from pytest_harness.training.telling import ACCOUNTING
from pytest_harness.verifiers.report import VerifierReport
from pytest_harness.wire.report import ProxyReport

CASE_REPORTS: tuple[type[CaseReport], ...] = (EngineReport, ProxyReport, RuntimeReport, VerifierReport)
FORMS = (REPORT, PAGE, MATRIX, CTRF, JUNIT, BADGE, ACCOUNTING, *(each.file for each in CASE_REPORTS))
"""What a report's folder holds, beside the pages of its seams."""


@dataclass(frozen=True)
class Item:
    """One file that is to be sent."""

    path: Path
    record: str
    """The name of the attempt, report or ledger that it belongs to, at the target."""
    name: str
    """Its own name at the target: ``evidence/pi/local/scripted/edit_file/1/calls.ndjson``."""
    size: int
    """Bytes."""
    sha256: str


def gather(folders: Iterable[Path]) -> tuple[Item, ...]:
    """All files that are sent of these folders; each folder keeps its name and what is below it.

    Raises PushError where there is nothing to send or two folders have one name, EvidenceError where evidence is not as it was written.
    """
    named: dict[str, Path] = {}
    for folder in folders:
        name = folder.resolve().name
        if not name:
            raise PushError(f"{folder} has no name that it could have at the target; name the folders in it")
        if named.setdefault(name, folder) is not folder:
            raise PushError(f"{named[name]} and {folder} would both be called {name} at the target; rename one, or push them to two places")
    return tuple(item for name, folder in named.items() for item in _folder(folder, name))


def _folder(folder: Path, name: str) -> Iterator[Item]:
    attempts = list(find_evidence(folder))
    found = [*attempts, *_reports(folder, frozenset(attempts))]
    if not found:
        raise PushError(
            f"{folder} holds neither evidence nor a report; run pytest --harness=NAME first, or name the folder that --evidence-dir or "
            "--report-dir named"
        )
    for record in attempts:
        read_evidence(record)  # what would be refused at the other end is refused at this one
        yield from _items((path for path in sorted(record.rglob("*"))), folder, name, record)
    for record in found[len(attempts) :]:
        _check_report(record)
        pages = sorted((record / SEAM_PAGES).glob("*.md"))
        yield from _items((*(record / form for form in FORMS), *pages), folder, name, record)
    if (ledger := folder / LEDGER).is_file():
        yield from _items((ledger,), folder, name, ledger)


def _reports(root: Path, attempts: frozenset[Path]) -> Iterator[Path]:
    markers = {REPORT, *(each.file for each in CASE_REPORTS)}
    for at, folders, names in os.walk(root):
        folders[:] = sorted(each for each in folders if not each.startswith(".") and Path(at, each) not in attempts)
        if Path(at) not in attempts and markers.intersection(names):
            yield Path(at)


def _check_report(folder: Path) -> None:
    """Refuse a file that has a report's name and is none."""
    try:
        if (folder / REPORT).exists():
            load_report(folder / REPORT)
        for kind in CASE_REPORTS:
            if (path := folder / kind.file).exists():
                kind.model_validate_json(read_text(path))
    except (NoReportError, TextFileError) as error:
        raise PushError(f"{error}; nothing was sent: make the report anew, or move the file away") from None
    except ValidationError:
        raise PushError(f"{path} is no report that this version reads; nothing was sent: make it anew, or move the file away") from None


def _items(paths: Iterable[Path], folder: Path, name: str, record: Path) -> Iterator[Item]:
    for path in paths:
        if path.is_symlink() or not path.is_file():  # a link leads out of the record, and is no part of its seal either
            continue
        try:
            with path.open("rb") as content:
                digest = hashlib.file_digest(content, "sha256").hexdigest()
                size = os.fstat(content.fileno()).st_size
        except OSError as error:
            raise PushError(f"{path} cannot be read ({error.strerror}); make it readable, then push again") from None
        yield Item(path, _below(record, folder, name), _below(path, folder, name), size, digest)


def _below(path: Path, folder: Path, name: str) -> str:
    return Path(name, path.relative_to(folder)).as_posix()
