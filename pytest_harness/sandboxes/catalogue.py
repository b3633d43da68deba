"""Every backend that Harbor registers: what it needs, what it can, and how a harness in it reaches the proxy (``seams/sandboxes.toml``).

What of it is there on a machine is computed from the table and the machine; nobody types it. Nothing here imports a vendor's SDK or asks
anybody over the network.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from packaging.requirements import Requirement
from pydantic import Field, StringConstraints, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from pytest_harness.resources import resource
from pytest_harness.seams.faults import describe
from pytest_harness.seams.rows import Name, Row, SeamError, Text
from pytest_harness.textfile import TextFileError, read_toml

FILE = "sandboxes.toml"

Variable = Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]*$")]
Capability = Literal[
    "mounted",
    "docker_compose",
    "gpus",
    "tpus",
    "windows",
    "disable_internet",
    "network_allowlist",
    "dynamic_network_policy",
    "stream",
]
"""Harbor's names, see its ``EnvironmentCapabilities``. What only refines a network's list of allowed hosts is left out."""


class Credentials(Row):
    """One way to prove to a backend who is asking: variables, or a file and what makes it, or a login that leaves nothing to be seen."""

    variables: tuple[Variable, ...] = Field(default=(), examples=[["MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET"]])
    """Environment variables, all of which are needed."""
    file: Text | None = Field(default=None, examples=["~/.modal.toml"])
    """A file that is enough where it exists."""
    command: Text | None = Field(default=None, examples=["modal token new"])
    """What a person runs to make the file, or to log in."""

    @model_validator(mode="after")
    def _is_one_way(self) -> Self:
        if bool(self.variables) == bool(self.file or self.command):
            raise PydanticCustomError("seam", "variables alone, or a file or a command expected")
        return self

    @property
    def found(self) -> bool | None:
        """Whether they are there; None where only the backend can say."""
        if self.variables:
            return all(os.environ.get(name) for name in self.variables)
        return None if self.file is None else Path(self.file).expanduser().exists()

    @property
    def wish(self) -> str:
        """What to do for them."""
        if self.variables:
            return f"set {' and '.join(self.variables)}"
        return f"run {self.command}" if self.command else f"make {self.file}"


class Backend(Row):
    """A backend of Harbor's."""

    name: Name = Field(examples=["modal"])
    """Harbor's name of it."""
    title: Text = Field(examples=["Modal"])
    """Its name for people."""
    runs: Literal["here", "remote"]
    """Whether what it starts runs on this machine."""
    reach: Literal["loopback", "public-url"]
    """How a harness in it reaches a proxy that listens on this machine's loopback: by itself, or by a URL that somebody leads there."""
    extra: Name | None = Field(default=None, examples=["modal"])
    """The extra of Harbor's package that brings what its class imports."""
    programs: tuple[Text, ...] = Field(default=(), examples=[["az"]])
    """Programs that its class calls on this machine."""
    credentials: tuple[Credentials, ...] = ()
    """One of these is needed; none where there is none."""
    image_only: bool = False
    """Whether it starts from a prebuilt image alone, which the task must name; of a Dockerfile it knows nothing."""
    capabilities: tuple[Capability, ...] = Field(examples=[["disable_internet", "docker_compose"]])
    """What it can in some configuration."""

    @property
    def lacks(self) -> tuple[str, ...]:
        """What has to be done before it can be asked for anything, in words; nothing where, as far as can be seen, all is there."""
        return tuple(self._wishes())

    @property
    def unseen(self) -> str | None:
        """What may have to be done as well, where only the backend itself can say whether it was."""
        found = [each.found for each in self.credentials]
        return self._wish if None in found and True not in found else None

    @property
    def state(self) -> str:
        """How it stands with it on this machine, as far as can be seen without asking it."""
        if self.lacks:
            return f"lacks: {'; '.join(self.lacks)}"
        return "nothing is seen to lack" if self.unseen is None else f"nothing is seen to lack; if it was not done yet: {self.unseen}"

    @property
    def _wish(self) -> str:
        return " or ".join(dict.fromkeys(each.wish for each in self.credentials))

    def _wishes(self) -> Iterator[str]:
        if self.credentials and all(each.found is False for each in self.credentials):
            yield self._wish
        if self.extra is not None and not has_extra(self.extra):
            yield f"pip install 'harbor[{self.extra}]'"
        if missing := [program for program in self.programs if shutil.which(program) is None]:
            yield f"install {' and '.join(missing)}"


class Catalogue(Row):
    """The backends."""

    sandbox: tuple[Backend, ...] = ()
    """One entry a backend."""


def read_catalogue(path: Path) -> Mapping[str, Backend]:
    """The backends of a file by their name, in its order. Raises SeamError naming every fault of it."""
    where = f"{path.parent.name}/{path.name}"
    try:
        # By way of JSON: strict, and yet TOML's arrays are tuples.
        table = Catalogue.model_validate_json(json.dumps(read_toml(path, where), default=str))
    except TextFileError as error:
        raise SeamError(str(error)) from None
    except ValidationError as error:
        raise SeamError("\n".join(f"{where}: {fault}" for fault in describe(Catalogue, error))) from None
    names = [each.name for each in table.sandbox]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise SeamError(f"{where}: {', '.join(twice)} found more than once, one entry each expected")
    return {each.name: each for each in table.sandbox}


@cache
def bundled_catalogue() -> Mapping[str, Backend]:
    """The backends that this version knows."""
    return read_catalogue(resource("seams", FILE))


def catalogue_schema() -> dict[str, Any]:
    """The JSON Schema of the table, for editors and for other programs."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Catalogue.model_json_schema()}


@cache
def has_extra(extra: str) -> bool:
    """Whether all that an extra of Harbor's package brings is installed here."""
    requirements = map(Requirement, importlib.metadata.requires("harbor") or ())
    return all(_is_installed(each.name) for each in requirements if each.marker is not None and each.marker.evaluate({"extra": extra}))


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
