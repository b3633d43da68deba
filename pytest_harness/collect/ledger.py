"""The ledger of a collection, ``episodes.jsonl``: one line an episode, written when everything else of that episode is on disk.

Lines are only appended. A line counts when its newline is there: what a crash left behind the last newline is dropped with a word, and its
episode is missing. A line that cannot be read anywhere else is no crash's work, and is refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError, field_validator, model_validator

from pytest_harness.collect.tally import State
from pytest_harness.evidence.model import Record

LEDGER = "episodes.jsonl"
_LONGEST_NAME = 255
"""Bytes that the name of a folder may have."""


class LedgerError(Exception):
    """A ledger that cannot be read or written; the message names the file, the line and what to do."""


class Line(Record):
    """One episode. NaN and infinities are no rewards, and no reward is null."""

    episode: str
    """The folder of its evidence, relative to the ledger's."""
    task: str
    digest: str
    """Of the task and of everything that must be the same for episodes to be of one collection."""
    attempt: Annotated[int, Field(ge=1)]
    state: State
    reward: Annotated[float, Field(allow_inf_nan=False)] | None
    """The verifier's number, kept whether it counts or not; None is not zero."""
    reason: str = ""
    """Why there is no reward, why it does not count, or why the episode was dropped."""
    tries: Annotated[int, Field(ge=1)] = 1
    """How often it was run until it was whole, or given up."""
    mark: str = ""
    """What tells this run of the episode from any other: the attempt id in the manifest of its evidence."""
    facts: dict[str, int] = Field(default_factory=dict)
    """Counts of what is in the evidence, e.g. ``calls`` and ``truncated``."""

    @field_validator("episode")
    @classmethod
    def _is_a_folder_below(cls, episode: str) -> str:
        """What it names is removed and written again: it must be a path that can be, and never one out of the collection."""
        parts = episode.split("/")
        if {"", ".", ".."} & set(parts) or "\0" in episode or max(len(part.encode()) for part in parts) > _LONGEST_NAME:
            raise ValueError("the episode is no path of a folder below the ledger's")
        return episode

    @model_validator(mode="after")
    def _graded_has_a_reward(self) -> Line:
        if (self.state == "graded" and self.reward is None) or (self.state in ("ungraded", "dropped") and self.reward is not None):
            raise ValueError(f"state {self.state} does not go with a reward of {self.reward}")
        return self


class Ledger:
    """The ledger in one folder. One process writes it; see ``collector`` for the lock."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / LEDGER

    def read(self) -> list[Line]:
        """Its whole lines; the file stays as it is. Raises LedgerError."""
        return self._lines(self._whole()[0])

    def recover(self, told: Callable[[str], None]) -> list[Line]:
        """Read it, and cut off what a crash left of a last line. Raises LedgerError."""
        whole, torn = self._whole()
        lines = self._lines(whole)
        if torn:
            told(f"{self.path}: the last line is torn ({torn} bytes); it is dropped and its episode run again")
            self._replace(whole)
        return lines

    def check(self) -> None:
        """Raises LedgerError if it is there and no line can be added: better before the first episode than after it."""
        if self._is_there():
            try:
                os.close(os.open(self.path, os.O_WRONLY | os.O_APPEND))
            except OSError as error:
                raise LedgerError(f"{self.path} cannot be written ({error.strerror}); make it writable or name another --out") from None

    def append(self, line: Line) -> None:
        """Add one line and bring it to the disk. Raises LedgerError."""
        data = (line.model_dump_json() + "\n").encode()
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                written = os.write(descriptor, data)
                if written != len(data):
                    os.ftruncate(descriptor, os.fstat(descriptor).st_size - written)
                    raise LedgerError(f"{self.path} cannot be written (no room for a line); make room and run the same command again")
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise self._unwritable(error) from None

    def keep(self, lines: Iterable[Line]) -> None:
        """Leave only these lines, all at once. Raises LedgerError."""
        self._replace("".join(line.model_dump_json() + "\n" for line in lines).encode())

    def _is_there(self) -> bool:
        try:
            if self.path.is_file():
                return True
            if self.path.exists() or self.path.is_symlink():  # a FIFO would make the reader wait for ever
                raise LedgerError(f"{self.path} cannot be read (it is no plain file); name another --out")
        except OSError as error:
            raise LedgerError(f"{self.path} cannot be read ({error.strerror}); name another --out") from None
        return False

    def _whole(self) -> tuple[bytes, int]:
        """What is there up to the last newline, and the number of bytes behind it."""
        try:
            content = self.path.read_bytes() if self._is_there() else b""
        except OSError as error:
            raise LedgerError(f"{self.path} cannot be read ({error.strerror}); name another --out") from None
        length = content.rfind(b"\n") + 1
        return content[:length], len(content) - length

    def _lines(self, content: bytes) -> list[Line]:
        lines: dict[str, Line] = {}
        # Not splitlines(): Python takes U+2028 and U+0085 for line ends too.
        for number, raw in enumerate(content.split(b"\n")[:-1], start=1):
            where = f"{self.path}, line {number}"
            try:
                line = Line.model_validate(json.loads(raw))
            except (ValueError, RecursionError) as error:
                reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error).split("\n", 1)[0]
                raise LedgerError(
                    f"{where} is no episode ({reason}); restore the file, or remove this line to run its episode again"
                ) from None
            if line.episode in lines:
                raise LedgerError(f"{where}: {line.episode} stands there twice; remove one of the two lines")
            lines[line.episode] = line
        return list(lines.values())

    def _replace(self, content: bytes) -> None:
        staging = self.path.with_name(f".{self.path.name}.new")
        try:
            with staging.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            staging.replace(self.path)
        except OSError as error:
            raise self._unwritable(error) from None

    def _unwritable(self, error: OSError) -> LedgerError:
        return LedgerError(f"{self.path} cannot be written ({error.strerror}); make room and run the same command again")
