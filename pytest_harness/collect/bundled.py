"""The adapter of our own collector. Instead of a rollout's evidence, each episode leaves one small file in the folder of its id."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from pytest_harness.collect.adapter import Collected, Collector, EpisodeFunction, Job, Stored
from pytest_harness.collect.collector import Episode, Plan, Result, Task, Told, collect
from pytest_harness.collect.ledger import LEDGER, Ledger, Line

EPISODE = "episode.json"


class BundledCollector(Collector):
    """What ``harness-conformance rollout`` collects with."""

    name = "bundled"
    workers = 8
    failed_rule = "remembered"

    def job(self, tasks: Iterable[str], folder: Path) -> Job:
        """Each task once, in their order."""
        return _Job(tasks, folder)

    def stored(self, folder: Path) -> Sequence[Stored]:
        """By its ledger, and the file that the line tells of."""
        return [_stored(folder, line) for line in Ledger(folder).read()]

    def ledger(self, folder: Path) -> Path:
        """The ledger."""
        return folder / LEDGER


class _Job:
    def __init__(self, tasks: Iterable[str], folder: Path) -> None:
        self._tasks = tasks
        self._folder = folder

    def run(self, count: int, episode: EpisodeFunction, *, workers: int = 1) -> Collected:
        """Run the first ``count`` tasks."""
        tasks = tuple(Task(name) for name, _ in zip(self._tasks, range(count), strict=False))
        running: list[float | None] = []

        def run(planned: Episode) -> Result:
            outcome = episode(planned.task.name, planned.id)
            place = self._folder / planned.id
            place.mkdir(parents=True, exist_ok=True)
            (place / EPISODE).write_text(json.dumps({"mark": outcome.mark}), encoding="utf-8")
            return Result(outcome.reward, mark=outcome.mark)

        def told(event: Told) -> None:
            if event.line is not None and event.line.state != "dropped":
                running.append(event.tally.mean)

        found = collect(
            Plan(tasks, workers=workers, tries=1),
            run,
            self._folder,
            on_disk=lambda line: _mark(self._folder, line) == line.mark,
            told=told,
        )
        return Collected(found.episode_ids, found.tally.mean, tuple(running))


def _stored(folder: Path, line: Line) -> Stored:
    if line.state == "dropped":
        return Stored(line.episode, line.task, None, None, "failed")
    return Stored(line.episode, line.task, line.reward, _mark(folder, line))


def _mark(folder: Path, line: Line) -> str | None:
    try:
        document = json.loads((folder / line.episode / EPISODE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    mark = document.get("mark")
    return mark if isinstance(mark, str) else None
