"""What a test of the collector suite works with: tasks, a scripted function that remembers what it was asked, and folders of its own."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from pytest_harness.collect.adapter import Collected, Collector, Outcome, Stop, Stored
from pytest_harness.wire.loading import AdapterError
from pytest_harness.wire.outcome import Broken, NotExercised, expect, same

_WAIT_SEC = 15.0
"""How long the workers of a collector may take to come together."""


def tasks(count: int) -> list[str]:
    """So many task names."""
    return [f"task-{number:02d}" for number in range(count)]


@dataclass
class Script:
    """The function: plays what is scripted for a task, a reward of 1 where nothing is, and remembers each call.

    ``rewards``: what to give; ``raises``: what to raise; ``drops``: which the filter refuses; ``stop_at``: the task at which the run ends.
    """

    rewards: Mapping[str, float | None] = field(default_factory=dict)
    raises: Mapping[str, Exception] = field(default_factory=dict)
    drops: frozenset[str] = frozenset()
    stop_at: str | None = None
    before: Callable[[], None] = lambda: None
    calls: list[tuple[str | None, str]] = field(default_factory=list)
    given: dict[str, tuple[str | None, str]] = field(default_factory=dict)
    """Each mark, and the task and the episode of the call that gave it."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, task: str | None, episode_id: str) -> Outcome:
        """Play it."""
        with self._lock:
            self.calls.append((task, episode_id))
            mark = f"mark-{id(self):x}-{len(self.calls)}"
        if task is not None and task == self.stop_at:
            raise Stop
        if task is not None and task in self.raises:
            raise self.raises[task]
        self.before()
        with self._lock:
            self.given[mark] = (task, episode_id)
        return Outcome(self.rewards.get(task or "", 1.0), mark, task not in self.drops)

    @property
    def asked(self) -> Counter[str | None]:
        """How often each task was played."""
        return Counter(task for task, _ in self.calls)


class Reversal:
    """Lets the calls of a group of workers end in the reverse of the order in which they began."""

    def __init__(self, workers: int) -> None:
        self._together = threading.Barrier(workers)
        self._workers = workers
        self._lock = threading.Lock()
        self._begun = 0
        self._ended: dict[int, threading.Event] = {}

    def __call__(self) -> None:
        """Wait for the workers to come together, then for the one that began after this one."""
        with self._lock:
            number = self._begun
            self._begun += 1
            mine = self._ended.setdefault(number, threading.Event())
            follower = None if (number + 1) % self._workers == 0 else self._ended.setdefault(number + 1, threading.Event())
        try:
            self._together.wait(_WAIT_SEC)
        except threading.BrokenBarrierError:
            raise NotExercised(f"{self._workers} workers never ran at the same time") from None
        if follower is not None:
            follower.wait(_WAIT_SEC)
        mine.set()


class CollectorCase:
    """The collector under test for one test."""

    def __init__(self, collector: Callable[[], Collector], folder: Path) -> None:
        self._collector = collector
        self._root = folder
        self._folders = 0

    @cached_property
    def collector(self) -> Collector:
        """It. Raises NotExercised where the runtime has none."""
        return self._collector()

    def folder(self) -> Path:
        """A new, empty folder."""
        self._folders += 1
        folder = self._root / f"collection-{self._folders}"
        folder.mkdir(parents=True)
        return folder

    def run(self, names: Iterable[str], folder: Path, script: Script, *, count: int, workers: int = 1) -> Collected:
        """A collector set up anew, and run to its end. Raises Broken if it does not come to one."""
        return self.to_its_end(lambda: self.collector.job(names, folder).run(count, script, workers=workers))

    def to_its_end[T](self, run: Callable[[], T]) -> T:
        """What it returns. What it raises instead is Broken, save the adapter's own word."""
        try:
            return run()
        except (AdapterError, NotExercised, Broken):
            raise
        except (Exception, KeyboardInterrupt) as error:
            raise Broken("a run that comes to its end", f"{type(error).__name__}: {error}") from error

    def stopped(self, names: Iterable[str], folder: Path, script: Script, *, count: int) -> None:
        """A run that is interrupted; whether the interrupt is let out is the collector's own affair."""
        try:
            self.collector.job(names, folder).run(count, script)
        except KeyboardInterrupt:
            return

    def collected(self, folder: Path) -> dict[str, Stored]:
        """The episodes on disk, by id. Raises Broken if one is there twice."""
        found = [stored for stored in self.collector.stored(folder) if stored.fate == "collected"]
        counts = Counter(stored.episode_id for stored in found)
        expect(all(count == 1 for count in counts.values()), "every episode on disk once", dict(counts))
        return {stored.episode_id: stored for stored in found}

    def aligned(self, folder: Path) -> dict[str, str | None]:
        """Each id on disk and its task."""
        return {name: stored.task for name, stored in self.collected(folder).items()}

    def unbroken(self, names: Sequence[str]) -> dict[str, str | None]:
        """Each id and its task in a run without a stop, with everything in order."""
        folder = self.folder()
        self.run(list(names), folder, Script(), count=len(names))
        aligned = self.aligned(folder)
        same(sorted(map(str, aligned.values())), sorted(names), "the tasks on disk after a run without a stop")
        return aligned

    def needs_workers(self, most: int = 4) -> int:
        """So many workers, or NotExercised."""
        if self.collector.workers < 2:
            raise NotExercised(f"{self.collector.name} runs one episode at a time")
        return min(most, self.collector.workers)

    def needs_filter(self) -> None:
        """Raise NotExercised unless the collector has a filter."""
        if not self.collector.filters:
            raise NotExercised(f"{self.collector.name} has no filter that drops episodes")

    def lines(self, folder: Path) -> list[bytes]:
        """The lines of the ledger with their newlines."""
        return self.collector.ledger(folder).read_bytes().splitlines(keepends=True)


def mean(rewards: Iterable[float | None]) -> float | None:
    """The mean of those that are numbers, computed at once."""
    graded = [reward for reward in rewards if reward is not None]
    return math.fsum(graded) / len(graded) if graded else None


def same_mean(seen: float | None, expected: float | None, what: str) -> None:
    """Raise Broken unless both are None or close."""
    close = seen is None if expected is None else seen is not None and math.isclose(seen, expected, rel_tol=1e-9, abs_tol=1e-12)
    expect(close, f"{what}: {expected}", seen)
