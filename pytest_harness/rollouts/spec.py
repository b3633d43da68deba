"""What one attempt is: a seam, a sandbox, an engine, a scenario, and a number."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pytest_harness.evidence import attempt_dir
from pytest_harness.sandboxes.kinds import SANDBOXES, Boxing
from pytest_harness.sandboxes.remote import Remote
from pytest_harness.scenarios import Scenario
from pytest_harness.seams import Seam


@dataclass(frozen=True)
class RolloutSpec:
    """One attempt to be made. Two specs with one ``id`` are the same attempt."""

    seam: Seam
    sandbox: str
    engine: str
    scenario: Scenario
    attempt: int = 1
    step_limit: int | None = None
    """How many turns the harness is told to take at most, by its own means; its row says how."""
    boxing: Boxing = Boxing()  # noqa: RUF009 (it is frozen)
    """What is asked of the sandbox, where it is a container."""

    @property
    def id(self) -> str:
        """As in a test id: ``pi-in-local-edit_file``; a second attempt ends in ``-2``."""
        attempt = "" if self.attempt == 1 else f"-{self.attempt}"
        return f"{self.seam.name}-in-{self.sandbox}-{self.scenario.name}{attempt}"

    @property
    def memory_mb(self) -> int:
        """What is set aside for it, where several run side by side: the megabytes that its sandboxes may take together."""
        return self.seam.limits.memory_mb * len(self.scenario.rollouts)

    @property
    def remote(self) -> Remote | None:
        """Its sandbox, where that is none of ours."""
        return None if self.sandbox in SANDBOXES else Remote.named(self.sandbox)

    @property
    def needs_public_way(self) -> bool:
        """Whether its harness cannot reach this machine's loopback. One that is a part of Harbor can: it runs in Harbor's process."""
        return self.remote is not None and not self.remote.reaches_loopback and not self.seam.outside

    def evidence_dir(self, root: Path) -> Path:
        """Where the evidence of this attempt lies below ``root``."""
        return attempt_dir(
            root,
            harness=self.seam.name,
            sandbox=self.sandbox,
            engine=self.engine,
            scenario=self.scenario.name,
            attempt=self.attempt,
        )
