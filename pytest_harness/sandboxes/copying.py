"""Copies files and folders into a sandbox and out of it.

All that touches paths inside is done inside, by the sandbox's own root, with the paths as arguments: a link or an odd name made by an
agent can only mislead the agent's sandbox. What comes out is unpacked with Python's ``data`` filter, so that it stays in its folder.
Nothing inside ever gets hold of a descriptor of a host file: what goes in is copied to an anonymous file first.
"""

from __future__ import annotations

import asyncio
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import IO

from pytest_harness.sandboxes.channel import SandboxError
from pytest_harness.sandboxes.running import Runner


class CopyError(SandboxError):
    """A file or folder that could not be copied. The message says which and why."""


class Copier:
    """Copies into and out of one running sandbox."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    async def script(self, script: str, *arguments: str, stdin: IO[bytes] | None = None, into: IO[bytes] | None = None) -> None:
        """Run a shell script inside; ``$1`` … are the arguments. Raises CopyError with what it complained about."""
        argv = ["/bin/bash", "-c", script, "copy", *arguments]
        finished = await self._runner.run(argv, stdin=stdin, into=into)
        if finished.code != 0:
            raise CopyError(finished.stderr.decode(errors="replace").strip() or f"copying {arguments} ended with {finished.code}")

    async def put_file(self, source: Path, target: str) -> None:
        """Copy a host file to the path ``target`` inside, with its permissions; into ``target`` if that is a folder."""
        script = 't=$1; [ -d "$t" ] && t=$t/$3; mkdir -p -- "$(dirname -- "$t")" && cat >"$t" && chmod -- "$2" "$t"'
        with tempfile.TemporaryFile() as copy:
            mode = await asyncio.to_thread(_read, source, copy)
            await self.script(script, target, f"{mode:o}", source.name, stdin=copy)

    async def put_folder(self, source: Path, target: str) -> None:
        """Copy what is in a host folder into the folder ``target`` inside, which is made if need be."""
        with tempfile.TemporaryFile() as packed:
            await asyncio.to_thread(_pack, source, packed)
            await self.script('mkdir -p -- "$1" && exec tar -x --no-same-owner -f - -C "$1"', target, stdin=packed)

    async def get_file(self, source: str, target: Path) -> None:
        """Copy the file ``source`` inside to a path of the host."""
        with tempfile.TemporaryFile() as copy:
            await self.script('exec cat -- "$1"', source, into=copy)
            await asyncio.to_thread(_write, copy, target)

    async def get_folder(self, source: str, target: Path) -> list[str]:
        """Copy what is in the folder ``source`` inside to a folder of the host. Returns the names of what was left out for safety."""
        with tempfile.TemporaryFile() as packed:
            await self.script('exec tar -c --format=posix -f - -C "$1" .', source, into=packed)
            return await asyncio.to_thread(_unpack, packed, target)


def _read(source: Path, copy: IO[bytes]) -> int:
    with source.open("rb") as original:
        shutil.copyfileobj(original, copy)
    copy.seek(0)
    return source.stat().st_mode & 0o777


def _write(copy: IO[bytes], target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    copy.seek(0)
    with target.open("wb") as file:
        shutil.copyfileobj(copy, file)


def _pack(source: Path, packed: IO[bytes]) -> None:
    if not source.is_dir():
        raise CopyError(f"{source} is not a folder")
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path in sorted(source.iterdir()):
            archive.add(path, arcname=path.name)
    packed.seek(0)


def _unpack(packed: IO[bytes], target: Path) -> list[str]:
    left_out: list[str] = []

    def keep(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo | None:
        try:
            if not member.isdev():
                return tarfile.data_filter(member, path)
        except tarfile.FilterError:
            pass
        left_out.append(member.name)
        return None

    target.mkdir(parents=True, exist_ok=True)
    packed.seek(0)
    with tarfile.open(fileobj=packed) as archive:
        archive.extractall(target, filter=keep)  # noqa: S202 - the filter is the data filter
    return left_out
