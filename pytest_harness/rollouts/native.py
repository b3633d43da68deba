"""Brings the harness's own session log out of the sandbox before the sandbox goes."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from harbor.environments.base import BaseEnvironment


async def collect_native(environment: BaseEnvironment, pattern: str, target: Path) -> None:
    """Copy what matches ``pattern``, a shell glob in which ``~`` is the agent's home, into the folder ``target``.

    A log that is not there leaves nothing; the check that wants it says so.
    """
    listing = await environment.exec(f'for path in {pattern}; do if [ -e "$path" ]; then printf \'%s\\n\' "$path"; fi; done')
    for path in (listing.stdout or "").split("\n")[:-1]:
        place = target / PurePosixPath(path).name
        if await environment.is_dir(path):
            await environment.download_dir(path, place)
        else:
            await environment.download_file(path, place)
