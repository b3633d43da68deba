"""What was released never changes: the digest of every entry of every released set, in ``conformance/requirements/released.toml``.

A set that is not in that file is open. ``python -m pytest_harness.requirements release VERSION`` closes it for good.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from pytest_harness.requirements.catalogue import extended_by, read_catalogue, read_entries, set_files
from pytest_harness.requirements.model import RequirementsError
from pytest_harness.resources import resource
from pytest_harness.textfile import TextFileError, read_toml

HEAD = "# The SHA-256 of every entry of every released set, written by `python -m pytest_harness.requirements release VERSION`.\n"

EXTENDS = "extends"
"""Stands among the digests of a set for the set that it extends, whose own digests stand with it."""

Digests = dict[str, dict[str, str]]
"""By the name of the file, such as ``proxy/2026.11``: by id, the digest of the entry."""


def read_released() -> Digests:
    """What was released so far. Raises RequirementsError if the file cannot be read."""
    try:
        return read_toml(_path())
    except TextFileError as error:
        raise RequirementsError(f"{error}; restore it from the release") from None


def digests(version: str) -> Digests:
    """The digests of the set as it is on disk now. Raises RequirementsError if there is no such set or its file is faulty."""
    found: Digests = {}
    for path in set_files(version):
        read_catalogue(path)
        found[_name(path, version)] = {entry["id"]: _digest(entry) for entry in read_entries(path)}
    if older := extended_by(version):
        found[version][EXTENDS] = older
    return found


def differences(released: Digests, current: Digests) -> list[str]:
    """What of the released sets is not as it was, a sentence each."""
    found = []
    for name, entries in released.items():
        now = current.get(name, {})
        found += [f"{name}: {id_} was released and is gone" for id_ in entries if id_ not in now]
        found += [f"{name}: {id_} was changed after its release" for id_, digest in entries.items() if now.get(id_, digest) != digest]
        found += [f"{name}: {id_} was added after the release" for id_ in now if id_ not in entries]
    return found


def release(version: str) -> None:
    """Close this set. Raises RequirementsError if it is closed already."""
    released, now = read_released(), digests(version)
    if set(now) & set(released):
        raise RequirementsError(f"requirement set {version} is released already, and a released set never changes; make a newer one")
    _path().write_text(_text(released | now), encoding="utf-8")


def _text(released: Digests) -> str:
    tables = (f'["{name}"]\n' + "".join(f'{id_} = "{digest}"\n' for id_, digest in released[name].items()) for name in sorted(released))
    return "\n".join((HEAD, *tables))


def _digest(entry: dict[str, Any]) -> str:
    """Of the entry as it stands in the file, whatever order its keys have."""
    return hashlib.sha256(json.dumps(entry, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def _name(path: Path, version: str) -> str:
    return version if path.parent.name == "requirements" else f"{path.parent.name}/{version}"


def _path() -> Path:
    return resource("conformance", "requirements", "released.toml")
