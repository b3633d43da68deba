"""Prints the kill matrix: which requirements each known fault breaks. ``python tests/saboteurs/matrix.py [SUBJECT ...]``

``seam``, the default, is computed over all evidence in which nothing is wrong, made by hand and recorded. ``proxy``, ``engine``,
``runtime``, ``collector`` and ``verifier`` are live: the suite of that subject judges one without a fault, and one with each fault.
``all`` is all six. Exit code 1 if there is a hole.
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from pytest_harness.contract.kills import KillMatrix, kill_matrix, to_text
from pytest_harness.evidence import Evidence, find_evidence, read_evidence
from pytest_harness.requirements import Catalogue, load_catalogue
from pytest_harness.resources import resource

TESTS = Path(__file__).parents[1]


def recorded() -> dict[str, Evidence]:
    """The evidence of real rollouts, by its folder."""
    root = resource("fixtures", "evidence")
    return {folder.relative_to(root).as_posix(): read_evidence(folder) for folder in find_evidence(root)}


def whole_matrix(made: Mapping[str, Evidence]) -> KillMatrix:
    """The matrix over recorded evidence and that which was ``made`` by hand."""
    return kill_matrix(load_catalogue(), {**made, **recorded()})


def live_matrix(subject: str, catalogue: Catalogue, standings: Mapping[str, Mapping[str, str]], sound: str) -> KillMatrix:
    """The matrix of what was found when each fault was judged live, and the subject named ``sound``, which has none."""
    red = {fault: frozenset(id_ for id_, standing in each.items() if standing in ("failed", "error")) for fault, each in standings.items()}
    return KillMatrix(
        catalogue=catalogue,
        unharmed={f"a {subject} without a fault": red[sound]},
        passed=frozenset(id_ for id_, standing in standings[sound].items() if standing == "passed"),
        harmed={fault: {f"a {subject}": broken} for fault, broken in sorted(red.items()) if fault != sound},
    )


def _beside(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(path).stem, TESTS / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where its dataclasses look for their types
    spec.loader.exec_module(module)
    return module


def main(subjects: list[str]) -> int:
    """The exit code of the command."""
    suites = _beside("live_kills.py").SUITES
    known = ("seam", *suites)
    if unknown := set(subjects) - {*known, "all"}:
        sys.stderr.write(f"error: there is no kill matrix of {', '.join(sorted(unknown))}; say {', '.join(known)}, or all\n")
        return 4
    holes = 0
    with tempfile.TemporaryDirectory() as folder:
        for subject in known if "all" in subjects else subjects or ("seam",):
            if subject == "seam":
                matrix = whole_matrix(_beside("contract/healthy.py").every())
            else:
                suite = suites[subject]
                matrix = live_matrix(subject, suite.required(), suite.judge(lambda: Path(tempfile.mkdtemp(dir=folder))), suite.sound)
            holes += len(matrix.holes)
            sys.stdout.write(f"{subject}\n\n{to_text(matrix)}\n")
            sys.stdout.flush()
    return 1 if holes else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
