"""Rows on disk, as JSONL or Parquet: a file appears whole or not at all."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import batched
from pathlib import Path
from typing import Any

from pytest_harness.training.rows import TrainingRow

JSONL, PARQUET = SUFFIXES = (".jsonl", ".parquet")
BATCH = 64
"""Rows that are held at a time."""


class ExportError(Exception):
    """A file that cannot be written; the message names it and says what to do."""


def check_target(path: Path) -> None:
    """Raises ExportError for a file that could not be written: better before the first episode than after the last."""
    if path.suffix not in SUFFIXES:
        raise ExportError(f"--export {path}: the name must end in {' or '.join(SUFFIXES)}")
    if path.is_dir():
        raise ExportError(f"--export {path} is a folder; name a file in it")
    if path.suffix == PARQUET:
        _pyarrow(path)


def write_rows(rows: Iterable[TrainingRow], path: Path) -> int:
    """Write the rows and say how many there are. Raises ExportError."""
    check_target(path)
    write = _write_parquet if path.suffix == PARQUET else _write_jsonl
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _whole(path) as beside:
            return write(rows, beside)
    except OSError as error:
        raise ExportError(f"--export {path} cannot be written ({error.strerror}); name a file of yours") from None


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """A file beside the one that it becomes if all goes well."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as folder:
        beside = Path(folder) / path.name
        yield beside
        beside.replace(path)


def _write_jsonl(rows: Iterable[TrainingRow], path: Path) -> int:
    count = 0
    with path.open("w", encoding="utf-8", errors="backslashreplace") as file:
        for row in rows:
            file.write(json.dumps(asdict(row), ensure_ascii=False, allow_nan=False) + "\n")
            count += 1
    return count


def _write_parquet(rows: Iterable[TrainingRow], path: Path) -> int:
    pyarrow = _pyarrow(path)
    schema = _schema(pyarrow)
    count = 0
    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        for batch in batched(rows, BATCH):
            writer.write_table(pyarrow.Table.from_pylist([asdict(row) for row in batch], schema=schema))
            count += len(batch)
    return count


def _schema(pyarrow: Any) -> Any:
    """Fixed, so that a file whose rewards are all None has the same columns as any other."""
    text, flag, number, ids = pyarrow.string(), pyarrow.bool_(), pyarrow.int64(), pyarrow.list_(pyarrow.int64())
    types = {
        "row": number,
        "attempt": number,
        "prompt_ids": ids,
        "completion_ids": ids,
        "mask": pyarrow.list_(pyarrow.int8()),
        "logprobs": pyarrow.list_(pyarrow.float64()),
        "reward": pyarrow.float64(),
        "truncated": flag,
        "rehearsal": flag,
    }
    return pyarrow.schema([(name, types.get(name, text)) for name in TrainingRow.__dataclass_fields__])


def _pyarrow(path: Path) -> Any:
    try:
        import pyarrow.parquet  # noqa: PLC0415 (only Parquet needs it, and it is an extra)
    except ImportError:
        raise ExportError(
            f"--export {path}: Parquet is written by pyarrow, which is not installed; "
            "install harness-conformance[parquet], or name a .jsonl file"
        ) from None
    return pyarrow
