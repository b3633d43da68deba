"""What the installers share: running an installer with its output kept, and digests of what it left."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import uv

from pytest_harness.provision.cache import Making, ProvisionError

_LIMIT_SEC = 900
_COMMAND = "$"
_PREFIXES = re.compile(r"^\s*(npm error )?(error: |notarget |404 |network )?")
_IDLE = ("code ", "npm warn", "Using ", "Resolved ", "Creating ", "Activate ")


def uv_program() -> str:
    """The path of uv. Raises ProvisionError if this environment has lost it."""
    try:
        return str(uv.find_uv_bin())
    except FileNotFoundError:
        raise ProvisionError("uv is missing from this Python environment; run: python -m pip install --force-reinstall uv") from None


def run_installer(making: Making, what: str, command: Sequence[str | Path], env: Mapping[str, str]) -> None:
    """Run an installer in the entry's tree, its output appended to the entry's log.

    ``env`` is laid over this process's own. Raises ProvisionError with the last line of the output and the path of the log.
    """
    with making.log.open("a", encoding="utf-8") as log:
        print(_COMMAND, *command, file=log, flush=True)
        try:
            done = subprocess.run(
                [str(part) for part in command],
                cwd=making.tree,
                env={**os.environ, **env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=(making.lock,),
                timeout=_LIMIT_SEC,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ProvisionError(f"{what} was not done after {_LIMIT_SEC} s; its output is in {making.log}") from None
    if done.returncode != 0:
        raise ProvisionError(f"{what} failed with exit code {done.returncode}: {_gist(making.log)}; all of its output is in {making.log}")


def ask(what: str, command: Sequence[str | Path], env: Mapping[str, str], text: str = "") -> str:
    """Run a program that answers on its standard output. Raises ProvisionError if it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        env={**os.environ, **env},
        input=text,
        capture_output=True,
        text=True,
        timeout=_LIMIT_SEC,
        check=False,
    )
    if done.returncode != 0:
        raise ProvisionError(f"{what} failed with exit code {done.returncode}: {_first_line(done.stderr) or 'it said nothing'}")
    return done.stdout.strip()


def digest_of(lines: Iterable[str]) -> str:
    """SHA-256 of the lines in their order."""
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


def file_lines(folder: Path, skip: frozenset[str] = frozenset()) -> Iterator[str]:
    """``<relative path> <SHA-256>`` of every file below ``folder`` in order, without what lies in a folder named in ``skip``."""
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if skip.isdisjoint(inside.parts) and path.is_file():
            with path.open("rb") as file:
                yield f"{inside.as_posix()} {hashlib.file_digest(file, 'sha256').hexdigest()}"


def _gist(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    start = max(number for number, line in enumerate(lines) if line.startswith(f"{_COMMAND} "))
    return _first_line("\n".join(lines[start + 1 :])) or "it said nothing"


def _first_line(text: str) -> str:
    """The first line that says what went wrong, with the cause if the next names one: npm and uv put details after that."""
    said = [_PREFIXES.sub("", line).strip(" .") for line in text.splitlines()]
    telling = [line for line in said if line and not line.startswith(_IDLE)]
    gist = ": ".join(line.removeprefix("cause: ") for line in telling[: 2 if len(telling) > 1 and telling[1].startswith("cause: ") else 1])
    return gist if len(gist) <= 300 else gist[:297] + "..."
