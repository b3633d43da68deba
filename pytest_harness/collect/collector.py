"""Runs a function for each task and attempt, and keeps the ledger of what it made. It knows nothing of rollouts.

The rules:

* An episode is *task*/*attempt*: which task it is of is in its id, never in the order in which episodes ran or ended.
* A line is written when the function has returned, by this thread alone: the function has brought all it made to the disk by then.
* A function that raises, or returns a result with ``failed`` set, failed in its surroundings: it is run again, ``tries`` times in all. Then
  the episode is *dropped*: a line with the reason, remembered by a resume. It is run again only when ``retry_dropped`` says so.
* A resume runs what has no line, and what has one but is not on disk any more. It refuses lines of another version of a task, and those of
  which what is on disk cannot be read. A line of an episode that the plan does not ask for stays as it is.
* A function that raises CollectError says that no episode can be made any more: nothing more is started, and it is raised on.
* An interrupt starts nothing more, waits for what runs, keeps what is done, and is raised on.
"""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from filelock import FileLock, Timeout

from pytest_harness.collect.ledger import Ledger, Line
from pytest_harness.collect.tally import State, Tally

LOCK = ".episodes.lock"
TRIES = 3


class CollectError(Exception):
    """A collection that cannot be made; the message says what is wrong, where, and what to do."""


class Interrupted(KeyboardInterrupt):
    """The collection was interrupted; ``collection`` is what is on disk."""

    def __init__(self, collection: Collection) -> None:
        super().__init__("interrupted")
        self.collection = collection


@dataclass(frozen=True)
class Task:
    """What episodes are collected of. ``digest`` changes whenever episodes from before and after would not be of one kind."""

    name: str
    digest: str = ""


@dataclass(frozen=True)
class Episode:
    """One episode to be made. Two with one ``id`` are the same."""

    task: Task
    attempt: int

    @property
    def id(self) -> str:
        """Also the path of what it made, below the folder of the collection."""
        return f"{self.task.name}/{self.attempt}"


@dataclass(frozen=True)
class Result:
    """What the function made of an episode."""

    reward: float | None
    """The verifier's number as it is; None if there is none."""
    counts: bool = True
    """Whether the reward may be used; without one it says nothing."""
    reason: str = ""
    failed: bool = False
    """What ran says nothing of the task, and it may go better another time."""
    mark: str = ""
    facts: dict[str, int] = field(default_factory=dict)

    @property
    def state(self) -> State:
        """How the episode is counted, if it is not dropped. A number that is not finite is kept out of every mean."""
        if self.reward is None or not math.isfinite(self.reward):
            return "ungraded"
        return "graded" if self.counts else "invalid"


@dataclass(frozen=True)
class Plan:
    """What is asked for."""

    tasks: tuple[Task, ...]
    attempts: int = 1
    workers: int = 1
    tries: int = TRIES
    retry_dropped: bool = False

    @property
    def episodes(self) -> tuple[Episode, ...]:
        """All of them: the first attempt of each task, then the second, so that a collection that is stopped early is an even one."""
        return tuple(Episode(task, attempt) for attempt in range(1, self.attempts + 1) for task in self.tasks)


@dataclass(frozen=True)
class Collection:
    """What is on disk when a run has ended."""

    lines: tuple[Line, ...]
    ran: int = 0
    """How many episodes this run added."""

    @property
    def episode_ids(self) -> tuple[str, ...]:
        """The episodes that there are, without the dropped ones; exactly those on disk."""
        return tuple(line.episode for line in self.lines if line.state != "dropped")

    @property
    def tally(self) -> Tally:
        """All of them counted again."""
        tally = Tally()
        for line in self.lines:
            tally.add(line.state, line.reward)
        return tally


@dataclass(frozen=True)
class Told:
    """What happens, for people: a ``note``, or an episode that ``again`` is run or has ``ended``, with the count so far."""

    what: Literal["resumed", "note", "again", "ended"]
    text: str
    done: int = 0
    total: int = 0
    tally: Tally = field(default_factory=Tally)
    line: Line | None = None


