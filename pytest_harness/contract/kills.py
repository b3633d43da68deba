"""The kill matrix: which requirements each saboteur breaks, seen by putting each into evidence in which nothing is wrong.

A check that no saboteur trips is no check, and one that a stranger trips is a false alarm. Whatever of both there is, is a *hole*, said in
a sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pytest_harness import saboteurs
from pytest_harness.contract.judge import judge
from pytest_harness.contract.model import Judgement
from pytest_harness.evidence.model import Evidence
from pytest_harness.requirements import Catalogue

Broken = frozenset[str]
"""Ids of requirements that do not hold."""

_BAD = ("failed", "error")


@dataclass(frozen=True)
class KillMatrix:
    """What broke, by evidence and by saboteur."""

    catalogue: Catalogue
    unharmed: Mapping[str, Broken]
    """By the name of the evidence: what is broken in it as it is."""
    passed: Broken
    """What holds in some unharmed evidence."""
    harmed: Mapping[str, Mapping[str, Broken]]
    """By saboteur, and by the name of the evidence that offers it a place."""

    def declared(self, saboteur: str) -> Broken:
        """The requirements that name this saboteur."""
        return frozenset(requirement.id for requirement in self.catalogue if saboteur in requirement.saboteurs)

    def tripped(self, saboteur: str) -> Broken:
        """What it breaks in some evidence."""
        return frozenset().union(*self.harmed[saboteur].values())

    @property
    def holes(self) -> tuple[str, ...]:
        """Everything that keeps the matrix from being proof, a sentence each; none if it is whole."""
        return tuple(self._holes())

    def _holes(self) -> Iterator[str]:
        for name, broken in self.unharmed.items():
            if broken:
                yield f"{_named(broken)} speaks against {name}, in which nothing is wrong"
        for requirement in self.catalogue:
            if requirement.id not in self.passed:
                yield f"{requirement.id} {requirement.title}: no evidence exercises it"
            for saboteur in requirement.saboteurs:
                if saboteur not in self.harmed:
                    yield f"{requirement.id} {requirement.title}: its saboteur {saboteur} does not exist"
        for saboteur, broken_in in self.harmed.items():
            declared = self.declared(saboteur)
            if not declared:
                yield f"{saboteur}: no requirement declares it"
            if not broken_in:
                yield f"{saboteur}: no evidence offers it a place"
            for name, broken in broken_in.items():
                if missed := declared - broken:
                    yield f"{saboteur} in {name}: {_named(missed)} does not notice"
                if strays := broken - declared:
                    yield f"{saboteur} in {name}: {_named(strays)} goes red too, and does not declare it"


def kill_matrix(catalogue: Catalogue, evidences: Mapping[str, Evidence]) -> KillMatrix:
    """Judge each evidence as it is, and once for each saboteur that finds a place in it."""
    judged = {name: judge(evidence, catalogue) for name, evidence in evidences.items()}
    return KillMatrix(
        catalogue=catalogue,
        unharmed={name: broken(judgements) for name, judgements in judged.items()},
        passed=frozenset(each.requirement.id for judgements in judged.values() for each in judgements if each.result == "passed"),
        harmed={saboteur: dict(_harm(saboteur, catalogue, evidences)) for saboteur in saboteurs.names()},
    )


def broken(judgements: Iterable[Judgement]) -> Broken:
    """The requirements that do not hold; a check of ours that breaks is no better than one that fails."""
    return frozenset(judgement.requirement.id for judgement in judgements if judgement.result in _BAD)


def _harm(saboteur: str, catalogue: Catalogue, evidences: Mapping[str, Evidence]) -> Iterator[tuple[str, Broken]]:
    for name, evidence in evidences.items():
        try:
            harmed = saboteurs.apply(saboteur, evidence)
        except saboteurs.NothingToSabotage:
            continue
        yield name, broken(judge(harmed, catalogue))


def to_text(matrix: KillMatrix) -> str:
    """The matrix for people: by family a row a saboteur and a column a requirement, then the holes and a summary."""
    lines: list[str] = []
    for family in dict.fromkeys(requirement.family for requirement in matrix.catalogue):
        entries = [requirement for requirement in matrix.catalogue if requirement.family == family]
        rows = [name for name in matrix.harmed if any(name in entry.saboteurs for entry in entries)]
        width = max(map(len, rows), default=0)
        lines += [f"{family:<{width}}  {' '.join(entry.id[4:] for entry in entries)}   killed in"]
        for name in rows:
            marks = "   ".join("x" if entry.id in matrix.tripped(name) else "." for entry in entries)
            lines += [f"{name:<{width}}   {marks}    {len(matrix.harmed[name])} of {len(matrix.unharmed)}"]
        lines += [""]
    lines += [f"hole: {hole}" for hole in matrix.holes]
    judged_by = f"{len(matrix.catalogue)} requirements of {matrix.catalogue.version}"
    lines += [f"{len(matrix.harmed)} saboteurs, {judged_by}, {len(matrix.unharmed)} unharmed records, {len(matrix.holes)} holes"]
    return "\n".join(lines) + "\n"


def _named(ids: Broken) -> str:
    return ", ".join(sorted(ids))
