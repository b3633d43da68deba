"""Watches what runs in a sandbox, and says when it has used more than it may.

Files and processes are limited by the kernel, inside. What a command prints, or is copied out of the sandbox, and the memory of all
processes together have no limit that an ordinary user could set: they are looked at, twice a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from pytest_harness.sandboxes.channel import RunningSandbox, SandboxDiedError, SandboxError
from pytest_harness.seams.limits import MB, Limits

PAUSE_SEC = 0.5


class LimitError(SandboxError):
    """More was used than the row allows."""


class OutputLimitError(LimitError):
    """More was put out. To Harbor it is as the time limit: what was done until then is graded."""


class MemoryLimitExceededError(LimitError):
    """More memory was taken. Named as Harbor's own: nothing is graded, and the surroundings are to blame."""


@dataclass(frozen=True)
class Watch:
    """Looks at one sandbox."""

    sandbox: RunningSandbox
    limits: Limits

    async def struck(self, printed: Callable[[], int]) -> LimitError:
        """Returns when a limit was struck. ``printed`` tells how many bytes the command has put out."""
        while True:
            await asyncio.sleep(PAUSE_SEC)
            if printed() > self.limits.output_mb * MB:
                return OutputLimitError(f"a command put out more than {self.limits.output_mb} MB (limits.output_mb)")
            memory = await asyncio.to_thread(self._memory)
            if memory is not None and memory > self.limits.memory_mb * MB:
                return MemoryLimitExceededError(f"the processes took more than {self.limits.memory_mb} MB of memory (limits.memory_mb)")

    def _memory(self) -> int | None:
        try:
            return self.sandbox.memory()
        except SandboxDiedError:
            return None  # whoever waits for the command is told
