"""What a check is and what it finds: pure functions from evidence to faults, registered under the requirement they check.

A check yields one ``Fault`` for each way in which the evidence breaks its requirement. It raises ``NotExercised`` if the evidence
never came to what the requirement is about, and ``Unverifiable`` if it did but shows nothing to compare: neither is a pass.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from pytest_harness.evidence.model import Evidence
from pytest_harness.requirements import Requirement

Result = Literal["passed", "failed", "not_exercised", "unverifiable", "deviation", "error"]


class ContractError(Exception):
    """A check that is missing or registered twice; the message names it."""


class NotExercised(Exception):  # noqa: N818 - it is an answer, not an error
    """The evidence never came to what the requirement is about; the message says what was missing."""


class Unverifiable(Exception):  # noqa: N818 - it is an answer, not an error
    """There is nothing to compare in the evidence; the message says what was missing."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One way in which the evidence breaks a requirement.

    ``call`` is the index of the wire call, None if it is about no single one. ``where`` is the place in the evidence, e.g.
    ``calls.ndjson line 3, replied.body choices[0].token_ids``.
    """

    call: int | None
    expected: str
    seen: str
    where: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault and the requirement that it breaks."""

    requirement: str
    call: int | None
    expected: str
    seen: str
    where: str

    def __str__(self) -> str:
        return f"{self.requirement}: {self.where}: expected {self.expected}, seen {self.seen}"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What one check said of one evidence. ``reason`` is empty for a pass and a plain failure."""

    requirement: Requirement
    evidence: str
    """The name of the evidence, e.g. ``pi-in-local-edit_file``."""
    result: Result
    findings: tuple[Finding, ...] = ()
    reason: str = ""


Check = Callable[[Evidence], Iterable[Fault]]

_CHECKS: dict[str, Check] = {}


def check(requirement: str) -> Callable[[Check], Check]:
    """Register the one check of this requirement. Raises ContractError if it already has one."""

    def register(function: Check) -> Check:
        if requirement in _CHECKS:
            raise ContractError(f"{requirement} has two checks: {_CHECKS[requirement].__name__} and {function.__name__}; remove one")
        _CHECKS[requirement] = function
        return function

    return register


def registered() -> Mapping[str, Check]:
    """All registered checks by the id of their requirement, read-only."""
    return MappingProxyType(_CHECKS)


def check_of(requirement: str) -> Check:
    """The check of this requirement. Raises ContractError, naming close matches."""
    try:
        return _CHECKS[requirement]
    except KeyError:
        close = difflib.get_close_matches(requirement, _CHECKS, n=3)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        raise ContractError(f"no check is registered for {requirement}{hint}") from None
