"""Tells what a long run is doing: a bar on a terminal while a rollout runs, one plain line for each that ended."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import pytest
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from pytest_harness.contract import reward
from pytest_harness.evidence import Evidence
from pytest_harness.session.plan import Attempt


class Progress:
    """Speaks to the terminal past pytest's capturing. Silent in xdist workers and with ``-q``."""

    def __init__(self, config: pytest.Config, *, total: int, silent: bool) -> None:
        self._config = config
        self._total = total
        self._silent = silent or config.option.verbose < 0
        self._done = 0

    def say(self, text: str) -> None:
        """Print one line."""
        if not self._silent:
            with self._uncaptured() as console:
                console.print(text, highlight=False, markup=False, soft_wrap=True)

    @contextmanager
    def running(self, attempt: Attempt) -> Iterator[Callable[[Evidence], None]]:
        """Show that this attempt runs; call what is given with its evidence when it has ended."""
        started = time.monotonic()
        self._done += 1

        def done(evidence: Evidence) -> None:
            if attempt.spec is not None:
                number = reward(evidence)
                verdict = "no reward" if number is None else f"reward {number:g}"
                seconds = f"{time.monotonic() - started:.1f} s"
                lines.append(f"  rollout {attempt.id}: {len(evidence.calls)} calls, {verdict}, {seconds}")

        lines: list[str] = []
        if self._silent or attempt.spec is None:
            yield done
            return
        with self._uncaptured() as console:
            with self._bar(console, attempt):
                yield done
            console.print("\n" + "\n".join(lines) if self._done == 1 else "\n".join(lines), highlight=False, markup=False, end="\n")

    def _bar(self, console: Console, attempt: Attempt) -> AbstractContextManager[object]:
        if not console.is_terminal:
            return nullcontext()
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        bar = Bar(*columns, console=console, transient=True)
        bar.add_task(f"rollout {attempt.id}", total=self._total, completed=self._done - 1)
        return bar

    @contextmanager
    def _uncaptured(self) -> Iterator[Console]:
        capture = self._config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled() if capture is not None else nullcontext():
            yield Console(file=sys.stdout)
