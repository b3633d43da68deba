"""Reads the bundled sets. A set is data; what it says is never repeated in code.

``conformance/requirements/<version>.toml`` holds the requirements of one set for all subjects. Set 2026.11 had two files, that of seams
there and that of proxies in ``proxy/``, and keeps them. A set may extend an older one: it holds what that one holds, and its own file
what came with it. The newest set of a subject is the last one with which something of that subject came. ``draft.toml``, where it is
there, holds what is judged and not yet scored.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pytest_harness.requirements.model import DRAFT, Catalogue, Requirement, RequirementsError, Subject, close_to
from pytest_harness.resources import resource
from pytest_harness.textfile import TextFileError, read_toml


def catalogue_versions() -> tuple[str, ...]:
    """The versions of all bundled sets, oldest first."""
    return tuple(sorted((path.stem for path in _folder().glob("*.toml") if re.fullmatch(r"[\d.]+", path.stem)), key=_order))


def set_files(version: str) -> tuple[Path, ...]:
    """The files of this set: that of all subjects, and that of each subject that has its own. Raises RequirementsError if it is unknown."""
    versions = catalogue_versions()
    if version not in versions:
        raise RequirementsError(f"there is no requirement set {version!r}{close_to(version, versions)}; the sets are {', '.join(versions)}")
    return _folder() / f"{version}.toml", *sorted(_folder().glob(f"*/{version}.toml"))


def load_catalogue(version: str | None = None, subject: Subject = "seam") -> Catalogue:
    """What a bundled set requires of this kind of subject, by default the newest of that subject; with that one come the drafts.

    Raises RequirementsError if there is no such set, it says nothing of the subject, or its file is not as it should be.
    """
    newest = _newest(subject)
    version = newest if version is None else version
    own = [path for path in set_files(version)[1:] if path.parent.name == subject]
    catalogue = (read_catalogue(own[0]) if own else _whole(version)).of(subject)
    if not catalogue.requirements:
        raise RequirementsError(f"requirement set {version} holds nothing for the subject {subject}; the newest set is {newest}")
    return catalogue if _order(version) < _order(newest) else with_drafts(catalogue, _drafts()).of(subject)


def read_set(version: str | None = None) -> Catalogue:
    """A whole set, for all subjects, the newest by default; the newest comes with the drafts. Raises RequirementsError."""
    newest = catalogue_versions()[-1]
    version = newest if version is None else version
    return with_drafts(_whole(version), _drafts()) if version == newest else _whole(version)


def extended_by(version: str) -> str | None:
    """The older set that this one extends; None for one that stands by itself. Raises RequirementsError."""
    older = _document(set_files(version)[0]).get("extends")
    if older is None:
        return None
    if older not in catalogue_versions() or _order(older) >= _order(version):
        raise RequirementsError(f"requirement set {version} extends {older!r}, which is no older set; restore its file from the release")
    return str(older)


def _whole(version: str) -> Catalogue:
    """A set with what it extends, without drafts: family by family, in the order of the numbers."""
    own = tuple(entry for path in set_files(version) for entry in read_catalogue(path))
    older = extended_by(version)
    if older is None:
        return Catalogue(version, own)
    base = _whole(older)
    for entry in own:
        if entry.id in base:
            raise RequirementsError(f"requirement set {version}: {entry.id} is in set {older} already, which it extends")
    families = list(dict.fromkeys(entry.family for entry in (*base, *own)))
    return Catalogue(version, tuple(sorted((*base, *own), key=lambda entry: (families.index(entry.family), entry.id))))


def _newest(subject: Subject) -> str:
    """The last set with which something of this subject came; the last of all where none says anything of it."""
    newest_first = catalogue_versions()[::-1]
    speaks = (each for each in newest_first if any(subject in entry.subjects for path in set_files(each) for entry in read_catalogue(path)))
    return next(speaks, newest_first[0])


def with_drafts(catalogue: Catalogue, path: Path) -> Catalogue:
    """The set and, unscored, the entries of the file of drafts; only the set if there is no such file. Raises RequirementsError."""
    if not path.exists():
        return catalogue
    drafts = read_catalogue(path)
    for draft in drafts:
        if draft.id in catalogue:
            raise RequirementsError(f"{path}: {draft.id} is in set {catalogue.version} already; remove the draft")
    return Catalogue(catalogue.version, (*catalogue, *drafts))


def read_catalogue(path: Path) -> Catalogue:
    """Read the set in one TOML file, an array of tables ``[[requirement]]``. Raises RequirementsError."""
    entries = read_entries(path)
    catalogue = Catalogue(path.stem, tuple(_entry(path, number, entry) for number, entry in enumerate(entries, start=1)))
    seen: set[str] = set()
    for requirement in catalogue:
        if requirement.id in seen:
            raise RequirementsError(f"{path}: {requirement.id} stands there twice; give the second one the next free number")
        seen.add(requirement.id)
    return catalogue


def read_entries(path: Path) -> list[Any]:
    """The tables ``[[requirement]]`` of one file as they stand there. Raises RequirementsError."""
    document = _document(path)
    entries = document.get("requirement")
    if set(document) - {"extends"} != {"requirement"} or not isinstance(entries, list) or not entries:
        raise RequirementsError(f"{path} must hold an array of tables [[requirement]] and nothing else, but for the set that it extends")
    return entries


def _document(path: Path) -> dict[str, Any]:
    try:
        return read_toml(path)
    except TextFileError as error:
        raise RequirementsError(f"{error}; restore it from the release") from None


def _entry(path: Path, number: int, entry: Any) -> Requirement:
    name = entry.get("id", f"entry {number}") if isinstance(entry, dict) else f"entry {number}"
    try:
        return Requirement.model_validate({"since": path.stem, **entry} if isinstance(entry, dict) else entry)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "the entry"
        raise RequirementsError(f"{path}: {name}: {key}: {first['msg']}") from None


def _folder() -> Path:
    return resource("conformance", "requirements")


def _drafts() -> Path:
    return _folder() / f"{DRAFT}.toml"


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part)
