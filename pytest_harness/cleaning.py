"""What killed runs have left on this machine, and taking it away: processes, temporary folders, containers, and working folders.

Only what bears the mark of an owner that is gone is ours to take away (``owners.py``); a working folder of a rollout has a lock
instead, which ends with its holder (``rollouts/workplace.py``). Nothing is found by its name alone.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pytest_harness.owners import FILE, PREFIX, VARIABLE, is_orphan
from pytest_harness.rollouts.workplace import broken_off
from pytest_harness.sandboxes.channel import SandboxError
from pytest_harness.sandboxes.container_cli import ContainerCli, orphans

_END_SEC = 10.0
"""How long a process may take to die of a SIGKILL: one that is being written to disk takes its time."""


class CleaningError(Exception):
    """Something that cannot be taken away; the message says what and why. ``done`` is what was taken away beside it, a sentence each."""

    def __init__(self, message: str, done: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.done = tuple(done)


@dataclass(frozen=True)
class Leftover:
    """One thing that is there, and whose owner is not."""

    kind: Literal["process", "temporary folder", "container", "working folder"]
    name: str
    remove: Callable[[], None]
    """Raises CleaningError."""
    folder: Path | None = None


def leftovers(rollouts: Iterable[Path]) -> list[Leftover]:
    """All that is left, and of rollouts what lies below these folders."""
    return [*_processes(), *_folders(), *_containers(), *_working_folders(rollouts)]


def _processes() -> Iterator[Leftover]:
    """Those whose environment names an owner that is gone. Those of other users cannot be looked at, and are theirs."""
    for place in sorted(Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
        pid = int(place.name)
        if _is_left(pid):
            with contextlib.suppress(OSError):
                command = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                yield Leftover("process", f"{pid}: {command[:100]}", lambda pid=pid: _end(pid))  # type: ignore[misc]


def _is_left(pid: int) -> bool:
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    start = f"{VARIABLE}=".encode()
    mark = next((each.removeprefix(start) for each in variables if each.startswith(start)), None)
    return mark is not None and is_orphan(mark.decode(errors="replace"))


def _end(pid: int) -> None:
    """Kill it, if it is still the one that was found, and wait until it is gone."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if not _is_left(pid):
            return
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        if not select.select([handle], [], [], _END_SEC)[0]:
            raise CleaningError(f"the process {pid} does not end; see what it waits for in /proc/{pid}/stack")
    except PermissionError:
        raise CleaningError(f"the process {pid} is another user's; run this as that user") from None
    finally:
        os.close(handle)


def _folders() -> Iterator[Leftover]:
    for mark in sorted(Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{FILE}")):
        try:
            left = not mark.parent.is_symlink() and is_orphan(mark.read_text(encoding="ascii"))
        except (OSError, UnicodeDecodeError):
            continue
        if left:
            yield Leftover("temporary folder", str(mark.parent), _removal(mark.parent), mark.parent)


def _containers() -> Iterator[Leftover]:
    for cli, container in orphans():
        yield Leftover("container", f"{container.name} of {cli.engine}", _taking_away(cli, container.id))


def _taking_away(cli: ContainerCli, container: str) -> Callable[[], None]:
    def remove() -> None:
        try:
            cli.remove(container)
        except SandboxError as error:
            raise CleaningError(f"the container {container[:12]} cannot be removed ({error}); remove it yourself") from None

    return remove


def _working_folders(roots: Iterable[Path]) -> Iterator[Leftover]:
    for folder in broken_off(roots):
        yield Leftover("working folder", str(folder), _removal(folder), folder)


def _removal(folder: Path) -> Callable[[], None]:
    def remove() -> None:
        try:
            shutil.rmtree(folder)
        except FileNotFoundError:
            return
        except OSError as error:
            raise CleaningError(f"{folder} cannot be removed ({error.strerror}); remove it yourself") from None

    return remove
