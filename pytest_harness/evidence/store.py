"""Evidence on disk: ``<harness>/<sandbox>/<engine>/<scenario>/<attempt>/`` with a manifest, the calls, and Harbor's files.

An attempt's folder appears whole or not at all: it is written beside its place and renamed into it. What was changed in it afterwards
is refused, as is what cannot be read: each in one sentence.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from pytest_harness.evidence.model import EVIDENCE_VERSION, Call, Evidence, Manifest
from pytest_harness.evidence.seal import broken_seal, write_seal
from pytest_harness.evidence.secrets import REDACTED
from pytest_harness.textfile import TextFileError, read_text

MANIFEST = "manifest.json"
CALLS = "calls.ndjson"
FILE_FOLDERS = ("trial", "native", "engine")
_HALF = re.compile("[\ud800-\udfff]")
AGAIN = "restore it or run the rollout again"


class EvidenceError(Exception):
    """Stored evidence that cannot be read; the message names the file, what is wrong and what to do."""


def attempt_dir(root: Path, *, harness: str, sandbox: str, engine: str, scenario: str, attempt: int) -> Path:
    """Where the evidence of this attempt belongs below ``root``."""
    return root / harness / sandbox / engine / scenario / str(attempt)


def write_evidence(
    root: Path, manifest: Manifest, calls: tuple[Call, ...], folders: dict[str, Path], *, secrets: tuple[str, ...] = ()
) -> Path:
    """Freeze one attempt below ``root`` and return its folder; an older one in its place is replaced.

    ``folders`` maps ``trial``, ``native`` and ``engine`` to the folders whose content becomes part of the evidence. Each of ``secrets`` is
    replaced by ``<redacted>`` in every file of theirs.
    """
    target = attempt_dir(
        root,
        harness=manifest.harness,
        sandbox=manifest.sandbox,
        engine=manifest.engine,
        scenario=manifest.scenario.name,
        attempt=manifest.attempt,
    )
    with appearing(target) as staging:
        for name, source in folders.items():
            if source.is_dir():
                shutil.copytree(source, staging / name, symlinks=True)
                _redact(staging / name, secrets)
        with (staging / CALLS).open("w", encoding="utf-8") as lines:
            lines.writelines(call.model_dump_json() + "\n" for call in calls)
        (staging / MANIFEST).write_text(manifest.model_dump_json(indent=1) + "\n", encoding="utf-8")
        seal_record(staging)
    return target


@contextmanager
def appearing(target: Path) -> Iterator[Path]:
    """An empty folder that becomes ``target`` when the block ends, in place of what was there; nothing becomes of it if the block fails."""
    target.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        staging.chmod(0o755)
        yield staging
        if target.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{target.name}-old-", dir=target.parent))
            target.rename(old / "old")
            staging.rename(target)
            shutil.rmtree(old)
        else:
            staging.rename(target)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise


def seal_record(folder: Path) -> None:
    """Seal a record as it is now: whoever cleans one for publication does it last."""
    write_seal(folder, _files(folder))


def find_evidence(root: Path) -> Iterator[Path]:
    """The folders of all attempts at or below ``root``, in the order of their names.

    Raises EvidenceError where a folder cannot be looked into: what it holds would be left out of the verdict in silence.
    """
    found = []
    for folder, folders, names in _walk(root):
        if MANIFEST in names or MANIFEST in folders:
            found.append(folder / MANIFEST)
        folders[:] = [name for name in folders if not name.startswith(".") and name not in FILE_FOLDERS]
    yield from (path.parent for path in sorted(found))


def read_evidence(folder: Path) -> Evidence:
    """Read the evidence of one attempt.

    Raises EvidenceError where a file is missing, torn, changed after it was written, or from a newer version than this reader.
    """
    manifest = _parse(Manifest, folder / MANIFEST, _text(folder / MANIFEST))
    _check_names(manifest, folder / MANIFEST)
    text = _text(folder / CALLS)
    # Not splitlines(): JSON leaves U+2028 and U+0085 as they are, and Python takes them for line ends too.
    lines = text.rstrip("\n").split("\n") if text.strip() else []
    calls = tuple(_parse(Call, folder / CALLS, line, number) for number, line in enumerate(lines, start=1))
    for number, (before, call) in enumerate(itertools.pairwise(calls), start=2):
        if call.index <= before.index:
            raise EvidenceError(
                f"{folder / CALLS}, line {number}: call {call.index} stands behind call {before.index}, so calls are out of order or there "
                f"twice; {AGAIN}"
            )
    if (change := broken_seal(folder, _files(folder))) is not None:
        raise EvidenceError(_one_line(f"{folder}: {change} after the evidence was written; {AGAIN}"))
    files = dict(_texts(folder))
    present = {path.relative_to(folder).as_posix() for path in itertools.islice(_files(folder), 2, None)}
    return Evidence(manifest=manifest, calls=calls, files=files, others=frozenset(present - files.keys()))


def _check_names(manifest: Manifest, path: Path) -> None:
    """Refuse what is no name of a folder: the names say where a copy of the evidence is written."""
    names = {"harness": manifest.harness, "sandbox": manifest.sandbox, "engine": manifest.engine, "scenario": manifest.scenario.name}
    for what, name in names.items():
        if name in ("", ".", "..") or any(each in "/\\\0" or "\ud800" <= each <= "\udfff" for each in name):
            raise EvidenceError(_one_line(f"{path}: the {what}'s name {name!r} is no name of a folder; {AGAIN}"))


def _redact(folder: Path, secrets: tuple[str, ...]) -> None:
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            content = redacted = path.read_bytes()
            for secret in secrets:
                redacted = redacted.replace(secret.encode(), REDACTED.encode())
            if redacted != content:
                path.write_bytes(redacted)


def _text(path: Path) -> str:
    try:
        return read_text(path)
    except TextFileError as error:
        raise EvidenceError(_one_line(f"{error}, so this is not the whole evidence of an attempt; {AGAIN}")) from None


def _parse[Model: BaseModel](model: type[Model], path: Path, text: str, line: int | None = None) -> Model:
    where = str(path) if line is None else f"{path}, line {line}"
    if not text.strip():
        raise EvidenceError(f"{where} is empty; {AGAIN}")
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise EvidenceError(_one_line(f"{where} is not JSON ({error}); {AGAIN}")) from None
    if isinstance(document, dict):
        version = document.get("evidence_version")
        if isinstance(version, int) and version > EVIDENCE_VERSION:
            raise EvidenceError(
                f"{where} is evidence of version {version}, this reader knows up to {EVIDENCE_VERSION}; use a newer harness-conformance"
            )
    if line is not None and "\\ud" in text.lower() and _HALF.search(json.dumps(document, ensure_ascii=False)):
        raise EvidenceError(f"{where} holds half of a character, which nobody can have sent; {AGAIN}")
    try:
        return model.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "the document"
        raise EvidenceError(
            _one_line(f"{where}: {key}: {first['msg']}; it was changed after it was written, or comes from another program; {AGAIN}")
        ) from None


def _one_line(sentence: str) -> str:
    """The sentence as it can be printed, whatever the broken file put into it."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in sentence)


def _files(folder: Path) -> Iterator[Path]:
    """The files that make the record: not what was derived from it, and no link."""
    yield from (folder / name for name in (MANIFEST, CALLS))
    for name in FILE_FOLDERS:
        found = (at / name for at, _, names in _walk(folder / name) for name in names)
        yield from (path for path in sorted(found) if not path.is_symlink() and _is_file(path))


def _walk(root: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    """As ``os.walk``, but a folder that cannot be looked into is refused, not passed over; one that is not there has nothing in it."""

    def refuse(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            raise _unreadable(str(error.filename), error) from None

    for folder, folders, names in os.walk(root, onerror=refuse):
        yield Path(folder), folders, names


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError as error:  # its folder may be listed and not entered
        raise _unreadable(str(path), error) from None


def _unreadable(path: str, error: OSError) -> EvidenceError:
    return EvidenceError(_one_line(f"{path} cannot be read: {error.strerror}; make it readable or move it away"))


def _texts(folder: Path) -> Iterator[tuple[str, str]]:
    for path in itertools.islice(_files(folder), 2, None):
        try:
            yield path.relative_to(folder).as_posix(), path.read_text(encoding="utf-8")
        except (UnicodeDecodeError, OSError):
            continue
