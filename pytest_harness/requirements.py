"""Reads the frozen catalogues of requirements. A catalogue is data; what it says is never repeated in code.

Each ``conformance/requirements/<version>.toml`` is one set for seams, each ``conformance/requirements/proxy/<version>.toml`` one for
capture proxies, whose numbers begin at 101: an id names one requirement in all sets. ``python -m pytest_harness.requirements`` prints the
newest set of seams as Markdown, which is how ``docs/requirements.md`` is made, and with ``proxy`` that of proxies for
``docs/requirements-proxy.md``.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from pytest_harness.evidence.model import Dialect, Record, SeamFacts, TrajectoryFormat
from pytest_harness.resources import resource
from pytest_harness.textfile import TextFileError, read_toml

Level = Literal["MUST", "SHOULD"]
Subject = Literal["seam", "engine", "proxy", "sandbox", "runtime"]

FAMILIES = {
    "TOK": "Token ids",
    "LGP": "Logprobs",
    "GRF": "Conversation graph",
    "PAR": "Tool-call pairing",
    "STR": "Streams and replies",
    "DIA": "Dialects, routes and transports",
    "ERR": "Errors",
    "ATF": "Trajectory (ATIF)",
    "REW": "Reward",
    "ISO": "Isolation and secrets",
    "FIN": "Finish reasons and limits",
    "CAN": "Cancellation, retries, concurrency",
    "USE": "Usage and several choices",
    "SEA": "Seam",
}

Sentence = Annotated[str, Field(pattern=r"^\S(.*\S)?\.$")]


class RequirementsError(Exception):
    """A catalogue or a requirement that cannot be had; the message says which, where, and what to do."""


class Applies(Record):
    """To which evidence a requirement applies. What is None or empty restricts nothing."""

    streams: bool | None = None
    trajectory: TrajectoryFormat | None = None
    dialects: tuple[Dialect, ...] = ()
    engines: tuple[str, ...] = ()

    def to(self, seam: SeamFacts, engine: str | None = None) -> bool:
        """Whether it applies to this seam; an engine of None leaves the engines out of account."""
        return (
            (self.streams is None or self.streams == seam.streams)
            and (self.trajectory is None or self.trajectory == seam.trajectory)
            and (not self.dialects or seam.dialect in self.dialects)
            and (engine is None or not self.engines or engine in self.engines)
        )


class Requirement(Record):
    """One numbered MUST or SHOULD."""

    id: Annotated[str, Field(pattern=rf"^({'|'.join(FAMILIES)})-\d{{3}}$")]
    title: Annotated[str, Field(min_length=1)]
    level: Level
    subjects: Annotated[tuple[Subject, ...], Field(min_length=1)]
    statement: Sentence
    why: Sentence
    seen: Sentence
    """How it is seen in the evidence."""
    saboteurs: Annotated[tuple[str, ...], Field(min_length=1)]
    """Names of the known faults that break it."""
    applies: Applies = Applies()

    @property
    def family(self) -> str:
        """The three letters of the family."""
        return self.id[:3]


@dataclass(frozen=True)
class Catalogue:
    """One frozen set of requirements, in the order of the file."""

    version: str
    requirements: tuple[Requirement, ...]

    @cached_property
    def _by_id(self) -> dict[str, Requirement]:
        return {requirement.id: requirement for requirement in self.requirements}

    def __iter__(self) -> Iterator[Requirement]:
        return iter(self.requirements)

    def __len__(self) -> int:
        return len(self.requirements)

    def __contains__(self, name: object) -> bool:
        return name in self._by_id

    def __getitem__(self, name: str) -> Requirement:
        """The requirement of this id. Raises RequirementsError, naming close matches."""
        try:
            return self._by_id[name]
        except KeyError:
            hint = _close(name, self._by_id)
            raise RequirementsError(f"requirement set {self.version} has no requirement {name!r}{hint}") from None

    def applicable(self, seam: SeamFacts, engine: str | None = None) -> tuple[Requirement, ...]:
        """The requirements that apply to this seam (and engine, if one is named), in order."""
        return tuple(requirement for requirement in self.requirements if requirement.applies.to(seam, engine))


def _folder(subject: Subject) -> tuple[str, ...]:
    return ("conformance", "requirements") if subject == "seam" else ("conformance", "requirements", subject)


def catalogue_versions(subject: Subject = "seam") -> tuple[str, ...]:
    """The versions of all bundled sets of this kind of subject, oldest first."""
    folder = resource(*_folder(subject))
    return tuple(sorted((path.stem for path in folder.glob("*.toml")), key=_order))


def load_catalogue(version: str | None = None, subject: Subject = "seam") -> Catalogue:
    """A bundled set of this kind of subject, the newest by default.

    Raises RequirementsError if there is no such set or its file is not as it should be.
    """
    versions = catalogue_versions(subject)
    if version is None:
        version = versions[-1]
    if version not in versions:
        raise RequirementsError(f"there is no requirement set {version!r}{_close(version, versions)}; the sets are {', '.join(versions)}")
    return read_catalogue(resource(*_folder(subject), f"{version}.toml"))


def read_catalogue(path: Path) -> Catalogue:
    """Read the set in one TOML file, an array of tables ``[[requirement]]``. Raises RequirementsError."""
    try:
        document = read_toml(path)
    except TextFileError as error:
        raise RequirementsError(f"{error}; restore it from the release") from None
    entries = document.get("requirement")
    if set(document) != {"requirement"} or not isinstance(entries, list) or not entries:
        raise RequirementsError(f"{path} must hold an array of tables [[requirement]] and nothing else")
    catalogue = Catalogue(path.stem, tuple(_entry(path, number, entry) for number, entry in enumerate(entries, start=1)))
    seen: set[str] = set()
    for requirement in catalogue:
        if requirement.id in seen:
            raise RequirementsError(f"{path}: {requirement.id} stands there twice; give the second one the next free number")
        seen.add(requirement.id)
    return catalogue


def to_markdown(catalogue: Catalogue, subject: Subject = "seam") -> str:
    """The set as a page of Markdown, family by family."""
    title, argument, page = ("", "", "") if subject == "seam" else (f" of a {subject},", f" {subject}", f"-{subject}")
    lines = [
        f"# Requirements{title} {catalogue.version}",
        "",
        f"{len(catalogue)} requirements. Made from `{'/'.join(_folder(subject))}/{catalogue.version}.toml` by",
        f"`python -m pytest_harness.requirements{argument} > docs/requirements{page}.md`; change them there.",
        "",
    ]
    for family, name in FAMILIES.items():
        entries = [requirement for requirement in catalogue if requirement.family == family]
        if entries:
            lines += [f"## {family}: {name}", ""]
        for requirement in entries:
            lines += [
                f"### {requirement.id} {requirement.title} ({requirement.level})",
                "",
                requirement.statement,
                "",
                f"- *Why:* {requirement.why}",
                f"- *Seen:* {requirement.seen}",
                f"- *Broken by:* {', '.join(f'`{name}`' for name in requirement.saboteurs)}",
                *_conditions(requirement.applies),
                "",
            ]
    return "\n".join(lines).rstrip() + "\n"


def _conditions(applies: Applies) -> list[str]:
    conditions = []
    if applies.streams is not None:
        conditions.append("streamed seams" if applies.streams else "seams that do not stream")
    if applies.trajectory is not None:
        conditions.append("seams with an ATIF trajectory" if applies.trajectory == "atif" else "seams without a trajectory")
    if applies.dialects:
        conditions.append(f"the dialects {', '.join(applies.dialects)}")
    if applies.engines:
        conditions.append(f"the engines {', '.join(applies.engines)}")
    return [f"- *Only for:* {'; '.join(conditions)}"] if conditions else []


def _entry(path: Path, number: int, entry: Any) -> Requirement:
    name = entry.get("id", f"entry {number}") if isinstance(entry, dict) else f"entry {number}"
    try:
        return Requirement.model_validate(entry)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "the entry"
        raise RequirementsError(f"{path}: {name}: {key}: {first['msg']}") from None


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else 0 for part in version.split("."))


def _close(name: str, names: Any) -> str:
    close = difflib.get_close_matches(name, list(names), n=3)
    return f"; did you mean {' or '.join(close)}?" if close else ""


if __name__ == "__main__":
    chosen: Subject = "proxy" if sys.argv[1:] == ["proxy"] else "seam"
    sys.stdout.write(to_markdown(load_catalogue(subject=chosen), chosen))
