"""From a row of the seam table to a harness that is there: ``provision`` installs what is missing, ``find_installed`` only looks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pytest_harness.provision.cache import Cache, Entry, Facts, Progress, ProvisionError
from pytest_harness.provision.inside_harbor import check_programs, harbor_digest, harbor_version
from pytest_harness.provision.node import newest_npm, node_entry, npm_entry, npm_shims, npm_targets, obtain_npm
from pytest_harness.provision.preinstalled import preinstalled_digest, preinstalled_folder, preinstalled_shims, preinstalled_version
from pytest_harness.provision.python import newest_pypi, obtain_pypi, pypi_entry, pypi_shims
from pytest_harness.sandboxes.layout import LayoutError, Mount
from pytest_harness.seams import HarborInstall, NpmInstall, PreinstalledInstall, PypiInstall, Seam


@dataclass(frozen=True)
class Installed:
    """A harness that is there."""

    name: str
    asked: str | None
    """The version asked for, which may be ``latest``; None where only the harness knows."""
    version: str
    """The version that really is there."""
    digest: str
    """SHA-256 over everything that was resolved and over the package's own files."""
    mounts: tuple[Mount, ...]
    """What a sandbox must see. A virtual environment lies at its own absolute path, for its scripts hold that path."""
    shims: dict[str, str]
    """Text of an executable script for each command, for a folder that stands first in the sandbox's PATH."""


def provision(seam: Seam, cache: Path | None = None, progress: Progress | None = None) -> Installed:
    """The seam's harness, installed into the cache if it is not there yet.

    ``progress`` is told in words what is going on. Raises ProvisionError in one sentence.
    """
    place = Cache(cache)
    tell = progress or _say_nothing
    install = seam.install
    if isinstance(install, PreinstalledInstall):
        return _preinstalled(seam, install)
    if isinstance(install, HarborInstall):
        return _with_harbor(seam, install)
    if isinstance(install, NpmInstall):
        if install.version == "latest":
            install = install.model_copy(update={"version": newest_npm(place, install, tell)})
        entry, facts = obtain_npm(place, seam.harness, install, tell)
    else:
        if install.version == "latest":
            install = install.model_copy(update={"version": newest_pypi(install)})
        entry, facts = obtain_pypi(place, seam.harness, install, tell)
    return _installed(seam, place, install, entry, facts)


def find_installed(seam: Seam, cache: Path | None = None) -> Installed | None:
    """The seam's harness if it is there, and None if it would have to be installed (``latest`` always has to be asked for)."""
    place = Cache(cache)
    install = seam.install
    if isinstance(install, PreinstalledInstall):
        return _preinstalled(seam, install)
    if isinstance(install, HarborInstall):
        return _with_harbor(seam, install)
    entry = npm_entry(place, seam.harness, install) if isinstance(install, NpmInstall) else pypi_entry(place, seam.harness, install)
    facts = entry.facts()
    return None if facts is None else _installed(seam, place, install, entry, facts)


def _installed(seam: Seam, cache: Cache, install: NpmInstall | PypiInstall, entry: Entry, facts: Facts) -> Installed:
    if isinstance(install, NpmInstall):
        shims = npm_shims(entry, seam.harness, install)
        sources = (entry.tree, node_entry(cache, install.node).tree)
        mounts = tuple(Mount(source, str(target)) for source, target in zip(sources, npm_targets(seam.harness), strict=True))
    else:
        shims = pypi_shims(entry, install)
        mounts = _mounts(entry.tree, *facts.mounts)
        if install.at is not None:
            mounts += (Mount(entry.tree / "venv", install.at),)
    return Installed(seam.name, seam.version, facts.version, facts.digest, mounts, shims)


def _with_harbor(seam: Seam, install: HarborInstall) -> Installed:
    check_programs(seam.name, install.programs)
    return Installed(seam.name, install.version, install.version or harbor_version(), harbor_digest(), (), {})


def _preinstalled(seam: Seam, install: PreinstalledInstall) -> Installed:
    folder = preinstalled_folder(install, seam.folder)
    return Installed(
        name=seam.name,
        asked=seam.version,
        version=preinstalled_version(install, folder),
        digest=preinstalled_digest(folder),
        mounts=_mounts(folder, *install.mounts),
        shims=preinstalled_shims(install, folder),
    )


def _mounts(*paths: Path | str) -> tuple[Mount, ...]:
    try:
        return tuple(Mount(Path(path), str(path)) for path in paths)
    except LayoutError as error:
        raise ProvisionError(f"install.mounts: {error}") from None


def _say_nothing(_: str) -> None:
    pass
