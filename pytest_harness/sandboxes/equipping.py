"""Puts a harness into a sandbox in which nothing of this machine can be mounted, by the backend's own upload.

Its commands lie in ``/usr/local/bin``, which every usual PATH holds: how a backend sets the PATH of a command is its own affair.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_harness.owners import temporary_folder
from pytest_harness.sandboxes.channel import SandboxError

if TYPE_CHECKING:
    from harbor.environments.base import BaseEnvironment

COMMANDS = "/usr/local/bin"
_UPLOADED = "/tmp/harness-conformance.tar.gz"  # noqa: S108 - the sandbox's own
_UNPACK = f"tar -xzf {_UPLOADED} --no-same-owner -C / && rm -f {_UPLOADED}"
_MISSING = 'while read -r path; do [ -e "$path" ] || echo "$path"; done'


@dataclass(frozen=True)
class Equipment:
    """What a sandbox is to have: an archive of files at their places, scripts of commands, and texts of files (``~`` is its home)."""

    archive: Path | None = None
    leads_to: Sequence[str] = ()
    """Paths that must be there once the archive is unpacked."""
    shims: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)


async def equip(environment: BaseEnvironment, equipment: Equipment) -> None:
    """Put all of it into a running sandbox. Raises SandboxError where the sandbox does not take it, and what its class raises."""
    if equipment.archive is not None:
        await _unpack(environment, equipment.archive)
    if equipment.leads_to and (missing := await _missing(environment, equipment.leads_to)):
        raise SandboxError(
            f"the harness needs {missing[0]} in the sandbox, which is this machine's own and not put in; install the harness with a Python "
            "outside of /usr (uv python install), or use an image that has it"
        )
    home = await _run(environment, 'printf %s "$HOME"') or "/root"
    with temporary_folder("equipment") as folder:
        archive = folder / "own.tar.gz"
        _write(equipment, home, archive)
        await _unpack(environment, archive)


async def _unpack(environment: BaseEnvironment, archive: Path) -> None:
    await environment.upload_file(archive, _UPLOADED)
    await _run(environment, _UNPACK)


async def _missing(environment: BaseEnvironment, paths: Sequence[str]) -> list[str]:
    listed = "\n".join(paths)
    return (await _run(environment, f"{_MISSING} <<'END'\n{listed}\nEND")).splitlines()


async def _run(environment: BaseEnvironment, command: str) -> str:
    result = await environment.exec(command, cwd="/", user="root")
    if result.return_code != 0:
        said = (result.stderr or result.stdout or "").strip()[-200:]
        first = command.partition("\n")[0]
        raise SandboxError(f"the harness could not be put into the sandbox: {first!r} ended with {result.return_code}: {said}")
    return (result.stdout or "").strip()


def _write(equipment: Equipment, home: str, into: Path) -> None:
    with tarfile.open(into, "w:gz") as archive:
        for name, script in equipment.shims.items():
            _add(archive, f"{COMMANDS}/{name}", script, 0o755)
        for path, text in equipment.files.items():
            _add(archive, home + path[1:] if path.startswith("~/") else path, text, 0o644)


def _add(archive: tarfile.TarFile, path: str, text: str, mode: int) -> None:
    data = text.encode()
    member = tarfile.TarInfo(path.lstrip("/"))
    member.size, member.mode = len(data), mode
    archive.addfile(member, io.BytesIO(data))
