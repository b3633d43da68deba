"""What only several attempts together can show: checks over the rollouts of one seam, registered beside those of one evidence.

A group check is given an outline of each attempt, as their evidence together may be larger than the memory. It yields the one that breaks
the requirement and how. What it finds counts as a finding of that attempt.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from pytest_harness.contract.model import ContractError, Fault, Finding
from pytest_harness.contract.outline import Outline

GroupCheck = Callable[[Sequence[Outline]], Iterable[tuple[Outline, Fault]]]

_GROUP_CHECKS: dict[str, GroupCheck] = {}


def group_check(requirement: str) -> Callable[[GroupCheck], GroupCheck]:
    """Register the one group check of this requirement, which has a check of one evidence too. Raises ContractError if it has one."""

    def register(function: GroupCheck) -> GroupCheck:
        if requirement in _GROUP_CHECKS:
            names = f"{_GROUP_CHECKS[requirement].__name__} and {function.__name__}"
            raise ContractError(f"{requirement} has two group checks: {names}; remove one")
        _GROUP_CHECKS[requirement] = function
        return function

    return register


def group_findings(group: Sequence[Outline]) -> dict[str, tuple[Finding, ...]]:
    """By the id of the attempt, what the attempts of one seam show together. A copy of an attempt says nothing new."""
    distinct = list({outline.manifest.attempt_id: outline for outline in reversed(group)}.values())[::-1]
    found: defaultdict[str, list[Finding]] = defaultdict(list)
    for requirement, function in _GROUP_CHECKS.items():
        for outline, fault in function(distinct):
            finding = Finding(requirement, fault.call, fault.expected, fault.seen, fault.where)
            found[outline.manifest.attempt_id].append(finding)
    return {attempt: tuple(findings) for attempt, findings in found.items()}
