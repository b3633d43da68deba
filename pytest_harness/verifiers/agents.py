"""The agent of the verifier suite: it runs one command and then ends in the way that the case asks for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Literal, override

from harbor.agents.base import BaseAgent
from harbor.agents.installed.base import AgentAuthenticationError, ApiRateLimitError, NonZeroAgentExitCodeError
from harbor.environments.base import BaseEnvironment
from harbor.models.agent.context import AgentContext

ACTING_AGENT = "pytest_harness.verifiers.agents:ActingAgent"

Act = Literal["end", "raise", "exit", "hang", "rate_limit", "no_login", "lose_sandbox", "fail_setup", "hang_setup", "stay", "come_after"]
"""What the agent does once its command has run; ``…_setup`` and ``come_after`` come before it."""

_ERRORS: dict[str, Exception] = {
    "raise": ValueError("the agent raised this on purpose"),
    "exit": NonZeroAgentExitCodeError("the agent exited with 3 on purpose"),
    "rate_limit": ApiRateLimitError("the agent says that it was rate limited, on purpose"),
    "no_login": AgentAuthenticationError("the agent says that it has no login, on purpose"),
}


class Meeting:
    """Of two agents at the same time: one stays with what it has until the other has looked. Whoever ends early lets the other go on."""

    def __init__(self) -> None:
        self.there = asyncio.Event()
        self.over = asyncio.Event()


class Watched:
    """What was seen from outside when the agent's command had run."""

    def __init__(self, look: Callable[[], bool]) -> None:
        self._look = look
        self.seen = False

    def look(self) -> None:
        """Look now."""
        self.seen = self._look()


class ActingAgent(BaseAgent):
    """Runs ``command`` in the sandbox and ends by ``act``. ``key`` names what it shares with the suite, for Harbor hands on plain data."""

    meetings: ClassVar[dict[str, Meeting]] = {}
    watched: ClassVar[dict[str, Watched]] = {}

    def __init__(self, logs_dir: Path, *, act: Act, command: str, variables: dict[str, str], key: str, **kwargs: Any) -> None:
        super().__init__(logs_dir, **kwargs)
        self._act = act
        self._command = command
        self._variables = variables
        self._key = key

    @staticmethod
    @override
    def name() -> str:
        return "acting"

    @override
    def version(self) -> str:
        return "1"

    @override
    async def setup(self, environment: BaseEnvironment) -> None:
        if self._act == "fail_setup":
            raise RuntimeError("the agent could not be set up, on purpose")
        if self._act == "hang_setup":
            await asyncio.Event().wait()

    @override
    async def run(self, instruction: str, environment: BaseEnvironment, context: AgentContext) -> None:
        if self._act == "come_after":
            await self.meetings[self._key].there.wait()
        await environment.exec(self._command, env=self._variables)
        if (watched := self.watched.get(self._key)) is not None:
            watched.look()
        if self._act == "stay":
            self.meetings[self._key].there.set()
            await self.meetings[self._key].over.wait()
        if self._act in _ERRORS:
            raise _ERRORS[self._act]
        if self._act == "hang":
            await asyncio.Event().wait()
        if self._act == "lose_sandbox":
            await environment.stop(delete=True)
            await environment.exec("true")
