"""What a requirement is, and what a set of them can be asked."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field

from pytest_harness.evidence.model import Acts, Dialect, Record, SeamFacts, TrajectoryFormat

Level = Literal["MUST", "SHOULD"]
Subject = Literal["seam", "engine", "proxy", "sandbox", "runtime"]

DRAFT = "draft"
"""What stands for the set of a requirement that is in none yet."""

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
    "SID": "Side calls, subagents, compaction",
    "USE": "Usage and several choices",
    "SBX": "Sandbox",
    "COL": "Collectors",
    "RUN": "White-box runtimes",
    "SEA": "Seam",
}

_OF_CALLS = frozenset(
    {
        *("TOK-012", "STR-006", "FIN-004", "ATF-003", "ATF-004", "ATF-023"),
        *("PAR-001", "PAR-002", "PAR-003", "PAR-004", "PAR-005", "PAR-006", "PAR-007", "PAR-008", "PAR-010", "PAR-011"),
        *("PAR-014", "PAR-015", "PAR-016"),
    }
)
OUT_OF_REACH: dict[Acts | None, frozenset[str]] = {"commands": _OF_CALLS, "files": _OF_CALLS | {"SEA-003"}}
"""What a good rollout cannot come to by how the harness acts: what speaks of calls and their results where there are no tools, and of
commands where there are only files. The released sets do not say so of their requirements, and are not changed any more."""

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
    """By whose suites it is judged."""
    statement: Sentence
    why: Sentence
    seen: Sentence
    """How it is seen in the evidence."""
    saboteurs: Annotated[tuple[str, ...], Field(min_length=1)]
    """Names of the known faults that break it."""
    occasional: bool = False
    """It speaks of what need not come up in a good rollout, such as an error of the engine: it binds wherever that comes up, and is among
    the required checks only then."""
    since: str
    """The set that it came with; ``draft`` for one that is in none yet."""
    applies: Applies = Applies()

    @property
    def family(self) -> str:
        """The three letters of the family."""
        return self.id[:3]

    @property
    def draft(self) -> bool:
        """Whether it is judged and shown without being scored: part of no verdict and of no exit code."""
        return self.since == DRAFT

    @property
    def binding(self) -> bool:
        """Whether a subject that breaks it is refused: a MUST of a set."""
        return self.level == "MUST" and not self.draft


@dataclass(frozen=True)
class Catalogue:
    """One set of requirements in the order of the file, and behind them the drafts, if there are any."""

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
            raise RequirementsError(f"requirement set {self.version} has no requirement {name!r}{close_to(name, self._by_id)}") from None

    def of(self, subject: Subject) -> Catalogue:
        """What of it is judged for this kind of subject."""
        return Catalogue(self.version, tuple(requirement for requirement in self.requirements if subject in requirement.subjects))

    def applicable(self, seam: SeamFacts, engine: str | None = None) -> tuple[Requirement, ...]:
        """The requirements that apply to this seam (and engine, if one is named), in order.

        What is out of its reach is occasional for it: nobody waits for it, and a call that comes up all the same, in its log or on the
        wire, is judged.
        """
        beyond = OUT_OF_REACH.get(seam.acts_by, frozenset())
        return tuple(
            requirement.model_copy(update={"occasional": True}) if requirement.id in beyond else requirement
            for requirement in self.requirements
            if requirement.applies.to(seam, engine)
        )


def close_to(name: str, names: Iterable[str]) -> str:
    """``; did you mean TOK-001?``, empty where none of the names is near."""
    close = difflib.get_close_matches(name, list(names), n=3)
    return f"; did you mean {' or '.join(close)}?" if close else ""
