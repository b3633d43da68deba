"""Puts what rich prints into pytest's own terminal section: coloured where pytest is, plain and wide where the output is no terminal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from pytest_harness.reports.build import shown

PLAIN_WIDTH = 140
"""Columns where the output is no terminal."""


def write_section(config: pytest.Config, reporter: pytest.TerminalReporter, title: str, print_all: Callable[[Console], None]) -> None:
    """A section of the terminal summary with what ``print_all`` prints."""
    writer = config.get_terminal_writer()
    console = Console(force_terminal=writer.hasmarkup, width=writer.fullwidth if writer.hasmarkup else PLAIN_WIDTH)
    with console.capture() as captured:
        print_all(console)
    reporter.section(title)
    writer.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def write_report(session: pytest.Session, folder: Path, write: Callable[[], Path]) -> Path | str:
    """The path of the report that ``write`` writes; where it cannot be written, why, and the run ends with the exit code of that."""
    try:
        return write()
    except OSError as error:
        session.exitstatus = pytest.ExitCode.USAGE_ERROR
        return f"--report-dir {folder} cannot be written ({error.strerror}); name a folder of yours with room in it"


def tell_report(reporter: pytest.TerminalReporter, written: Path | str, *beside: str) -> None:
    """Where it lies, with the files beside it; or why it lies nowhere."""
    if isinstance(written, str):
        reporter.write_line(f"ERROR: {written}", red=True)
        return
    for path in (written, *(written.with_name(name) for name in beside)):
        reporter.write_line(f"report: {shown(path)}")
