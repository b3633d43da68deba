"""What ``harness-conformance new-seam`` does: from the options to the text of a row, telling how it goes."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from pytest_harness.discovery.discover import discover, program_of
from pytest_harness.discovery.draft import draft_of
from pytest_harness.discovery.packages import Package, ask_npm, ask_pypi, on_this_machine
from pytest_harness.discovery.search import LIMIT_SEC, TRIES, Told
from pytest_harness.provision import Cache
from pytest_harness.seams import SeamError
from pytest_harness.seams.template import blank_draft, checked_name, row_text


@dataclass(frozen=True)
class Asked:
    """The options."""

    name: str
    npm: str | None = None
    pypi: str | None = None
    command: str | None = None
    discover: bool = False
    tries: int = TRIES
    limit_sec: float = LIMIT_SEC


def new_row(asked: Asked, console: Console) -> str:
    """The text of the row. Raises SeamError or ProvisionError in one sentence."""
    checked_name(asked.name)
    _check(asked)

    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    package = _package(asked, say)
    if package is None:
        return row_text(blank_draft(asked.name))
    named = asked.command is not None and (asked.npm or asked.pypi)
    command = program_of(asked.command or "", package) if named else package.command_for(asked.name)
    line = _line(asked.command, command)
    draft = draft_of(asked.name, package, command=command, line=line)
    if asked.discover:
        with Narrator(console) as tell:
            draft = discover(draft, command=command, line=line, tries=asked.tries, limit_sec=asked.limit_sec, say=say, tell=tell)
    return row_text(draft)


class Narrator:
    """Tells of each try: a bar on a terminal, a line for each everywhere. Use it as a context manager."""

    def __init__(self, console: Console) -> None:
        self._console = console
        columns = (SpinnerColumn(), TextColumn("discovering"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._bar.add_task("", total=None)

    def __enter__(self) -> Narrator:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, told: Told) -> None:
        """Tell of one try."""
        self._bar.update(self._task, total=told.total, completed=told.done)
        self._console.print(f"try {told.done}: {told.text}", highlight=False, markup=False, soft_wrap=True)


def _check(asked: Asked) -> None:
    if asked.npm is not None and asked.pypi is not None:
        raise SeamError("--npm and --pypi found; a harness comes from one of them, so leave one out")
    for option, value in (("--npm", asked.npm), ("--pypi", asked.pypi), ("--command", asked.command)):
        if value is not None and not value.strip():
            raise SeamError(f"{option} is empty; give it a value or leave it out")
    if asked.discover and not (asked.npm or asked.pypi or asked.command):
        raise SeamError("--discover runs a harness: name it with --npm PACKAGE, --pypi PACKAGE or --command PROGRAM")
    if asked.tries < 1 or not 0 < asked.limit_sec < math.inf:
        raise SeamError("--tries and --limit must be above 0")
    try:
        shlex.split(asked.command or "")
    except ValueError as error:
        raise SeamError(f"--command {asked.command}: {error}; quote it as a shell wants it") from None
    if asked.command is not None and "{instruction}" in asked.command and not asked.command.endswith("{instruction}"):
        raise SeamError(f"--command {asked.command}: {{instruction}} must be its end")


def _package(asked: Asked, say: Callable[[str], None]) -> Package | None:
    if asked.npm is not None:
        return ask_npm(Cache(), asked.npm.strip(), say)
    if asked.pypi is not None:
        return ask_pypi(asked.pypi.strip())
    return None if asked.command is None else on_this_machine(asked.command)


def _line(told: str | None, command: str) -> str | None:
    """The user's command line with the command as the sandbox has it; None where only the program was named."""
    if told is None or "{instruction}" not in told:
        return None
    _, _, rest = told.strip().partition(" ")
    return f"{command} {rest}"
