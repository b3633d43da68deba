"""openenv's ``CollectRunner``, run in its own Python. An episode is one turn of its own loop, in a session that offers no tool."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import rich.progress
from lines import Asker  # type: ignore[import-not-found]  # stands beside this file where it is run

# openenv is only in the Python that runs this file.
from openenv.core.harness import (  # type: ignore[import-not-found]
    MCPHarnessAdapter,
    ModelStepResult,
    ResourceSession,
    ResourceSessionFactory,
    VerifyResult,
)
from openenv.core.harness.collect import CollectRunner, RolloutSerializer  # type: ignore[import-not-found]
from openenv.core.llm_client import LLMResponse  # type: ignore[import-not-found]

TOLD: list[float] = []
"""The means that the runner told its progress bar in this run."""


class Watched(rich.progress.Progress):
    """The progress bar, overheard."""

    def update(self, *arguments: Any, **fields: Any) -> None:
        """As rich's."""
        if "avg_reward" in fields:
            TOLD.append(fields["avg_reward"])
        super().update(*arguments, **fields)


class Session(ResourceSession):  # type: ignore[misc]
    """One episode; what the suite said of it is its reward and its one artifact."""

    def __init__(self, task: Any, episode_id: str) -> None:
        self.task = task
        self.episode_id = episode_id
        self.outcome: dict[str, Any] = {}

    def initial_messages(self) -> list[dict[str, Any]]:
        """The task."""
        return [{"role": "user", "content": str(self.task)}]

    def list_tools(self) -> list[Any]:
        """None."""
        return []

    def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        """There is none."""
        raise KeyError(name, arguments)

    def verify(self, transcript: Any, final_state: Any = None) -> Any:  # noqa: ARG002 - the signature is openenv's
        """The suite's reward."""
        return VerifyResult(env_reward=self.outcome["reward"], done=True, artifacts={"mark": self.outcome["mark"]})

    def close(self) -> None:
        """Nothing is open."""


class Sessions(ResourceSessionFactory):  # type: ignore[misc]
    """Keeps the session of the episode that is being played; there is one at a time."""

    session: Session

    def create(self, task: Any, seed: int | None = None, episode_id: str | None = None) -> Session:  # noqa: ARG002 - likewise
        """A session."""
        self.session = Session(task, episode_id or "")
        return self.session


class Job:
    """A runner with its tasks and its folder."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._sessions = Sessions()
        tasks = request["tasks"]
        self._runner = CollectRunner(
            session_factory=self._sessions,
            harness_adapter=MCPHarnessAdapter(),
            serializer=RolloutSerializer(Path(request["folder"])),
            tasks=iter(tasks) if request["once"] else tasks,
        )

    def run(self, asker: Asker, count: int) -> dict[str, Any]:
        """One run of it."""

        def step(*_: Any) -> Any:
            session = self._sessions.session
            session.outcome = asker.ask("episode", task=session.task, episode_id=session.episode_id)
            if session.outcome is None:
                raise KeyboardInterrupt
            return ModelStepResult(response=LLMResponse(content=session.outcome["mark"]))

        TOLD.clear()
        try:
            result = self._runner.run(
                model_step=step, num_episodes=count, should_keep=lambda _record: bool(self._sessions.session.outcome["keep"])
            )
        except KeyboardInterrupt:
            return {"interrupted": True}
        except Exception as error:  # noqa: BLE001 - it is the runner's refusal
            return {"refused": f"{type(error).__name__}: {error}"}
        return {"episode_ids": result.episode_ids, "mean": result.avg_reward, "running": list(TOLD)}


JOBS: dict[int, Job] = {}


def job(_asker: Asker, request: dict[str, Any]) -> None:
    """Make one."""
    JOBS[request["job"]] = Job(request)


def run(asker: Asker, request: dict[str, Any]) -> dict[str, Any]:
    """Run one."""
    return JOBS[request["job"]].run(asker, request["count"])


if __name__ == "__main__":
    rich.progress.Progress = Watched  # type: ignore[misc]  # the runner takes the name from there when it runs
    Asker().serve({"job": job, "run": run})
