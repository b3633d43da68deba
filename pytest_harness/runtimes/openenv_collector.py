"""The adapter of openenv's ``CollectRunner``, in a process of its own, from an environment of its own; it is never imported here."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_harness.collect.adapter import Collected, Collector, EpisodeFunction, Job, Stop, Stored
from pytest_harness.runtimes.worker import Worker
from pytest_harness.wire.outcome import NotExercised

RESULTS = "results.jsonl"


class Refused(Exception):  # noqa: N818 (it is the runner's own word, not an error of ours)
    """What the runner raised, as text."""


class OpenEnvCollector(Collector):
    """openenv's runner, its writer, and its own white-box loop."""

    name = "openenv"
    filters = True
    # Of its option --resume it says: skip episodes already present in results.jsonl. Only the collected ones are there.
    failed_rule = "run again"
    dropped_rule = "run again"

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._numbers = itertools.count()

    def job(self, tasks: Iterable[str], folder: Path) -> Job:
        """A ``CollectRunner`` with these tasks."""
        once = iter(tasks) is tasks
        number = next(self._numbers)
        request = {"do": "job", "job": number, "tasks": list(tasks), "once": once, "folder": str(folder)}
        self._worker.ask(request, lambda _: None)
        return _Job(self._worker, number)

    def stored(self, folder: Path) -> Sequence[Stored]:
        """The lines of ``results.jsonl``."""
        path = self.ledger(folder)
        lines = path.read_bytes().split(b"\n") if path.exists() else []
        return [stored for line in lines if (stored := _stored(line)) is not None]

    def ledger(self, folder: Path) -> Path:
        """``results.jsonl``."""
        return folder / RESULTS


class _Job:
    def __init__(self, worker: Worker, number: int) -> None:
        self._worker = worker
        self._number = number

    def run(self, count: int, episode: EpisodeFunction, *, workers: int = 1) -> Collected:
        """Run it, and answer for each episode."""
        if workers > 1:
            raise NotExercised("openenv's runner runs one episode at a time")

        def play(question: Mapping[str, Any]) -> dict[str, Any] | None:
            try:
                outcome = episode(question["task"], question["episode_id"])
            except Stop:
                return None
            return {"reward": outcome.reward, "mark": outcome.mark, "keep": outcome.keep}

        answer = self._worker.ask({"do": "run", "job": self._number, "count": count}, play)
        if "interrupted" in answer:
            raise Stop
        if "refused" in answer:
            raise Refused(answer["refused"])
        return Collected(tuple(answer["episode_ids"]), answer["mean"], tuple(answer["running"]))


def _stored(line: bytes) -> Stored | None:
    try:
        document = json.loads(line)
        return Stored(document["episode_id"], document["task"], document["reward"], document["artifacts"].get("mark"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
