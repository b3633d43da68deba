"""Prints the kill matrix over all evidence in which nothing is wrong, made by hand and recorded: ``python tests/saboteurs/matrix.py``.

Exit code 1 if it has a hole. The capture proxy's faults have a matrix of their own, live: ``tests/wire/test_wire_saboteurs.py``.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from pytest_harness.contract.kills import KillMatrix, kill_matrix, to_text
from pytest_harness.evidence import Evidence, find_evidence, read_evidence
from pytest_harness.requirements import load_catalogue
from pytest_harness.resources import resource


def recorded() -> dict[str, Evidence]:
    """The evidence of real rollouts, by its folder."""
    root = resource("fixtures", "evidence")
    return {folder.relative_to(root).as_posix(): read_evidence(folder) for folder in find_evidence(root)}


def whole_matrix(made: Mapping[str, Evidence]) -> KillMatrix:
    """The matrix over recorded evidence and that which was ``made`` by hand."""
    return kill_matrix(load_catalogue(), {**made, **recorded()})


def _healthy() -> ModuleType:
    spec = importlib.util.spec_from_file_location("healthy", Path(__file__).parents[1] / "contract" / "healthy.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    matrix = whole_matrix(_healthy().every())
    sys.stdout.write(to_text(matrix))
    raise SystemExit(1 if matrix.holes else 0)
