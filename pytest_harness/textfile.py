"""Reads small text files that people write: whatever is wrong with one is one sentence. Writes files of text that came from anywhere."""

from __future__ import annotations

import errno
import tomllib
from pathlib import Path
from typing import Any


class TextFileError(Exception):
    """A file that cannot be read, or is not TOML; the message names it and says why."""


def read_text(path: Path, shown: str | None = None) -> str:
    """The text of a plain file. Raises TextFileError; ``shown`` is what to call the file in it."""
    where = shown or str(path)
    try:
        if path.exists() and not path.is_file():  # a FIFO would make the reader wait for ever
            raise TextFileError(f"{where} is no plain file; put a file in its place")
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise TextFileError(f"{where} is missing") from None
    except UnicodeDecodeError as error:
        raise TextFileError(f"{where} is not UTF-8 text ({error.reason} at byte {error.start})") from None
    except (OSError, RuntimeError, ValueError) as error:
        raise TextFileError(f"{where} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def write_text(path: Path, text: str) -> None:
    """Write a plain file; lone surrogates, which UTF-8 has no bytes for, as their escapes, which JSON has too.

    Raises OSError, also where something that is no plain file has the name: a FIFO would make the writer wait for ever, and a link would
    have something else written over.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise OSError(errno.EINVAL, f"{path.name} is no plain file there", str(path))
    path.write_text(text, encoding="utf-8", errors="backslashreplace")


def read_toml(path: Path, shown: str | None = None) -> dict[str, Any]:
    """The tables of a TOML file. Raises TextFileError; ``shown`` is what to call the file in it."""
    text = read_text(path, shown)
    where = shown or str(path)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at = str(error).replace("at end of document", f"at line {text.count('\n') + 1}, the end")
        raise TextFileError(f"{where} is not TOML: {at}") from None
    except (RecursionError, ValueError) as error:  # nested too deeply, or a number of too many digits
        raise TextFileError(f"{where} is not TOML that can be read: {str(error).splitlines()[0]}") from None
