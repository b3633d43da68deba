"""Reads the rows of the seam table. Whatever is wrong with one is said here: the file, the key, what was found and expected."""

from __future__ import annotations

import datetime
import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from pydantic import ValidationError

from pytest_harness.requirements import read_set
from pytest_harness.resources import resource
from pytest_harness.seams.faults import describe
from pytest_harness.seams.placeholders import merge, placeholders
from pytest_harness.seams.rows import VERSION, HarborInstall, PreinstalledInstall, Seam, SeamError
from pytest_harness.seams.unavailable import FILE as UNAVAILABLE
from pytest_harness.seams.unavailable import Unavailable, read_unavailable
from pytest_harness.textfile import TextFileError, read_toml

NOT_SEAMS = frozenset({"sandboxes", Path(UNAVAILABLE).stem})
"""Stems of TOML files in ``seams/`` that are other tables."""

_NO_NAMES: Mapping[str, str] = MappingProxyType({})
_EVERYWHERE = frozenset({"url", "key", "model"})
_SAID = frozenset({"text", "text_in_json"})


class SeamTable:
    """All rows by name, in the order of their names; and beside them the harnesses that are known and not run."""

    def __init__(self, seams: dict[str, Seam], unavailable: Iterable[Unavailable] = (), other_names: Mapping[str, str] = _NO_NAMES) -> None:
        self._seams = dict(sorted(seams.items()))
        self._unavailable = {each.name: each for each in sorted(unavailable, key=lambda each: each.name) if each.name not in seams}
        self._other_names = {name: row for name, row in other_names.items() if name not in seams}

    @classmethod
    def load(cls, *folders: Path) -> SeamTable:
        """Read the bundled rows, then those of ``folders``; a later row replaces an earlier one of the same name.

        Raises SeamError naming every fault of every file.
        """
        seams: dict[str, Seam] = {}
        unavailable: dict[str, Unavailable] = {}
        other_names: dict[str, str] = {}
        faults: list[str] = []
        for folder in (resource("seams"), *folders):
            if not folder.is_dir():
                faults.append(f"{folder}: no such folder found, a folder with one TOML file a harness expected")
                continue
            for path in sorted(folder.glob("*.toml")):
                if path.stem not in NOT_SEAMS:
                    try:
                        seams.update({seam.name: seam for seam in read_seams(path)})
                    except SeamError as error:
                        faults.append(str(error))
            if (path := folder / UNAVAILABLE).exists():
                try:
                    table = read_unavailable(path)
                except SeamError as error:
                    faults.append(str(error))
                    continue
                unavailable.update({each.name: each for each in table.harness})
                other_names.update(table.other_names)
        if faults:
            raise SeamError("\n".join(faults))
        return cls(seams, unavailable.values(), other_names)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all rows."""
        return tuple(self._seams)

    @property
    def unavailable(self) -> tuple[Unavailable, ...]:
        """The harnesses that are known and that no row runs, in the order of their names."""
        return tuple(self._unavailable.values())

    @property
    def other_names(self) -> Mapping[str, str]:
        """The names that Harbor has for what a row has under another."""
        return MappingProxyType(self._other_names)

    def __getitem__(self, name: str) -> Seam:
        try:
            return self._seams[name]
        except KeyError:
            if name in self._unavailable:
                raise SeamError(self._unavailable[name].sentence) from None
            if self._other_names.get(name) in self._seams:
                raise SeamError(f"there is no harness {name!r}; what Harbor calls so is {self._other_names[name]} here") from None
            programs = [each for each, seam in self._seams.items() if seam.variant_of is None]
            near = (difflib.get_close_matches(name, names, n=3, cutoff=0.55) for names in (programs, [*self._seams, *self._unavailable]))
            close = next(filter(None, near), [])
            hint = f"did you mean {' or '.join(close)}? " if close else ""
            known = f"known: {', '.join(self._seams) or 'none'}; the folder of a row of your own is named with --seams"
            raise SeamError(f"there is no harness {name!r}; {hint}{known}") from None

    def get(self, spec: str) -> Seam:
        """The row that ``NAME[@VERSION]`` asks for; VERSION is an exact version of the harness, or ``latest``.

        Raises SeamError if there is no such row, naming those that are there.
        """
        name, at, version = spec.partition("@")
        seam = self[name]
        if not at:
            return seam
        if not version:
            raise SeamError(f"{spec!r} ends in @: write an exact version or latest after it, or leave the @ out")
        if not re.fullmatch(VERSION, version):
            raise SeamError(f"{version!r} is no version of {name}: write an exact one such as 1.6.0, or latest")
        if isinstance(seam.install, PreinstalledInstall | HarborInstall):
            raise SeamError(f"{name} is installed already, in the version that it has: leave @{version} out")
        return seam.model_copy(update={"install": seam.install.model_copy(update={"version": version})})

    def __iter__(self) -> Iterator[str]:
        return iter(self._seams)

    def __len__(self) -> int:
        return len(self._seams)


def read_seams(path: Path) -> tuple[Seam, ...]:
    """The row of a file, and one more for each of its ``[variants]``. Raises SeamError naming every fault of the file.

    A variant is the row with the variant's tables laid over it; lists are replaced whole. Its name is the row's, a hyphen, and its own.
    """
    where = f"{path.parent.name}/{path.name}"
    try:
        document = read_toml(path, where)
    except TextFileError as error:
        raise SeamError(str(error)) from None
    variants = document.pop("variants", {})
    row = _seam_of(document, where)
    faults = list(_faults_of_variants(variants))
    if row.name != path.stem:
        faults.insert(0, f'name: "{row.name}" found, "{path.stem}" as in the file\'s name expected')
    if row.variant_of is not None:
        faults.append("variant_of: found, but the table sets it; put the variant below [variants]")
    if faults:
        raise SeamError("\n".join(f"{where}: {fault}" for fault in faults))
    seams = [row]
    for name, over in variants.items():
        own = {"title": f"{row.title} ({name})", **over, "name": f"{row.name}-{name}", "variant_of": row.name}
        seams.append(_named_in_deviations(_seam_of(merge(document, own), f"{where}: variants.{name}")))
    return tuple(seam.at(path.parent.resolve()) for seam in seams)


def _seam_of(document: dict[str, Any], where: str) -> Seam:
    try:
        # By way of JSON: strict, and yet TOML's arrays are tuples and its dates ISO strings.
        seam = Seam.model_validate_json(json.dumps(document, default=str))
    except ValidationError as error:
        raise SeamError("\n".join(f"{where}: {fault}" for fault in describe(Seam, error))) from None
    if not seam.scenarios:
        seam = seam.model_copy(update={"scenarios": tuple(_bundled_scenarios(seam))})
    faults = list(_unknown_placeholders(seam))
    faults += [f"inapplicable.{name}: found, but scenarios lists it too" for name in seam.inapplicable if name in seam.scenarios]
    judging = {*seam.scenarios, *seam.inapplicable}  # a variant says of more scenarios that they do not apply than its row does
    faults += [
        f"{table}: {each.requirement} is said to fail in {scenario}, which is no scenario of this row"
        for table, entries in (("known_failures", seam.known_failures), ("deviations", seam.deviations))
        for each in entries
        for scenario in each.scenarios
        if scenario not in judging and scenario not in _needs()
    ]
    if seam.fast and seam.slow:
        faults.append("slow: found, but fast says the opposite; remove one of the two")
    faults += _faults_of_excuses(seam)
    if seam.outside and seam.agent.harbor is None:
        faults.append("agent.command: found, but what is installed with Harbor is started by agent.harbor")
    if faults:
        raise SeamError("\n".join(f"{where}: {fault}" for fault in faults))
    return seam


def _faults_of_excuses(seam: Seam) -> Iterator[str]:
    """An entry of what nobody requires says nothing, and one without versions or a day excuses nothing or everything."""
    for table, entries in (("known_failures", seam.known_failures), ("deviations", seam.deviations)):
        yield from (f"{table}: {each.requirement} found, a requirement expected" for each in entries if each.requirement not in _required())
    yield from (f"known_failures: {each.requirement} found without a reason" for each in seam.known_failures if not each.reason.strip())
    for each in seam.deviations:
        try:
            SpecifierSet(each.versions)
        except InvalidSpecifier:
            yield f'deviations: {each.requirement}: versions "{each.versions}" found, a specifier such as ">=0.26,<0.27" expected'
        try:
            datetime.date.fromisoformat(each.expires)
        except ValueError:
            yield f'deviations: {each.requirement}: expires "{each.expires}" found, a day such as "2027-03-01" expected'


@cache
def _required() -> frozenset[str]:
    return frozenset(each.id for each in read_set())


def _bundled_scenarios(seam: Seam) -> Iterator[str]:
    """Those that apply: neither does the row say why not, nor does the scenario need what the row does not have."""
    return (name for name, needs in _needs().items() if name not in seam.inapplicable and all(map(seam.meets, needs)))


@cache
def _needs() -> dict[str, tuple[str | None, ...]]:
    """What each bundled scenario needs of a row: what it says, and a shell for its commands."""
    documents = {path.stem: read_toml(path) for path in sorted(resource("fixtures", "scenarios").glob("*.toml"))}
    return {
        name: (document.get("needs"), *(["shell"] if any(step.get("shell") for step in document["steps"]) else []))
        for name, document in documents.items()
    }


def _named_in_deviations(variant: Seam) -> Seam:
    """A fault of the program is, in a variant's evidence, a fault of the harness that the evidence names."""
    deviations = tuple(
        each.model_copy(update={"subject": variant.name}) if each.subject == variant.variant_of else each for each in variant.deviations
    )
    return variant.model_copy(update={"deviations": deviations})


