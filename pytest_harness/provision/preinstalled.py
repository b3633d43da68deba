"""A harness that is on this machine already: nothing is installed, its folder is mounted as it is."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from pytest_harness.provision.cache import ProvisionError
from pytest_harness.provision.tools import ask, digest_of, file_lines
from pytest_harness.seams import PreinstalledInstall

# In the folder of a harness that is a repository too, what git, Python and pytest keep there and what our own runs leave is no part of it:
# else each run would make another build of it, and no two rollouts would be of one.
_NOT_THE_HARNESS = frozenset({".git", "__pycache__", ".pytest_cache", ".harness"})
_VERSION = re.compile(r"\d+(?:\.\d+)+[^\s,;)]*")


def preinstalled_folder(install: PreinstalledInstall, seam_folder: Path | None) -> Path:
    """The harness's folder. Raises ProvisionError if it is not there."""
    path = Path(install.path).expanduser()
    folder = path if path.is_absolute() else (seam_folder or Path.cwd()) / path
    if not folder.is_dir():
        raise ProvisionError(f"install.path: there is no folder {folder}; correct the seam's row or put the harness there")
    return folder.resolve()


def preinstalled_shims(install: PreinstalledInstall, folder: Path) -> dict[str, str]:
    """The script of each command. Raises ProvisionError if its file is missing."""
    shims = {}
    for command, file in install.commands.items():
        path = folder / file
        if not path.is_file():
            raise ProvisionError(f"install.commands.{command}: there is no file {path}; correct the seam's row")
        shims[command] = f'#!/bin/sh\nexec {shlex.quote(str(path))} "$@"\n'
    return shims


def preinstalled_version(install: PreinstalledInstall, folder: Path) -> str:
    """The row's version, or what the version command prints. Raises ProvisionError if that names no version."""
    if install.version_command is None:
        return str(install.version)
    program, *arguments = shlex.split(install.version_command)
    if program not in install.commands:
        raise ProvisionError(f"install.version_command: {program} is none of install.commands ({', '.join(install.commands)})")
    try:
        said = ask(install.version_command, [folder / install.commands[program], *arguments], {})
    except OSError as error:
        raise ProvisionError(f"install.version_command: {install.version_command} cannot be run: {error}") from None
    found = _VERSION.search(said)
    if found is None:
        raise ProvisionError(f"install.version_command: {install.version_command} printed {said[:80]!r}, a version number was expected")
    return found[0]


def preinstalled_digest(folder: Path) -> str:
    """SHA-256 over every file of the folder, save what a run leaves in it."""
    return digest_of(file_lines(folder, _NOT_THE_HARNESS))
