"""Shares rollouts: each attempt runs once a run, however many tests and worker processes want its evidence."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock

from pytest_harness.evidence import Evidence, EvidenceError, read_evidence
from pytest_harness.provision import provision
from pytest_harness.rollouts.room import room, tickets
from pytest_harness.rollouts.spec import RolloutSpec

if TYPE_CHECKING:
    from pytest_harness.capture.front import Way
    from pytest_harness.rollouts.engines import SharedEngine


class RolloutPool:
    """The evidence of this run's attempts, made at the first wish.

    ``run_id`` tells this run's evidence from that of an earlier one: what was frozen under another id is made anew.
    """

    def __init__(self, evidence_dir: Path, *, run_id: str, requirements: str) -> None:
        self._evidence_dir = evidence_dir.absolute()
        self._run_id = run_id
        self._requirements = requirements
        self.engine: SharedEngine | None = None
        """The running engine of all rollouts; None where each has one of its own."""
        self.way: Way | None = None
        """How a sandbox elsewhere reaches the attempts; None where none needs it."""

    def evidence(self, spec: RolloutSpec) -> tuple[Path, Evidence]:
        """The folder and the evidence of this attempt, of this process's making or another's."""
        locks = self._evidence_dir / ".locks"
        locks.mkdir(parents=True, exist_ok=True)
        folder = spec.evidence_dir(self._evidence_dir)
        with FileLock(locks / f"{spec.id}.lock"):
            if (frozen := self._of_this_run(folder)) is not None:
                return folder, frozen
            from pytest_harness.rollouts.rollout import run_rollout  # noqa: PLC0415 (Harbor takes a second to import)

            installed = provision(spec.seam)
            with room(tickets(self._evidence_dir), spec.id, spec.memory_mb):
                run_rollout(
                    spec,
                    installed,
                    evidence_dir=self._evidence_dir,
                    run_id=self._run_id,
                    requirements=self._requirements,
                    shared=self.engine,
                    way=self.way,
                )
            return folder, read_evidence(folder)

    def _of_this_run(self, folder: Path) -> Evidence | None:
        try:
            evidence = read_evidence(folder)
        except EvidenceError:
            return None
        return evidence if evidence.manifest.run_id == self._run_id else None
