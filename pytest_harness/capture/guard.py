"""Notices when an engine returns less than it did: it is asked anew when an outage ends, and nothing goes to one whose level fell.

An engine that is started again without a flag answers as before, and what it leaves out is found only when somebody wants to train on it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from pytest_harness.capture.probe import Level, Probe, ProbeError, probe
from pytest_harness.capture.wire import UnreachableError


class FallenError(UnreachableError):
    """The engine that was promised is not there any more, though one answers in its place."""


@dataclass
class Guard:
    """Watches one engine, for all sessions of a process. ``promised`` is the level that it had, ``train`` that it may have trained."""

    url: str
    model: str
    promised: Level
    train: bool = False
    api_key: str | None = field(default=None, repr=False)
    ask: Callable[..., Probe] = field(default=probe, repr=False)
    _lost: bool = field(default=False, init=False)
    _fallen: str | None = field(default=None, init=False)
    _asking: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def lost(self) -> None:
        """A call found no engine, or was broken off."""
        self._lost = True

    async def fallen(self) -> str | None:
        """Why no call goes to the engine any more, in one sentence; None where nothing speaks against it. Asks it after an outage."""
        if self._lost and self._fallen is None:
            await asyncio.to_thread(self.check)
        return self._fallen

    def check(self) -> str | None:
        """Ask the engine now, from a thread that may wait. The same answer as ``fallen``, and None while it cannot be asked."""
        with self._asking:
            if self._fallen is None:
                try:
                    found = self.ask(self.url, model=self.model, api_key=self.api_key)
                except ProbeError:
                    self._lost = True  # what it returns is asked when it is back
                    return None
                self._lost = False
                self._fallen = found.falls_short(self.promised, self.url, train=self.train)
            return self._fallen
