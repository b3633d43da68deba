"""The report on disk."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import BaseModel, ValidationError

from pytest_harness.reports.model import Report
from pytest_harness.textfile import TextFileError, read_text, write_text

REPORT = "report.json"


class NoReportError(Exception):
    """A file that holds no report; the message says which, and what is wrong with it. What to do is for the caller to say."""


def load_report(path: Path) -> Report:
    """The report in this file. Raises NoReportError."""
    try:
        return Report.model_validate_json(read_text(path))
    except TextFileError as error:
        raise NoReportError(str(error)) from None
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "the document"
        raise NoReportError(f"{path} is no report that this version reads: {key}: {first['msg']}") from None


def write_report(report: Report, folder: Path) -> Path:
    """Write the report as JSON into ``folder`` and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / REPORT
    write_document(report, path)
    return path


def write_document(document: BaseModel, path: Path) -> None:
    """Write any report's document as JSON, whatever the names in it are made of. Raises OSError."""
    write_text(path, as_json(document))


def as_json(document: BaseModel) -> str:
    """The text of any report's document."""
    # Not model_dump_json(), which refuses lone surrogates: names that were read from files and folders may have some.
    return json.dumps(document.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n"