def _faults_of_variants(variants: Any) -> Iterator[str]:
    if not isinstance(variants, dict):
        yield f"variants: {json.dumps(variants, default=str)} found, a table with one table for each variant expected"
        return
    for name, over in variants.items():
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
            yield f'variants: "{name}" found, a name of lower-case letters, digits and single hyphens expected'
        elif not isinstance(over, dict):
            yield f"variants.{name}: {json.dumps(over, default=str)} found, a table expected"
        else:
            yield from (f"variants.{name}.{key}: found, but the table sets it" for key in ("name", "variant_of", "variants") if key in over)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a row, for editors and for other programs."""
    schema = Seam.model_json_schema()
    del schema["properties"]["variant_of"]
    schema["properties"]["variants"] = {
        "title": "Variants",
        "description": "Further rows of the same program: what each has other than this one.",
        "type": "object",
        "additionalProperties": {"type": "object"},
    }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _unknown_placeholders(seam: Seam) -> Iterator[str]:
    tables: tuple[tuple[str, Any, frozenset[str]], ...] = (
        ("agent", seam.agent.model_dump(exclude={"command"}), _EVERYWHERE),
        ("agent.command", seam.agent.command, _EVERYWHERE | {"instruction"}),
        ("step_limit", seam.step_limit and seam.step_limit.model_dump(), _EVERYWHERE | {"steps"}),
        ("compaction", seam.compaction and seam.compaction.model_dump(), _EVERYWHERE),
        ("subagent", seam.subagent and seam.subagent.model_dump(), frozenset({"prompt"})),
        ("shell.text", seam.shell and seam.shell.text, _SAID | {"command", "command_in_json"}),
        ("finish.text", seam.finish.text, _SAID),
        ("edit.text", seam.edit and seam.edit.text, _SAID | {"path", "path_in_json", "content", "content_in_json"}),
    )
    for key, table, known in tables:
        expected = " ".join(f"{{{each}}}" for each in sorted(known))
        for where, name in placeholders(key, table):
            if name not in known:
                yield f"{where}: placeholder {{{name}}} found, one of {expected} expected"
