"""Which releases of a harness there are, oldest first, as the registry that it is installed from says."""

from __future__ import annotations

import json
from pathlib import Path

from pytest_harness.provision.cache import Cache, Progress, ProvisionError
from pytest_harness.provision.node import view_npm
from pytest_harness.provision.python import installer_environment
from pytest_harness.provision.tools import ask, uv_program
from pytest_harness.seams import NpmInstall, PypiInstall, Seam


def releases_of(seam: Seam, progress: Progress, *, early: bool = False, cache: Path | None = None) -> tuple[str, ...]:
    """All releases, in the order of their versions; those before a release (alphas, candidates) only if ``early``.

    Raises ProvisionError where the registry does not know the package, or the harness comes from none.
    """
    install = seam.install
    if isinstance(install, NpmInstall):
        return _npm(Cache(cache), install, progress, early=early)
    if isinstance(install, PypiInstall):
        return _pypi(install, early=early)
    raise ProvisionError(f"{seam.name} comes from no registry that could list its releases: there is only the version that is here")


def _npm(cache: Cache, install: NpmInstall, progress: Progress, *, early: bool) -> tuple[str, ...]:
    told = json.loads(view_npm(cache, install.node, install.package, ("versions", "--json"), progress))
    versions = [told] if isinstance(told, str) else told
    return tuple(version for version in versions if early or "-" not in version)


def _pypi(install: PypiInstall, *, early: bool) -> tuple[str, ...]:
    """uv lists no releases; pip does, newest first, for the Python that runs it."""
    package = install.package.partition("[")[0]
    pip = [uv_program(), "tool", "run", "--python", install.python, "pip", "index", "versions", package, "--json"]
    told = json.loads(ask(f"pip index versions {package}", [*pip, *(["--pre"] if early else [])], installer_environment()))
    return tuple(reversed(told["versions"]))
