"""Tells people how a collection goes: a bar with the running numbers on a terminal, a line for each episode elsewhere."""

from __future__ import annotations

from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from pytest_harness.collect.collector import Told


class Narrator:
    """A context manager; call it with each thing that happens. May be called from several threads."""

    def __init__(self, console: Console) -> None:
        self._console = console
        columns = (SpinnerColumn(), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        self._bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._episodes = self._bar.add_task("", total=None)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, told: Told) -> None:
        """Tell it."""
        if told.total:
            self._bar.update(self._episodes, total=told.total, completed=told.done, description=str(told.tally))
        if told.what == "ended" and not self._console.is_terminal:
            self._console.print(f"{told.done}/{told.total} {told.text}; {told.tally}", highlight=False, markup=False, soft_wrap=True)
        else:
            style = {"again": "yellow", "note": "yellow"}.get(told.what)
            self._console.print(told.text, style=style, highlight=False, markup=False, soft_wrap=True)
