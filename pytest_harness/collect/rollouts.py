"""The episodes of ``harness-conformance rollout``: one Harbor trial each, in a process of its own, with its evidence.

One waits where memory is short, as the rollouts of pytest do. A process that dies, killed for its memory or by a fault of a library, is a
failure of that one try. No process outlives the command, however that ends.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from functools import cached_property
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from pathlib import Path
from typing import Self

from pytest_harness.collect.collector import CollectError, Episode, Result, Task
from pytest_harness.collect.ledger import Line
from pytest_harness.contract import grade, validity
from pytest_harness.evidence import Evidence, EvidenceError, read_evidence
from pytest_harness.evidence.store import MANIFEST
from pytest_harness.provision import Installed
from pytest_harness.rollouts.engines import SharedEngine
from pytest_harness.rollouts.room import room, tickets
from pytest_harness.rollouts.spec import RolloutSpec
from pytest_harness.rollouts.workplace import WorkplaceError, check_workplaces

LOG = ".workers.log"
"""What the processes print: Harbor's and the libraries' own words."""


@dataclass(frozen=True)
class Kind:
    """What attempts are made of: a seam with its harness, and a scenario. ``spec.attempt`` is of no account."""

    spec: RolloutSpec
    installed: Installed
    engine: SharedEngine | None = None
    """The engine of all rollouts; None where each has one of its own."""

    @cached_property
    def task(self) -> Task:
        """Named as the folder of its evidence; the digest changes with what is named in docs/rollout.md."""
        spec, engine = self.spec, self.engine
        facts = [spec.seam.facts.digest, self.installed.version, self.installed.digest, spec.scenario.facts.model_dump_json()]
        facts += [json.dumps(spec.scenario.script), _digest_of_folder(spec.scenario.task), str(spec.step_limit)]
        facts += [] if engine is None else [json.dumps(sorted(engine.versions.items())), json.dumps(sorted(engine.digests.items()))]
        name = spec.evidence_dir(Path()).parent.as_posix()
        return Task(name, hashlib.sha256(json.dumps(facts).encode()).hexdigest())


class Rollouts:
    """Runs episodes, each calling thread in a process of its own. A context manager: its processes end with it."""

    def __init__(self, kinds: Iterable[Kind], out: Path, *, run_id: str, requirements: str) -> None:
        self._kinds: Mapping[str, Kind] = {kind.task.name: kind for kind in kinds}
        self._out = out.absolute()
        self._run_id = run_id
        self._requirements = requirements
        self._processes = threading.local()
        self._all: list[ProcessPoolExecutor] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is KeyboardInterrupt:  # the second one: nothing is waited for, and a process that hangs ends too
            for process in multiprocessing.active_children():
                process.kill()
        for pool in self._all:
            pool.shutdown(cancel_futures=True)

    def __call__(self, episode: Episode) -> Result:
        """Run one. Raises what went wrong around it, and CollectError if the engine returns less than it did: no episode counts then."""
        kind = self._kinds[episode.task.name]
        if (fallen := self._fallen(kind.engine)) is not None:
            raise CollectError(f"{fallen}; start it as it was, and the same command goes on from here")
        return self._made(replace(kind.spec, attempt=episode.attempt), kind)

    def _made(self, spec: RolloutSpec, kind: Kind) -> Result:
        try:
            process = self._process()
            with _deaf():
                ran = process.submit(_run, spec, kind, self._out, self._run_id, self._requirements)
            return ran.result()
        except BrokenProcessPool:
            self._processes.pool = None
            raise RuntimeError(f"the process of the rollout died; {self._out / LOG} has its last words") from None

    def interrupt(self) -> None:
        """The first Ctrl-C: a process hears it by itself."""

    def _fallen(self, engine: SharedEngine | None) -> str | None:
        guard = None if engine is None else engine.guard
        return None if guard is None else guard.check()

    def on_disk(self, line: Line) -> bool:
        """Whether the evidence that the line tells of is there, and of that very run. Raises CollectError if it is there and damaged."""
        folder = self._out / line.episode
        try:
            (folder / MANIFEST).lstat()
            return read_evidence(folder).manifest.attempt_id == line.mark
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise CollectError(f"{folder} cannot be read ({error.strerror}); make it readable, or remove it to run it again") from None
        except EvidenceError as error:
            raise CollectError(f"{folder} is damaged; restore it, or remove it to run its episode again: {error}") from None

    def _process(self) -> ProcessPoolExecutor:
        pool: ProcessPoolExecutor | None = getattr(self._processes, "pool", None)
        if pool is None:
            context = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
            pool = ProcessPoolExecutor(1, mp_context=context, initializer=_begin, initargs=(self._out / LOG,))
            self._processes.pool = pool
            self._all.append(pool)
        return pool


def check_folder(out: Path) -> None:
    """Raises CollectError for what lies in this folder where a rollout would write."""
    log = out / LOG
    if (log.exists() or log.is_symlink()) and not log.is_file():  # a FIFO would make the processes wait for ever
        raise CollectError(f"{log} is no plain file; remove it or name another --out")
    try:
        tickets(out).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CollectError(f"{tickets(out)} cannot be made ({error.strerror}); remove what is there or name another --out") from None
    try:
        check_workplaces(out)
    except WorkplaceError as error:
        raise CollectError(f"{error}; remove it or name another --out") from None


@contextlib.contextmanager
def _deaf() -> Iterator[None]:
    """What this thread starts meanwhile hears no Ctrl-C: a process must not die of it while it still imports, before it can ignore it."""
    resource_tracker.ensure_running()  # its start would let the signal in again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(log: Path) -> None:
    """In the process: keep quiet, leave Ctrl-C to the rollout that runs, and end when the command does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os.kill(os.getpid(), signal.SIGKILL)  # the sandbox's keeper sees it and ends the sandbox


def _run(spec: RolloutSpec, kind: Kind, out: Path, run_id: str, requirements: str) -> Result:
    """In the process: one rollout."""
    from pytest_harness.rollouts.rollout import run_rollout  # noqa: PLC0415 (Harbor takes a second to import)

    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with room(tickets(out), spec.id, spec.memory_mb):
            folder = run_rollout(spec, kind.installed, evidence_dir=out, run_id=run_id, requirements=requirements, shared=kind.engine)
        return result_of(read_evidence(folder))
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def result_of(evidence: Evidence) -> Result:
    """What the evidence says of the episode. One that says nothing of its subject failed in its surroundings."""
    said, graded = validity(evidence), grade(evidence)
    finishes = [sample.finish_reason for call in evidence.calls for sample in call.samples]
    return Result(
        reward=graded.value,
        counts=graded.state == "valid",
        reason=graded.reason,
        failed=not said.valid,
        mark=evidence.manifest.attempt_id,
        facts={"calls": len(evidence.calls), "truncated": finishes.count("length")},
    )


def _digest_of_folder(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        with contextlib.suppress(OSError):
            digest.update(json.dumps([path.relative_to(folder).as_posix(), hashlib.sha256(path.read_bytes()).hexdigest()]).encode())
    return digest.hexdigest()
