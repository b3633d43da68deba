"""Installs a harness, reads its files for names, and searches for the way to run it."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pytest_harness.discovery.draft import draft_of_found
from pytest_harness.discovery.lab import Lab
from pytest_harness.discovery.packages import Package
from pytest_harness.discovery.scan import Words, mounted_folders, npm_folders, pypi_folders, scan
from pytest_harness.discovery.search import Search, Told
from pytest_harness.provision import Cache, Installed, ProvisionError, provision
from pytest_harness.provision.node import npm_entry
from pytest_harness.provision.python import pypi_entry
from pytest_harness.sandboxes.bubblewrap import SandboxError, check
from pytest_harness.scenarios import ScenarioTable
from pytest_harness.seams import AgentTable, Install, NpmInstall, PypiInstall, Seam, SeamError
from pytest_harness.seams.template import Draft

SCENARIO = "edit_file"
"""The task that it is held to."""


def discover(
    draft: Draft,
    *,
    command: str,
    line: str | None,
    tries: int,
    limit_sec: float,
    cache: Path | None = None,
    say: Callable[[str], None],
    tell: Callable[[Told], None],
) -> Draft:
    """The draft with what was seen. Raises SeamError or ProvisionError in one sentence."""
    if (reason := check()) is not None:
        raise SeamError(reason)
    draft, installed = installed_to_run(draft, command, limit_sec=limit_sec, cache=cache, say=say)
    words = scan_installed(installed, draft.install, draft.name, cache)
    lab = Lab(installed, limit_sec=limit_sec)
    scenario = ScenarioTable.load()[SCENARIO]
    try:
        found = Search(lab, command, words, scenario, line=line, tries=tries, tell=tell).run()
    except SandboxError as error:
        raise SeamError(f"the sandbox of {draft.name} could not be used any more: {error}") from None
    return draft_of_found(draft, found)


def program_of(line: str, package: Package) -> str:
    """The command that a command line begins with, of those that the package has. Raises SeamError."""
    program = Path(shlex.split(line)[0]).name
    if program not in package.commands:
        raise SeamError(f"--command {line}: {program} is none of the package's commands: {', '.join(package.commands)}")
    return program


def installed_to_run(
    draft: Draft, command: str, *, limit_sec: float, cache: Path | None, say: Callable[[str], None]
) -> tuple[Draft, Installed]:
    """The harness installed, with its install scripts if it does not even say its version or help without them. Raises ProvisionError."""
    installed = provision(_seam(draft), cache, say)
    if not isinstance(draft.install, NpmInstall) or _speaks(installed, command, limit_sec):
        return draft, installed
    say(f"{command} does not run as it is; trying with the install scripts of the package")
    other = replace(draft, install=draft.install.model_copy(update={"scripts": True}))
    with_scripts = provision(_seam(other), cache, say)
    return (other, with_scripts) if _speaks(with_scripts, command, limit_sec) else (draft, installed)


def _speaks(installed: Installed, command: str, limit_sec: float) -> bool:
    lab = Lab(installed, limit_sec=limit_sec)
    return any(lab.ask(f"{command} {option}")[0] == 0 for option in ("--version", "--help"))


def scan_installed(installed: Installed, install: Install, name: str, cache: Path | None) -> Words:
    """The names in the harness's own files, without those of what it depends on."""
    if isinstance(install, NpmInstall):
        return scan(npm_folders(npm_entry(Cache(cache), name, install).tree, install.package))
    if isinstance(install, PypiInstall):
        site = next((pypi_entry(Cache(cache), name, install).tree / "venv" / "lib").glob("python*/site-packages"), None)
        if site is None:
            raise ProvisionError(f"{name}: its virtual environment has no site-packages; remove it with doctor --clear {name}")
        return scan(pypi_folders(site, install.package))
    return scan(mounted_folders(installed.mounts))


def _seam(draft: Draft) -> Seam:
    """A row that is good for installing."""
    return Seam(
        name=draft.name,
        title=draft.title,
        homepage=draft.homepage,
        dialect="chat",
        streams=False,
        scenarios=(SCENARIO,),
        install=draft.install,
        agent=AgentTable(command=draft.command),
    )
