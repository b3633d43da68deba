"""What the catalogue was made from: ``conformance/requirements/sources.toml`` names every property of every source with the requirements
that came of it, or the reason why none did, and every published fault with the saboteur that is named after it.

``python -m pytest_harness.requirements left-out`` prints what was left out, for ``docs/decisions.md``, and ``faults`` every published fault
with what does it again, which is ``docs/faults.md``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from pydantic import Field, ValidationError, model_validator

from pytest_harness.evidence.model import Record
from pytest_harness.requirements.model import RequirementsError, Sentence
from pytest_harness.resources import resource
from pytest_harness.textfile import TextFileError, read_toml


class Property(Record):
    """One property of a source: what asks for it, what shows it, what of it is left out."""

    id: str
    says: str
    by: tuple[str, ...] = ()
    """The requirements that ask for it."""
    faults: tuple[str, ...] = ()
    """The saboteurs or scenarios that show it broken."""
    left_out: Sentence | None = None
    """Why it, or what goes beyond the requirements named, is in none."""
    link: str | None = None

    @model_validator(mode="after")
    def _is_settled(self) -> Self:
        if not self.by and not self.faults and self.left_out is None:
            raise ValueError(f"{self.id} names neither a requirement nor a reason")
        return self


class Source(Record):
    """One source with all its properties."""

    name: str
    title: str
    properties: tuple[Property, ...] = Field(min_length=1)


class _Document(Record):
    source: tuple[Source, ...]


def read_sources() -> tuple[Source, ...]:
    """All sources. Raises RequirementsError if the file is not as it should be."""
    path = resource("conformance", "requirements", "sources.toml")
    try:
        return _Document.model_validate(read_toml(path)).source
    except TextFileError as error:
        raise RequirementsError(f"{error}; restore it from the release") from None
    except ValidationError as error:
        first = error.errors()[0]
        raise RequirementsError(f"{path}: {'.'.join(str(part) for part in first['loc'])}: {first['msg']}") from None


def left_out(sources: Iterable[Source]) -> str:
    """What no requirement asks for, as Markdown."""
    lines: list[str] = []
    for source in sources:
        gaps = [each for each in source.properties if each.left_out is not None]
        if gaps:
            lines += [f"### {source.title}", ""]
        for gap in gaps:
            instead = f" ({', '.join(gap.by or gap.faults)} for the rest)" if gap.by or gap.faults else ""
            lines += [f"- *{gap.id}, {gap.says}*{instead}: {gap.left_out}"]
        if gaps:
            lines += [""]
    return "\n".join(lines)


def faults_page(source: Source) -> str:
    """Every fault that others published, with the saboteurs or scenarios that do it again and what must notice, as Markdown."""
    lines = [
        "# Published faults",
        "",
        "<!-- made by python -m pytest_harness.requirements faults, not by hand -->",
        "",
        "What others reported of their own projects, each in a few words of ours with its link. The saboteur is the fault itself, done",
        "again to a good record (`pytest --replay FOLDER --sabotage NAME`) or to live traffic; the requirements are those that turn red by",
        "it, or ask for the same elsewhere: [requirements.md](requirements.md) has them all. `python tests/saboteurs/matrix.py all` shows",
        "that they do.",
        "",
        "| # | fault | done again by | requirements |",
        "|--:|---|---|---|",
    ]
    for each in source.properties:
        again = ", ".join(f"`{name}`" for name in each.faults) or f"nothing: {each.left_out}"
        lines += [f"| {each.id} | [{each.says}]({each.link}) | {again} | {', '.join(each.by)} |"]
    return "\n".join(lines) + "\n"
