"""Chooses what a run rolls out: of a harness that was named everything, of those that a group reached what is worth its time.

A named harness runs in every sandbox and every scenario. For those that ``all`` or ``fast`` reached, a choice of *pairs* is enough by
default where there is more than one sandbox: each harness meets each sandbox, each harness each scenario, and each sandbox each scenario at
least once. Variants are one program: of each, only what shows its wire runs, the rest on the row itself. The same of a row that is slow, so
that a whole table ends while somebody waits. A fault that we play is the same whatever engine is behind it: a scenario with one runs on
the scripted engine, also of a named harness. What the choice leaves out is told, never dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

from pytest_harness.seams import Seam

ALL = "all"
FAST = "fast"
GROUPS = frozenset({ALL, FAST})
"""Names that stand for several rows."""
FAST_SCENARIO = "edit_file"
"""The scenario of the fast tier, where none is named."""
WIRE_SCENARIOS = frozenset({"edit_file", "explore", "parallel_calls"})
"""What shows a wire: all that a group runs of a variant, whose program is judged by everything else on another wire, and of a slow row."""
FAULTY = "its fault is played by us, on whichever engine, and the scripted one shows it; --scenario or --full-matrix runs it here too"
PAIRWISE = "each of its pairs runs in another combination; --full-matrix runs this one too"


class Cell(NamedTuple):
    """One rollout, without its engine and its attempts."""

    harness: str
    sandbox: str
    scenario: str


class Omission(NamedTuple):
    """A rollout that the choice leaves out, and why."""

    cell: Cell
    why: str


@dataclass(frozen=True)
class Wanted:
    """The scenarios of one row, and whether it was named."""

    seam: Seam
    scenarios: tuple[str, ...]
    named: bool
    spared: Mapping[str, str] = field(default_factory=dict)
    """Those of them that only the full matrix runs, each with the reason."""


@dataclass(frozen=True)
class Choice:
    """What runs, and what does not."""

    cells: tuple[Cell, ...]
    left_out: tuple[Omission, ...]


def wanted(seam: Seam, groups: frozenset[str], scenarios: Sequence[str], faulty: Collection[str] = ()) -> Wanted:
    """What is asked of a row that these groups reached; none of them if it was named. ``scenarios`` are those of the command line.

    ``faulty`` are the scenarios whose faults another engine than this run's shows as well.
    """
    if scenarios:
        return Wanted(seam, tuple(dict.fromkeys(scenarios)), named=not groups)
    if not groups or ALL in groups:
        spared = {name: FAULTY for name in seam.scenarios if name in faulty}
        return Wanted(seam, seam.scenarios, named=not groups, spared=(_spared(seam) if groups else {}) | spared)
    return Wanted(seam, (FAST_SCENARIO if FAST_SCENARIO in seam.scenarios else seam.scenarios[0],), named=False)


def _spared(seam: Seam) -> dict[str, str]:
    """What a group does without, of a variant and of a slow row."""
    if seam.variant_of:
        why = f"{seam.variant_of} runs it; --full-matrix runs it on this wire too"
    elif seam.slow:
        why = f"its rollouts take long; --harness={seam.name} or --full-matrix runs it"
    else:
        return {}
    return dict.fromkeys((name for name in seam.scenarios if name not in WIRE_SCENARIOS), why)


def choose(rows: Iterable[Wanted], sandboxes: Sequence[str], *, full_matrix: bool) -> Choice:
    """The rollouts of these rows, and what was left out of them."""
    rows = tuple(rows)
    left_out: list[Omission] = []
    possible: dict[str, tuple[str, ...]] = {}
    for row in rows:
        excused = {} if row.named else row.seam.inapplicable
        left_out += (
            Omission(Cell(row.seam.name, sandbox, scenario), f"it does not apply: {excused[scenario]}")
            for sandbox in sandboxes
            for scenario in row.scenarios
            if scenario in excused
        )
        if row.scenarios == row.seam.scenarios:  # what the row leaves out by itself, where nobody asked for certain scenarios
            left_out += (
                Omission(Cell(row.seam.name, sandbox, scenario), f"its row leaves it out: {why}")
                for sandbox in sandboxes
                for scenario, why in row.seam.inapplicable.items()
                if scenario not in row.scenarios
            )
        spared = {} if full_matrix else row.spared
        left_out += (
            Omission(Cell(row.seam.name, sandbox, scenario), spared[scenario])
            for sandbox in sandboxes
            for scenario in row.scenarios
            if scenario in spared and scenario not in excused
        )
        possible[row.seam.name] = tuple(each for each in row.scenarios if each not in excused and each not in spared)
    product = list(_product(possible, sandboxes))
    if full_matrix:
        return Choice(tuple(product), tuple(left_out))
    named = {row.seam.name for row in rows if row.named}
    reached = {harness: scenarios for harness, scenarios in possible.items() if harness not in named}
    enough = frozenset(pairwise(reached, sandboxes))
    cells = tuple(cell for cell in product if cell.harness in named or cell in enough)
    left_out += (Omission(cell, PAIRWISE) for cell in product if cell.harness not in named and cell not in enough)
    return Choice(cells, tuple(left_out))


def pairwise(scenarios: Mapping[str, Sequence[str]], sandboxes: Sequence[str]) -> list[Cell]:
    """A part of the product of each harness's scenarios and the sandboxes in which every pair of two of them occurs that occurs there.

    Each harness and scenario is needed anyway, so each is given the sandbox that brings most pairs; what no such choice brought is added.
    """
    chosen: list[Cell] = []
    met: set[frozenset[tuple[int, str]]] = set()
    used: Counter[str] = Counter()

    def gain(cell: Cell) -> tuple[int, int]:
        return len(pairs(cell) - met), -used[cell.sandbox]

    def take(cell: Cell) -> None:
        chosen.append(cell)
        met.update(pairs(cell))
        used[cell.sandbox] += 1

    for harness, own in scenarios.items():
        for scenario in own:
            take(max((Cell(harness, sandbox, scenario) for sandbox in sandboxes), key=gain))
    for cell in _product(scenarios, sandboxes):
        if pairs(cell) - met:
            take(cell)
    return chosen


def pairs(cell: Cell) -> frozenset[frozenset[tuple[int, str]]]:
    """The three pairs of a rollout."""
    return frozenset(frozenset(pair) for pair in combinations(enumerate(cell), 2))


def _product(scenarios: Mapping[str, Sequence[str]], sandboxes: Sequence[str]) -> Iterator[Cell]:
    return (Cell(harness, sandbox, scenario) for harness, own in scenarios.items() for sandbox in sandboxes for scenario in own)
