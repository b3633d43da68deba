"""The adapter of openenv's white-box loop, in a process of its own, from an environment of its own; it is never imported here.

Its rollout function gives a trainer one list of prompt ids an episode, beside one list of sampled ids: they are read as those of the last
turn. An episode that it raises over is lost to its caller, and is told as one that failed with nothing kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_harness.collect.adapter import Collector
from pytest_harness.runtimes.adapter import Environment, Episode, Limits, Model, Prompts, Runtime, RuntimeAdapter, TracedCall
from pytest_harness.runtimes.chat import message_of, step_to_document, to_message, tool_of
from pytest_harness.runtimes.openenv_collector import OpenEnvCollector
from pytest_harness.runtimes.worker import Worker
from pytest_harness.wire.openenv import PACKAGE, VERSION, openenv_python, openenv_version


class OpenEnvRuntime(RuntimeAdapter):
    """``openenv.core.harness``: its loop, its session adapter and its model client."""

    name = "openenv"
    prompts: Prompts = "last"
    _worker: Worker | None = None
    _collecting: Worker | None = None
    _version = VERSION

    def start(self, folder: Path) -> None:
        """Start the process that plays."""
        python = openenv_python()
        self._version = openenv_version(python)
        self._worker = Worker(python, "openenv_loop.py", folder)
        self._worker.start()
        self._collecting = Worker(python, "openenv_collect.py", folder)  # started by its first job

    def stop(self) -> None:
        """End it."""
        for worker in (self._worker, self._collecting):
            if worker is not None:
                worker.stop()

    def runtime(self) -> Runtime:
        """The loop."""
        assert self._worker is not None
        return OpenEnvLoop(self._worker)

    def collector(self) -> Collector:
        """Its ``CollectRunner``."""
        assert self._collecting is not None
        return OpenEnvCollector(self._collecting)

    def versions(self) -> dict[str, str]:
        """The version that really runs."""
        return {PACKAGE: self._version}


class OpenEnvLoop:
    """One episode a question to the process."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def run(self, model: Model, environment: Environment, limits: Limits) -> Episode:
        """Run one episode."""
        request = {
            "do": "play",
            "messages": [to_message(message) for message in environment.messages()],
            "tools": [
                {"name": tool.name, "description": tool.description, "input_schema": dict(tool.parameters)} for tool in environment.tools()
            ],
            "max_turns": limits.max_turns,
            "max_calls_per_turn": limits.max_calls_per_turn,
            "max_calls": limits.max_calls,
        }

        def answer(question: Mapping[str, Any]) -> Any:
            match question["ask"]:
                case "model":
                    messages = [message_of(message) for message in question["messages"]]
                    return step_to_document(model.step(messages, [tool_of(tool) for tool in question["tools"]]))
                case "call":
                    result = environment.call(question["name"], question["arguments"])
                    return {"data": result.data, "error": result.error, "reward": result.reward, "done": result.done}
            return environment.grade()

        return _episode(self._worker.ask(request, answer))


def _episode(document: Mapping[str, Any]) -> Episode:
    if "failed" in document:
        return Episode((), "failed", None, error=document["failed"])
    return Episode(
        messages=tuple(message_of(message) for message in document["messages"]),
        ended="completed" if document["done"] else "truncated",
        reward=document["reward"],
        metrics=document["metrics"],
        trace=tuple(TracedCall(call["name"], call["arguments"]) for call in document["trace"]),
        prompt_ids=tuple(document["prompt_ids"]),
        sampled_ids=tuple(document["sampled_ids"]),
        logprobs=tuple(document["logprobs"]),
    )