def collect(
    plan: Plan,
    run: Callable[[Episode], Result],
    folder: Path,
    *,
    on_disk: Callable[[Line], bool] = lambda _: True,
    told: Callable[[Told], None] = lambda _: None,
    interrupt: Callable[[], None] = lambda: None,
) -> Collection:
    """Collect what is missing in ``folder``. Raises CollectError, LedgerError, or Interrupted.

    ``run`` is called from ``plan.workers`` threads, once at a time for one episode. ``on_disk`` says whether what a line tells of is there,
    and raises CollectError if it is there and cannot be read. ``interrupt`` ends what runs where that does not hear the first Ctrl-C; it is
    called by a signal's handler.
    """
    _check(plan)
    with locked(folder):
        ledger = Ledger(folder)
        ledger.check()
        return _Run(plan, run, ledger, on_disk=on_disk, told=told, interrupt=interrupt).go()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """The folder, made and ours alone; may be entered again by the same process. Raises CollectError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / LOCK, timeout=0, is_singleton=True)
        lock.acquire()
    except Timeout:
        raise CollectError(f"another collection is running in {folder}; wait for its end or name another --out") from None
    except OSError as error:
        raise CollectError(f"{folder} cannot be written ({error.strerror}); name a folder of yours with --out") from None
    try:
        yield
    finally:
        lock.release()


def _check(plan: Plan) -> None:
    if not plan.tasks:
        raise CollectError("there is no task to collect episodes of; name one")
    if len({task.name for task in plan.tasks}) != len(plan.tasks):
        twice = next(task.name for task in plan.tasks if [other.name for other in plan.tasks].count(task.name) > 1)
        raise CollectError(f"the task {twice} is named twice; ask for more attempts of it instead")
    for name, number in (("attempts", plan.attempts), ("workers", plan.workers), ("tries", plan.tries)):
        if number < 1:
            raise CollectError(f"{name} must be 1 or more, not {number}")


class _Run:
    """One run, under the lock."""

    def __init__(
        self,
        plan: Plan,
        run: Callable[[Episode], Result],
        ledger: Ledger,
        *,
        on_disk: Callable[[Line], bool],
        told: Callable[[Told], None],
        interrupt: Callable[[], None],
    ) -> None:
        self._plan = plan
        self._function = run
        self._ledger = ledger
        self._on_disk = on_disk
        self._told = told
        self._interrupt = interrupt
        self._lines: dict[str, Line] = {}
        self._tally = Tally()
        self._ran = 0
        self._total = 0
        self._stop = threading.Event()
        self._refused: CollectError | None = None

    def go(self) -> Collection:
        episodes = self._plan.episodes
        self._recover(episodes)
        missing = [episode for episode in episodes if episode.id not in self._lines]
        self._total = len(self._lines) + len(missing)
        if self._lines:
            self._say("resumed", f"{len(self._lines)} episodes are there, {len(missing)} are missing")
        with self._interruptible():
            self._run_all(missing)
        # In the order of the plan, whatever ended first; then what is there beyond the plan.
        order = [*(episode.id for episode in episodes if episode.id in self._lines)]
        planned = set(order)
        lines = (self._lines[name] for name in (*order, *(name for name in self._lines if name not in planned)))
        collection = Collection(tuple(lines), self._ran)
        if self._refused is not None:
            raise self._refused
        if self._stop.is_set():
            raise Interrupted(collection)
        return collection

    def _recover(self, episodes: Iterable[Episode]) -> None:
        lines = self._ledger.recover(lambda text: self._say("note", text))
        digests = {episode.id: episode.task.digest for episode in episodes}
        kept = []
        for line in lines:
            if line.episode not in digests:
                kept.append(line)
                if self._is_there_beyond_the_plan(line):
                    self._count(line)
                continue
            if digests[line.episode] != line.digest:
                raise CollectError(
                    f"{self._ledger.path}: {line.episode} is of another version of its task, its harness or its seam; name another --out"
                )
            if line.state == "dropped" and self._plan.retry_dropped:
                self._say("note", f"{line.episode} had been dropped ({line.reason}); it is run again")
            elif line.state != "dropped" and not self._on_disk(line):
                self._say("note", f"{line.episode} has a line and is not on disk; it is run again")
            else:
                kept.append(line)
                self._count(line)
        if len(kept) < len(lines):
            self._ledger.keep(kept)

    def _is_there_beyond_the_plan(self, line: Line) -> bool:
        """Whether to count an episode that the plan does not ask for. It is never run here, so its line stays whatever is on disk."""
        fault = "it has a line and is not on disk"
        try:
            if line.state == "dropped" or self._on_disk(line):
                return True
        except CollectError as error:
            fault = str(error)
        self._say("note", f"{line.episode} is not counted: {fault}; this command does not ask for it, so its line is kept")
        return False

    def _count(self, line: Line) -> None:
        self._lines[line.episode] = line
        self._tally.add(line.state, line.reward)

    def _run_all(self, missing: Iterable[Episode]) -> None:
        """Run them, as many at a time as there are workers, until there are none or it is interrupted."""
        todo = iter(missing)
        running: set[Future[Line]] = set()
        with self._workers() as pool:
            while True:
                while not self._stop.is_set() and len(running) < self._plan.workers and (episode := next(todo, None)) is not None:
                    running.add(pool.submit(self._until_whole, episode))
                if not running:
                    return
                ended, running = wait(running, return_when=FIRST_COMPLETED)
                for future in ended:
                    error = future.exception()
                    if isinstance(error, CollectError):
                        self._refused = error
                    if isinstance(error, CollectError | KeyboardInterrupt):
                        self._stop.set()
                    else:
                        self._record(future.result())

    @contextmanager
    def _workers(self) -> Iterator[ThreadPoolExecutor]:
        """Threads that are waited for, save after a second Ctrl-C: what they wait for may never come."""
        pool = ThreadPoolExecutor(self._plan.workers, thread_name_prefix="collect")
        patient = True
        try:
            yield pool
        except KeyboardInterrupt:
            patient = False
            raise
        finally:
            pool.shutdown(wait=patient, cancel_futures=True)

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """The first Ctrl-C only sets a flag, so that nothing that is done gets lost; a second one is Python's own."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def interrupt(*_: object) -> None:
            signal.signal(signal.SIGINT, before)
            self._stop.set()
            self._say("note", "interrupted: what is done is kept, what runs is ended; the same command goes on from here")
            self._interrupt()

        before = signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _record(self, line: Line) -> None:
        self._ledger.append(line)
        self._count(line)
        self._ran += 1
        self._say("ended", _ended(line), line)

    def _until_whole(self, episode: Episode) -> Line:
        """In a worker: run it until it is whole, or given up."""
        reason = ""
        for number in range(1, self._plan.tries + 1):
            try:
                result = self._function(episode)
            except CollectError:
                raise  # nothing can be collected any more
            except Exception as error:  # noqa: BLE001 (whatever it is, the other episodes go on and the line says it)
                reason = f"{type(error).__name__}: {error}"
            else:
                if not result.failed:
                    return _line(episode, result, number)
                reason = result.reason
            if self._stop.is_set():  # then it did not fail: it was ended
                raise KeyboardInterrupt
            if number < self._plan.tries:
                self._say("again", f"{episode.id}: {reason}; it is run again")
        return Line(
            episode=episode.id,
            task=episode.task.name,
            digest=episode.task.digest,
            attempt=episode.attempt,
            state="dropped",
            reward=None,
            reason=reason,
            tries=self._plan.tries,
        )

    def _say(self, what: Literal["resumed", "note", "again", "ended"], text: str, line: Line | None = None) -> None:
        self._told(Told(what, text, len(self._lines), self._total, self._tally, line))


def _line(episode: Episode, result: Result, tries: int) -> Line:
    finite = result.reward is not None and math.isfinite(result.reward)
    return Line(
        episode=episode.id,
        task=episode.task.name,
        digest=episode.task.digest,
        attempt=episode.attempt,
        state=result.state,
        reward=result.reward if finite else None,
        reason=result.reason or ("" if finite or result.reward is None else f"the reward {result.reward} is no finite number"),
        tries=tries,
        mark=result.mark,
        facts=result.facts,
    )


def _ended(line: Line) -> str:
    reward = "no reward" if line.reward is None else f"reward {line.reward:g}"
    said = {"graded": reward, "ungraded": "ungraded", "invalid": f"{reward}, which does not count", "dropped": "dropped"}[line.state]
    tries = f" after {line.tries} tries" if line.tries > 1 else ""
    return f"{line.episode}: {said}{tries}" + (f" ({line.reason})" if line.reason else "")
