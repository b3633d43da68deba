"""Watches what runs in a sandbox, and says when it has used more than it may.

Processes, and the files of a local sandbox, are limited by the kernel. What a command prints, or is copied out of the sandbox, and the
memory of all processes together have no limit that an ordinary user could set: they are looked at, twice a second. So are the files of a
container, for which few engines keep a limit, less often: the engine has to add them up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from pytest_harness.sandboxes.channel import RunningSandbox, SandboxDiedError, SandboxError
from pytest_harness.seams.limits import MB, Limits

PAUSE_SEC = 0.5
LOOKS_A_DISK = 10
"""Every so many looks the files are looked at too."""


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
        for look in count(1):
            await asyncio.sleep(PAUSE_SEC)
            if printed() > self.limits.output_mb * MB:
                return OutputLimitError(f"a command put out more than {self.limits.output_mb} MB (limits.output_mb)")
            if error := await self.out_of_memory():
                return error
            written = await asyncio.to_thread(self.sandbox.written) if look % LOOKS_A_DISK == 0 else None
            if written is not None and written > self.limits.disk_mb * MB:
                return OutputLimitError(f"the files took more than {self.limits.disk_mb} MB of the disk (limits.disk_mb)")
        raise AssertionError("there is always another look")

    async def out_of_memory(self) -> LimitError | None:
        """Whether that limit is struck now, or the kernel has ended something because it was."""
        memory = await asyncio.to_thread(self._memory)
        if memory is None or memory <= self.limits.memory_mb * MB:
            return None
        return MemoryLimitExceededError(f"the processes took more than {self.limits.memory_mb} MB of memory (limits.memory_mb)")

    def _memory(self) -> int | None:
        try:
            return self.sandbox.memory()
        except SandboxDiedError:
            return None  # whoever waits for the command is told
