"""A small collector in which everything is in order, and collectors with one known fault each.

``BREAKS`` says which requirements each fault breaks.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from pytest_harness.collect.adapter import Collected, Collector, EpisodeFunction, Outcome, Stored

FILE = "out.jsonl"


class Healthy(Collector):
    """Ids are positions; failed episodes are run again, dropped ones are remembered; both have a line."""

    name = "healthy"
    workers = 8
    filters = True
    failed_rule = "run again"
    dropped_rule = "remembered"

    def job(self, tasks: Iterable[str], folder: Path) -> HealthyJob:
        return HealthyJob(self, tasks, folder)

    def ledger(self, folder: Path) -> Path:
        return folder / FILE

    def stored(self, folder: Path) -> Sequence[Stored]:
        return self.read(folder)

    # -- what faults replace --------------------------------------------------------------------------------------------

    def read(self, folder: Path, *, strict: bool = False) -> list[Stored]:
        path = folder / FILE
        content = path.read_bytes() if path.exists() else b""
        found = []
        for raw in content.split(b"\n")[:-1]:
            try:
                found.append(Stored(*json.loads(raw)))
            except (ValueError, TypeError):
                if strict:
                    raise
        return found

    def recover(self, folder: Path) -> list[Stored]:
        found = self.read(folder, strict=True)
        self.rewrite(folder, [stored for stored in found if not self.forgets(stored)])
        return self.read(folder)

    def forgets(self, stored: Stored) -> bool:
        return stored.fate == "failed"

    def rewrite(self, folder: Path, lines: list[Stored]) -> None:
        (folder / FILE).write_bytes(b"".join(map(self.line, lines)))

    def append(self, folder: Path, stored: Stored) -> None:
        with (folder / FILE).open("ab") as file:
            file.write(self.line(stored))

    def line(self, stored: Stored) -> bytes:
        return json.dumps([stored.episode_id, stored.task, stored.reward, stored.mark, stored.fate]).encode() + b"\n"

    def tasks(self, tasks: Iterable[str]) -> Iterable[str]:
        return tasks

    def plan(self, tasks: Iterable[str], count: int, done: list[Stored]) -> list[tuple[str, str | None]]:
        planned: list[tuple[str, str | None]] = [(f"ep-{n}", task) for n, task in zip(range(count), tasks, strict=False)]
        before = {stored.episode_id: stored.task for stored in done}
        for name, task in planned:
            if before.get(name, task) != task:
                raise ValueError("other tasks than before")
        return [(name, task) for name, task in planned if name not in before]

    def failed(self, name: str, task: str | None) -> Stored | None:
        return Stored(name, task, None, None, "failed")

    def fate(self, name: str, task: str | None, outcome: Outcome) -> Stored | None:
        if not outcome.keep:
            return Stored(name, task, None, None, "dropped")
        finite = outcome.reward is not None and math.isfinite(outcome.reward)
        return Stored(name, task, outcome.reward if finite else None, outcome.mark)

    def mean(self, rewards: list[object]) -> float | None:
        graded = [reward for reward in rewards if isinstance(reward, float)]
        return sum(graded) / len(graded) if graded else None

    def running(self, told: list[float | None], rewards: list[object]) -> float | None:
        return Healthy.mean(self, rewards)

    def returned(self, planned: list[str], lines: list[Stored]) -> list[str]:
        return [stored.episode_id for stored in lines if stored.fate == "collected"]

    def together(self, job: HealthyJob, todo: list[tuple[str, str | None]], episode: EpisodeFunction, workers: int) -> None:
        with ThreadPoolExecutor(workers) as pool:
            futures = [pool.submit(self.one, name, task, episode) for name, task in todo]
            for future in as_completed(futures):
                job.keep(future.result())

    def one(self, name: str, task: str | None, episode: EpisodeFunction) -> Stored | None:
        try:
            outcome = episode(task, name)
        except Exception:  # noqa: BLE001 - whatever it is, the others go on
            return self.failed(name, task)
        return self.fate(name, task, outcome)


class HealthyJob:
    """One job of it."""

    def __init__(self, collector: Healthy, tasks: Iterable[str], folder: Path) -> None:
        self.collector = collector
        self.tasks = collector.tasks(tasks)
        self.folder = folder

    def keep(self, stored: Stored | None) -> None:
        if stored is None:
            return
        self.collector.append(self.folder, stored)
        self.lines.append(stored)
        if stored.fate == "collected":
            self.rewards.append(stored.reward)
            self.told.append(self.collector.running(self.told, self.rewards))

    def run(self, count: int, episode: EpisodeFunction, *, workers: int = 1) -> Collected:
        collector = self.collector
        self.told: list[float | None] = []
        self.lines = collector.recover(self.folder)
        self.rewards: list[object] = [stored.reward for stored in self.lines if stored.fate == "collected"]
        todo = collector.plan(self.tasks, count, self.lines)
        if workers > 1:
            collector.together(self, todo, episode, workers)
        else:
            for name, task in todo:
                self.keep(collector.one(name, task, episode))
        ids = collector.returned([f"ep-{n}" for n in range(count)], self.lines)
        return Collected(tuple(ids), collector.mean(self.rewards), tuple(self.told))


BREAKS: dict[type[Healthy], set[str]] = {}


def breaks(*ids: str) -> Callable[[type[Healthy]], type[Healthy]]:
    def register(cls: type[Healthy]) -> type[Healthy]:
        BREAKS[cls] = set(ids)
        return cls

    return register


@breaks("COL-001")
class PlannedIds(Healthy):
    """Returns what was planned, not what is there."""

    def returned(self, planned, lines):
        return planned


@breaks("COL-002")
class TasksReadOnce(Healthy):
    """A second run finds the tasks used up."""

    def tasks(self, tasks):
        return iter(tasks)


@breaks("COL-002", "COL-003", "COL-004", "COL-008", "COL-009", "COL-010", "COL-014", "COL-019")
class TasksShifted(Healthy):
    """A task is only taken for an episode that is run."""

    def plan(self, tasks, count, done):
        there = {stored.episode_id for stored in done}
        missing = [f"ep-{n}" for n in range(count) if f"ep-{n}" not in there]
        return list(zip(missing, tasks, strict=False))


@breaks("COL-003")
class IteratorShifted(Healthy):
    """Of tasks that can be read once, it reads one only for an episode that is run."""

    def plan(self, tasks, count, done):
        if tasks is not iter(tasks):
            return super().plan(tasks, count, done)
        there = {stored.episode_id for stored in done}
        missing = [f"ep-{n}" for n in range(count) if f"ep-{n}" not in there]
        return list(zip(missing, tasks, strict=False))


@breaks("COL-004")
class NeverGrows(Healthy):
    """A collection that was once whole stays as long as it was."""

    def job(self, tasks, folder):
        return _NeverGrowsJob(self, tasks, folder)


class _NeverGrowsJob(HealthyJob):
    def __init__(self, collector, tasks, folder):
        super().__init__(collector, tasks, folder)
        whole = folder / "whole"
        self.most = int(whole.read_text()) if whole.exists() else None

    def run(self, count, episode, *, workers=1):
        count = min(count, self.most or count)
        collected = super().run(count, episode, workers=workers)
        if len(self.lines) == 2:
            (self.folder / "whole").write_text(str(count))
        return collected


@breaks("COL-005")
class EpisodesWithoutTask(Healthy):
    """Goes on without a task when they are used up."""

    def plan(self, tasks, count, done):
        tasks = list(tasks)
        return super().plan([*tasks, *[None] * (count - len(tasks))], count, done)


@breaks("COL-006")
class TasksMixed(Healthy):
    """Does not look whether the tasks are those of before."""

    def plan(self, tasks, count, done):
        there = {stored.episode_id for stored in done}
        return [(f"ep-{n}", task) for n, task in zip(range(count), tasks, strict=False) if f"ep-{n}" not in there]


@breaks("COL-007")
class WritesAtTheEnd(Healthy):
    """Keeps in memory what it has until the run is over."""

    def job(self, tasks, folder):
        return _WritesAtTheEndJob(self, tasks, folder)


class _WritesAtTheEndJob(HealthyJob):
    def run(self, count, episode, *, workers=1):
        collector, waiting = self.collector, []
        append = collector.append
        collector.append = lambda folder, stored: waiting.append(stored)
        try:
            collected = super().run(count, episode, workers=workers)
        finally:
            collector.append = append
        for stored in waiting:
            append(self.folder, stored)
        return collected


@breaks("COL-008")
class PlaysDoneOnesAgain(Healthy):
    """A resume plays everything, and throws away what it has already."""

    def job(self, tasks, folder):
        return _PlaysDoneOnesAgainJob(self, list(tasks), folder)


class _PlaysDoneOnesAgainJob(HealthyJob):
    def run(self, count, episode, *, workers=1):
        for stored in self.collector.read(self.folder):
            if stored.fate == "collected":
                episode(stored.task, stored.episode_id)
        return super().run(count, episode, workers=workers)


@breaks("COL-008", "COL-009")
class RunsEverythingAgain(Healthy):
    """A resume runs all and replaces what was there."""

    def recover(self, folder):
        super().recover(folder)
        self.rewrite(folder, [stored for stored in self.read(folder) if stored.fate == "dropped"])
        return self.read(folder)


@breaks("COL-009")
class ChokesOnATornLine(Healthy):
    """Reads the torn line as a line."""

    def recover(self, folder):
        path = folder / FILE
        if path.exists() and not path.read_bytes().endswith(b"\n") and path.stat().st_size:
            raise ValueError("invalid JSON")
        return super().recover(folder)


@breaks("COL-009")
class WritesBehindATornLine(Healthy):
    """Appends to the torn line, so that the next record is broken too."""

    def rewrite(self, folder, lines):
        path = folder / FILE
        torn = path.read_bytes().rpartition(b"\n")[2] if path.exists() else b""
        super().rewrite(folder, lines)
        with path.open("ab") as file:
            file.write(torn)


@breaks("COL-010")
class StoresTheLastOneTwice(Healthy):
    """A resume that finds nothing to do writes its last episode once more."""

    def plan(self, tasks, count, done):
        todo = super().plan(tasks, count, done)
        if not todo and len(done) == 5 and self._asks > 1:
            self.append(self._folder, done[-1])
        return todo

    def job(self, tasks, folder):
        self._asks = self._asks + 1 if getattr(self, "_folder", None) == folder else 0
        self._folder = folder
        return super().job(tasks, folder)


@breaks("COL-011")
class BrokenLineIsDone(Healthy):
    """Takes a line that it cannot read for an episode that is done."""

    def read(self, folder, *, strict=False):
        return super().read(folder)

    def recover(self, folder):
        path = folder / FILE
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        readable = {stored.episode_id for stored in super().recover(folder)}
        lost = [f"ep-{n}" for n in range(len(lines)) if f"ep-{n}" not in readable] if len(lines) > len(readable) else []
        return [*self.read(folder), *(Stored(name, f"task-{name[3:]:0>2}", None, None) for name in lost if self._broken(lines))]

    def _broken(self, lines):
        return any(line[:1] != b"[" for line in lines)


@breaks("COL-012")
class KnowsOneFailure(Healthy):
    """Foresees one kind of exception."""

    def one(self, name, task, episode):
        try:
            return self.fate(name, task, episode(task, name))
        except ValueError:
            return self.failed(name, task)


@breaks("COL-001", "COL-003", "COL-012", "COL-013", "COL-014", "COL-016", "COL-019", "COL-020")
class EndsAtAFailure(Healthy):
    """Lets the exception of an episode out of the run."""

    def failed(self, name, task):
        raise RuntimeError("the run ends here")


@breaks("COL-013")
class FailedWithAReward(Healthy):
    """Gives a failed episode a reward of 0, and calls it failed."""

    def failed(self, name, task):
        return Stored(name, task, 0.0, None, "failed")


@breaks("COL-013", "COL-014", "COL-016", "COL-019", "COL-020")
class FailureIsZero(Healthy):
    """Stores a failed episode with a reward of 0."""

    def failed(self, name, task):
        return Stored(name, task, 0.0, None)


@breaks("COL-014")
class RemembersFailures(Healthy):
    """Says that it runs failed episodes again, and does not."""

    def forgets(self, stored):
        return False


@breaks("COL-014")
class RemembersOneFailure(Healthy):
    """Runs one of two failed episodes again."""

    def forgets(self, stored):
        return stored.fate == "failed" and stored.task != "task-04"


@breaks("COL-014", "COL-015")
class StatesNoRule(Healthy):
    """Its documentation says nothing."""

    failed_rule = None
    dropped_rule = None


@breaks("COL-015")
class ForgetsDropped(Healthy):
    """Says that it remembers dropped episodes, and runs them again."""

    def forgets(self, stored):
        return stored.fate in ("failed", "dropped")


@breaks("COL-016")
class SilentFailures(Healthy):
    """Leaves nothing of a failed episode."""

    def failed(self, name, task):
        return None


@breaks("COL-017")
class ZeroOnDisk(Healthy):
    """Counts an ungraded episode as it should, and writes a 0."""

    def line(self, stored):
        zero = stored.fate == "collected" and stored.reward is None
        return super().line(Stored(stored.episode_id, stored.task, 0.0, stored.mark) if zero else stored)


@breaks("COL-017", "COL-019", "COL-020", "COL-021", "COL-022")
class UngradedIsZero(Healthy):
    """Writes a reward of 0 where there is none."""

    def fate(self, name, task, outcome):
        stored = super().fate(name, task, outcome)
        return Stored(name, task, stored.reward or 0.0, stored.mark) if stored.fate == "collected" else stored


@breaks("COL-018")
class UngradedIsFailed(Healthy):
    """Treats an episode without a reward as a failed one."""

    def fate(self, name, task, outcome):
        return super().fate(name, task, outcome) if outcome.reward is not None else self.failed(name, task)


@breaks("COL-019")
class MeanOfTwoRuns(Healthy):
    """After a resume, the mean of the mean before and the mean since."""

    def plan(self, tasks, count, done):
        self._before = len(done)
        return super().plan(tasks, count, done)

    def mean(self, rewards):
        parts = [super().mean(part) for part in (rewards[: self._before], rewards[self._before :]) if part]
        return Healthy.running(self, [], parts) if parts else None


@breaks("COL-019", "COL-021")
class MeanOverAll(Healthy):
    """Divides by all episodes, the ungraded ones among them."""

    def mean(self, rewards):
        graded = [reward for reward in rewards if isinstance(reward, float)]
        return sum(graded) / len(rewards) if graded else None


@breaks("COL-020")
class ZeroWithoutAMean(Healthy):
    """Says 0 where there is no mean."""

    def mean(self, rewards):
        return super().mean(rewards) or 0.0


@breaks("COL-021")
class KeepsNaN(Healthy):
    """Takes every float for a reward."""

    def fate(self, name, task, outcome):
        return Stored(name, task, outcome.reward, outcome.mark) if outcome.keep else super().fate(name, task, outcome)


@breaks("COL-022")
class MeanOfMeans(Healthy):
    """Its running mean gives the last episode half of the weight."""

    def running(self, told, rewards):
        last = next((mean for mean in reversed(told) if mean is not None), None)
        new = rewards[-1]
        return last if new is None else new if last is None else (last + new) / 2


@breaks("COL-023")
class LastOnesMark(Healthy):
    """Stores an episode with what the one before it gave."""

    last = "mark-of-none"

    def job(self, tasks, folder):
        self.last = "mark-of-none"
        return super().job(tasks, folder)

    def fate(self, name, task, outcome):
        stored = super().fate(name, task, outcome)
        mark, self.last = self.last, outcome.mark
        return Stored(name, task, stored.reward, mark, stored.fate)


@breaks("COL-023")
class SharedByWorkers(Healthy):
    """Workers put what they have into one place."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slots: list[str] = []

    def together(self, job, todo, episode, workers):
        def one(name, task):
            stored = self.one(name, task, episode)
            with self._lock:
                self._slots.append(stored.mark)
                return Stored(name, task, stored.reward, self._slots[0])

        self._slots = []
        with ThreadPoolExecutor(workers) as pool:
            for future in [pool.submit(one, name, task) for name, task in todo]:
                job.keep(future.result())


@breaks("COL-024")
class WorkersOverwrite(Healthy):
    """Workers read the file, add their line, and write it back, side by side."""

    def together(self, job, todo, episode, workers):
        for first in range(0, len(todo), workers):
            before = self.read(job.folder)
            batch = todo[first : first + workers]
            with ThreadPoolExecutor(workers) as pool:
                for future in [pool.submit(self.one, name, task, episode) for name, task in batch]:
                    self.rewrite(job.folder, before)
                    job.keep(future.result())


@breaks("COL-025")
class IdsByCompletion(Healthy):
    """The episode that ends first gets the first id."""

    def together(self, job, todo, episode, workers):
        with ThreadPoolExecutor(workers) as pool:
            futures = [pool.submit(self.one, name, task, episode) for name, task in todo]
            for (name, _), future in zip(todo, as_completed(futures), strict=True):
                stored = future.result()
                job.keep(Stored(name, stored.task, stored.reward, stored.mark, stored.fate))
