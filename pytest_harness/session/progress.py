"""Tells what a long run is doing: a bar on a terminal while a rollout runs, and one line for each that ended."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import pytest
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from pytest_harness.contract import reward
from pytest_harness.evidence import Evidence
from pytest_harness.session.plan import Attempt


class Progress:
    """Speaks to the terminal past pytest's capturing. Silent with ``-q``; a worker of xdist shows no bar."""

    def __init__(self, config: pytest.Config, *, total: int, is_worker: bool) -> None:
        self._config = config
        self._total = total
        self._silent = getattr(config.option, "verbose", 0) < 0
        self._is_worker = is_worker
        self._begun: set[str] = set()

    def say(self, text: str) -> None:
        """Print one line, on a line of its own. In a worker nothing is printed."""
        if not self._silent and not self._is_worker:
            with self._uncaptured():
                self._new_line().line(text)

    @contextmanager
    def running(self, attempt: Attempt) -> Iterator[Callable[[Evidence], str]]:
        """Show that this attempt runs; what is given makes of its evidence the line that says how it ended."""
        started = time.monotonic()
        self._begun.add(attempt.id)

        def ended(evidence: Evidence) -> str:
            number = reward(evidence)
            verdict = "no reward" if number is None else f"reward {number:g}"
            calls = "1 call" if len(evidence.calls) == 1 else f"{len(evidence.calls)} calls"
            return f"  rollout {attempt.id}: {calls}, {verdict}, {time.monotonic() - started:.1f} s"

        if self._silent or self._is_worker or attempt.spec is None:
            yield ended
            return
        with self._uncaptured(), self._bar(attempt):
            yield ended

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Show on a terminal that something long is going on."""
        console = Console(file=sys.stdout)
        if self._silent or self._is_worker or not console.is_terminal:
            yield
            return
        with self._uncaptured(), console.status(what):
            yield

    def _bar(self, attempt: Attempt) -> AbstractContextManager[object]:
        console = Console(file=sys.stdout)
        if not console.is_terminal:
            return nullcontext()
        self._new_line().flush()
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        bar = Bar(*columns, console=console, transient=True)
        bar.add_task(f"rollout {attempt.id}", total=self._total, completed=len(self._begun) - 1)
        return bar

    def _new_line(self) -> Any:
        """Pytest's terminal writer, at the beginning of a line."""
        writer = self._config.get_terminal_writer()
        if writer.width_of_current_line:
            writer.line()
        return writer

    def _uncaptured(self) -> AbstractContextManager[object]:
        capture = self._config.pluginmanager.getplugin("capturemanager")
        return nullcontext() if capture is None else capture.global_and_fixture_disabled()
