"""The archive by which a harness comes into a sandbox where nothing can be mounted: what the other sandboxes mount, at the same paths."""

from __future__ import annotations

import hashlib
import json
import tarfile
from dataclasses import dataclass
from pathlib import Path

from pytest_harness.provision.cache import Cache, Made, Making, Progress
from pytest_harness.provision.installed import Installed
from pytest_harness.sandboxes.layout import Mount

ARCHIVE = "equipment.tar.gz"
LEADS_TO = "leads_to.json"


@dataclass(frozen=True)
class Packed:
    """An archive that is unpacked at ``/``."""

    archive: Path
    leads_to: tuple[str, ...]
    """Where absolute links in it lead: that must be there in the sandbox too, be it out of the archive."""


def packed(installed: Installed, harness: str, cache: Path | None = None, progress: Progress = lambda _: None) -> Packed | None:
    """The archive of an installed harness, made once; None where the harness needs no files. Raises ProvisionError."""
    if not installed.mounts:
        return None
    place = Cache(cache)
    where = [(str(mount.source), mount.target) for mount in installed.mounts]
    entry = place.entry(f"harness/{harness}", installed.version, {"packed": installed.digest, "mounts": where})

    def make(making: Making) -> Made:
        leads_to = pack(installed.mounts, making.tree / ARCHIVE)
        (making.tree / LEADS_TO).write_text(json.dumps(sorted(leads_to)), encoding="utf-8")
        with (making.tree / ARCHIVE).open("rb") as file:
            return Made(version=installed.version, digest=hashlib.file_digest(file, "sha256").hexdigest())

    place.obtain(entry, f"{harness} {installed.version} as an archive", make, progress)
    return Packed(entry.tree / ARCHIVE, tuple(json.loads((entry.tree / LEADS_TO).read_text(encoding="utf-8"))))


def pack(mounts: tuple[Mount, ...], into: Path) -> set[str]:
    """Write the archive; everything in it is root's. Returns the places to which its absolute links lead."""
    leads_to: set[str] = set()

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = "root"
        if member.issym() and member.linkname.startswith("/") and Path(member.linkname).exists():
            leads_to.add(member.linkname)
        return member

    with tarfile.open(into, "w:gz", compresslevel=1) as archive:
        for mount in mounts:
            archive.add(mount.source.resolve(), arcname=mount.target.lstrip("/"), filter=plain)
    return leads_to
