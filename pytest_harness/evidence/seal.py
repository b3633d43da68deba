"""The seal of a record: ``seal.json`` holds the SHA-256 of each of its files, which tells what was changed afterwards from what was seen.

It guards against mistakes, not against forgers: whoever can write the record can write the seal. Records of older versions have none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

from pytest_harness.textfile import TextFileError, read_text

SEAL = "seal.json"


def write_seal(folder: Path, files: Iterator[Path]) -> None:
    """Seal these files of the record in ``folder``."""
    digests = {path.relative_to(folder).as_posix(): _digest(path) for path in files}
    (folder / SEAL).write_text(json.dumps(digests, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def broken_seal(folder: Path, files: Iterator[Path]) -> str | None:
    """What is not as it was sealed, e.g. ``calls.ndjson was changed``; None if all is, or if the record has no seal."""
    path = folder / SEAL
    if not path.exists():
        return None
    try:
        sealed = json.loads(read_text(path))
    except (TextFileError, ValueError, RecursionError):
        sealed = None
    if not isinstance(sealed, dict):
        return f"{SEAL} cannot be read"
    found = {path.relative_to(folder).as_posix(): path for path in files}
    for name in sorted(sealed.keys() | found.keys()):
        if name not in found:
            return f"{name} is gone"
        if name not in sealed:
            return f"{name} was added"
        if _digest(found[name]) != sealed[name]:
            return f"{name} was changed"
    return None


def _digest(path: Path) -> str | None:
    try:
        with path.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError:
        return None
