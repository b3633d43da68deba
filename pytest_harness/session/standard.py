"""The guard of the bundled suite: which of its tests a run came to, and which it did not, for whatever reason.

A host can take a test away in many ways: by an option, by a path that is named instead, by a hook of its ``conftest.py``, by a mark. None
of them breaks anything, so none of them would be seen; and a requirement that was left out where it fails looks like one that is met.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import pytest

from pytest_harness.session.plan import Attempt, Plan

ROLLOUT, REQUIREMENT = "test_rollout", "test_requirement"
"""The two tests of the bundled suite, each of which is parametrised by the plan."""
BLIND = "skipped, or ended without looking at the subject"
NOT_REACHED = "not reached before the run ended"
NOT_COLLECTED = "not collected, or taken away without a word"
DESELECTED = "deselected"
_SHOWN = 3
"""So many examples are given of what neither an option nor a count of pytest's tells."""


def name_of(nodeid: str) -> str:
    """The name of a test with its parameters, without its file and without what xdist puts behind it."""
    return f"{nodeid.partition('[')[0].rpartition('::')[2]}[{parameters_of(nodeid)}]"


def parameters_of(name: str) -> str:
    """The parameters of a test, by its name or its node id; empty where it has none."""
    return name.partition("[")[2].rpartition("]")[0]


def standard_tests(plan: Plan) -> dict[str, Attempt]:
    """The tests that the bundled suite has for this plan, by name, each with the attempt that it is of."""
    tests = {}
    for attempt in plan.attempts:
        tests[f"{ROLLOUT}[{attempt.id}]"] = attempt
        tests |= {f"{REQUIREMENT}[{attempt.id}-{requirement.id}]": attempt for requirement in plan.requirements(attempt)}
    return tests


def attempts_of(tests: Mapping[str, Attempt], nodeids: Iterable[str]) -> list[Attempt]:
    """The attempts that these tests need, whoever wrote them, each once; ``tests`` are the standard ones."""
    chosen = set(map(parameters_of, nodeids))
    return list({attempt.id: attempt for name, attempt in tests.items() if parameters_of(name) in chosen}.values())


@dataclass
class Guard:
    """Follows the tests of one run, from what is collected to what was said.

    ``tests`` are the names of the standard ones, as ``name`` makes them of a node id.
    """

    tests: dict[str, None]
    name: Callable[[str], str] = name_of
    collected: set[str] = field(default_factory=set)
    deselected: set[str] = field(default_factory=set)
    blind: set[str] = field(default_factory=set)
    settled: set[str] = field(default_factory=set)

    def collect(self, nodeids: Iterable[str]) -> None:
        """Hear what will run."""
        self.collected.update(map(self.name, nodeids))

    def deselect(self, nodeids: Iterable[str]) -> None:
        """Hear what will not run, and was told to."""
        self.deselected.update(map(self.name, nodeids))

    def hear(self, report: pytest.TestReport, *, looked: bool) -> None:
        """Hear a report: a test that looked at the subject is settled, whatever it said of it, and so is one that failed before."""
        if looked or report.failed:
            self.settled.add(self.name(report.nodeid))
        elif report.skipped or report.when == "call":
            self.blind.add(self.name(report.nodeid))

    @property
    def missing(self) -> list[str]:
        """The tests that nobody heard of, in the order of the plan."""
        return [name for name in self.tests if name not in self.settled]

    def sentence(self) -> str | None:
        """What was not run, and how it came; None if all of it was."""
        if not (missing := self.missing):
            return None
        reasons: dict[str, list[str]] = {}
        for name in missing:
            reasons.setdefault(self._reason(name), []).append(name)
        told = "; ".join(
            f"{len(names)} {reason}{_examples(names) if reason in (BLIND, NOT_COLLECTED) else ''}" for reason, names in reasons.items()
        )
        return f"{len(missing)} of {len(self.tests)} standard checks were not run: {told}"

    def _reason(self, name: str) -> str:
        if name in self.deselected:
            return DESELECTED
        if name in self.blind:
            return BLIND
        return NOT_REACHED if name in self.collected else NOT_COLLECTED


def _examples(names: list[str]) -> str:
    more = ", …" if len(names) > _SHOWN else ""
    shown = [name.rpartition("/")[2] for name in names[:_SHOWN]]
    return f" ({', '.join(shown)}{more})"
