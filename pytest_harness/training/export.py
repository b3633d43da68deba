"""From many episodes to one file of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pytest_harness.evidence.model import Evidence
from pytest_harness.requirements import Catalogue
from pytest_harness.training.rows import Refused, TrainingRow, rows_of
from pytest_harness.training.writing import write_rows


@dataclass(frozen=True)
class Exported:
    """What an export came to."""

    rows: int
    episodes: int
    """How many episodes the rows are of."""
    refused: tuple[str, ...]
    """Why the others have none, a sentence each."""


def export(
    path: Path, evidences: Iterable[Evidence], catalogue: Catalogue, *, rehearsal: bool = False, policy_version: str | None = None
) -> Exported:
    """Write the rows of these episodes; an episode that comes twice, as a copy of its evidence does, counts once. Raises ExportError."""
    refused: list[str] = []
    seen: set[str] = set()

    def rows() -> Iterator[TrainingRow]:
        for evidence in evidences:
            if evidence.manifest.attempt_id in seen:
                continue
            seen.add(evidence.manifest.attempt_id)
            try:
                yield from rows_of(evidence, catalogue, rehearsal=rehearsal, policy_version=policy_version)
            except Refused as reason:
                refused.append(str(reason))

    count = write_rows(rows(), path)
    return Exported(count, len(seen) - len(refused), tuple(refused))
