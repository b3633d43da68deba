"""Puts what rich prints into pytest's own terminal section: coloured where pytest is, plain and wide where the output is no terminal."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rich.console import Console

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
