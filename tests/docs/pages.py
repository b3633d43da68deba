"""The pages of this project, and the commands in them.

A block marked ``sh`` holds commands. Before it may stand a comment that says how they are tested::

    <!-- commands: exit 1 -->              run, and end with 1 instead of 0
    <!-- commands: slow -->                run by tests/docs/slow_commands.py
    <!-- commands: not run, because … -->  only looked at: everything in them must exist

Without one they are run by the unit tests.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
"""Those of the examples are run by tests of their own."""
PROGRAMS = ("pytest", "harness-conformance")
_MARK = re.compile(r"<!--\s*commands:\s*(?P<how>slow|exit (?P<code>\d+)|not run, (?P<why>.{10,}?))\s*-->", re.DOTALL)


@dataclass(frozen=True)
class Command:
    """One command of a page, with the words that the shell makes of it; its variables stay as they are."""

    page: str
    line: int
    text: str
    words: tuple[str, ...]
    how: str
    """``run``, ``slow`` or ``not run``."""
    code: int = 0
    """The exit code with which it is to end."""

    def __str__(self) -> str:
        return " ".join(self.words)

    @property
    def program(self) -> str:
        return self.words[0]


class PageError(Exception):
    """A page with something in it that is not understood."""


def tokens(page: Path) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8"))


def blocks(page: Path) -> list[tuple[Token, str | None]]:
    """The code blocks of a page, each with the comment right before it."""
    found, before = [], None
    for token in tokens(page):
        if token.type == "fence":
            found.append((token, before))
        before = token.content if token.type == "html_block" else None
    return found


def commands(page: Path) -> list[Command]:
    """The commands of a page. Raises PageError where a mark is not understood."""
    found = []
    for token, before in blocks(page):
        if token.info.strip() != "sh":
            continue
        how, code, where = "run", 0, f"{page.relative_to(ROOT)}"
        line = token.map[0] + 2
        if before is not None and "commands:" in before:
            mark = _MARK.search(before)
            if mark is None:
                raise PageError(f"{where}, line {line}: {before.strip()} is no mark; see tests/docs/pages.py")
            how, code = ("not run" if mark["why"] else "run" if mark["code"] else mark["how"]), int(mark["code"] or 0)
        text = token.content.replace("\\\n", " ")
        for number, each in enumerate(text.splitlines()):
            words = tuple(shlex.split(each, comments=True))
            if words:
                found.append(Command(where, line + number, each, words, how, code))
    return found


ALL = [command for page in PAGES for command in commands(page)]


def inline(page: Path) -> list[str]:
    """What stands between backticks in the text of a page."""
    return [child.content for token in tokens(page) for child in token.children or () if child.type == "code_inline"]
