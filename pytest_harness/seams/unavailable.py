"""The harnesses that are known and not run: why each is not, and how it would be pointed at the proxy as far as that is known.

What such a harness counts as is computed from the kind of its reason; nobody types it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, ValidationError

from pytest_harness.seams.faults import describe
from pytest_harness.seams.rows import Name, Row, SeamError, Text
from pytest_harness.textfile import TextFileError, read_toml

FILE = "unavailable.toml"

Kind = Literal["account", "no-channel", "installer", "package", "untried"]
"""Why: it wants a vendor's account; its model calls cannot be sent to us; only an installer of the vendor's brings it; what a package
registry has of it does not work; nobody has tried."""


class Unavailable(Row):
    """A harness that no row runs."""

    name: Name = Field(examples=["goose"])
    """Its name: Harbor's, where Harbor knows it."""
    title: Text = Field(examples=["Goose"])
    """Its name for people."""
    channel: Text | None = Field(default=None, examples=["environment OPENAI_BASE_URL and OPENAI_API_KEY"])
    """How it would be pointed at the proxy; left out where that is not known."""
    kind: Kind
    """What kind of reason it is."""
    reason: Text = Field(examples=["only its vendor's installer brings the program"])
    """The reason, in a sentence without its full stop."""
    seen: Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}$")] = Field(examples=["2026-11-29"])
    """The date on which that was seen."""

    @property
    def status(self) -> str:
        """``untested: why`` where it was never tried, else ``blocked: why``."""
        return f"{'untested' if self.kind == 'untried' else 'blocked'}: {self.reason}"

    @property
    def sentence(self) -> str:
        """The answer to whoever asks for it by name."""
        return f"{self.name} cannot be run: {self.status} (seen {self.seen})"


class UnavailableTable(Row):
    """The harnesses that no row runs, and the names by which others call those that one does."""

    other_names: dict[Name, Name] = Field(default={}, examples=[{"qwen-coder": "qwen-code"}])
    """Harbor's name of a harness -> the row that has it under another."""
    harness: tuple[Unavailable, ...] = ()
    """One entry a harness."""


def read_unavailable(path: Path) -> UnavailableTable:
    """The table in a file. Raises SeamError naming every fault of it."""
    where = f"{path.parent.name}/{path.name}"
    try:
        # By way of JSON: strict, and yet TOML's arrays are tuples and its dates ISO strings.
        table = UnavailableTable.model_validate_json(json.dumps(read_toml(path, where), default=str))
    except TextFileError as error:
        raise SeamError(str(error)) from None
    except ValidationError as error:
        raise SeamError("\n".join(f"{where}: {fault}" for fault in describe(UnavailableTable, error))) from None
    names = [each.name for each in table.harness]
    if twice := sorted({name for name in names if names.count(name) > 1} | (set(names) & set(table.other_names))):
        raise SeamError(f"{where}: {', '.join(twice)} found more than once, one entry each expected")
    return table


def unavailable_schema() -> dict[str, Any]:
    """The JSON Schema of the table, for editors and for other programs."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **UnavailableTable.model_json_schema()}
