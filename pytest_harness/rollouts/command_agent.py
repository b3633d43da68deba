"""A Harbor agent driven by a seam row alone: one command, run in the sandbox with the row's environment.

It is for harnesses that Harbor has no adapter for, one's own first of all. The command may leave an ATIF document at
``/logs/agent/trajectory.json``; a row that says ``trajectory = "atif"`` is held to it.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any, override

from harbor.agents.base import BaseAgent
from harbor.agents.installed.base import NonZeroAgentExitCodeError
from harbor.environments.base import BaseEnvironment
from harbor.models.agent.context import AgentContext

OUTPUT = "command.txt"


class CommandAgent(BaseAgent):
    """Runs ``command`` with ``{instruction}`` replaced by the task's instruction, quoted for the shell.

    What it printed lies in ``command.txt`` beside its other logs. A non-zero exit is Harbor's NonZeroAgentExitCodeError.
    """

    def __init__(self, logs_dir: Path, *, command: str, harness: str, harness_version: str, **kwargs: Any) -> None:
        super().__init__(logs_dir, **kwargs)
        self._command = command
        self._harness = harness
        self._harness_version = harness_version

    @staticmethod
    @override
    def name() -> str:
        return "command"

    @override
    def version(self) -> str:
        return self._harness_version

    @override
    async def setup(self, environment: BaseEnvironment) -> None:
        """Nothing to set up: the harness is mounted into the sandbox, its files are there."""

    @override
    async def run(self, instruction: str, environment: BaseEnvironment, context: AgentContext) -> None:
        command = self._command.replace("{instruction}", shlex.quote(instruction))
        result = await environment.exec(command)
        (self.logs_dir / OUTPUT).write_text(f"{result.stdout or ''}{result.stderr or ''}", encoding="utf-8")
        if result.return_code != 0:
            tail = (result.stderr or result.stdout or "").strip()[-400:]
            raise NonZeroAgentExitCodeError(f"{self._harness} exited with {result.return_code}: {tail or 'it printed nothing'}")
