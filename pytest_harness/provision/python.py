"""Packages of PyPI, each in a virtual environment of its own, made by uv."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import re
import shlex
import sys
from pathlib import Path

from pytest_harness.provision.cache import Cache, Entry, Facts, Made, Making, Progress, ProvisionError
from pytest_harness.provision.tools import ask, digest_of, run_installer, uv_program
from pytest_harness.seams import PypiInstall

ABOUT = "import json, sys, sysconfig; print(json.dumps([sys.version.split()[0], sys.base_prefix, sysconfig.get_path('purelib')]))"


def pypi_entry(cache: Cache, name: str, install: PypiInstall) -> Entry:
    """Where this harness belongs."""
    recipe = install.model_dump(include={"kind", "package", "version", "python", *(["also"] if install.also else [])})
    return cache.entry(f"harness/{name}", install.version, recipe)


def obtain_pypi(cache: Cache, name: str, install: PypiInstall, progress: Progress) -> tuple[Entry, Facts]:
    """The package with everything it depends on. Raises ProvisionError if it cannot be installed."""
    entry = pypi_entry(cache, name, install)

    def make(making: Making) -> Made:
        spec = f"{install.package}=={install.version}"
        venv = making.tree / "venv"
        python = venv / "bin" / "python"
        run_installer(
            making, f"uv venv --python '{install.python}'", [uv_program(), "venv", *_choice(install), venv], installer_environment()
        )
        command: list[str | Path] = [uv_program(), "pip", "install", "--python", python, "--compile-bytecode", spec, *install.also]
        run_installer(making, f"uv pip install {spec}", command, installer_environment())
        python_version, base, site = json.loads(ask("the new virtual environment", [python, "-I", "-c", ABOUT], {}))
        version, lines = what_is_there(Path(site), install.package)
        return Made(version=version, digest=digest_of([f"python {python_version}", *lines]), mounts=outside_of_system(Path(base)))

    return entry, cache.obtain(entry, f"{name} {install.version}", make, progress)


def pypi_shims(entry: Entry, install: PypiInstall) -> dict[str, str]:
    """The script of each command. Raises ProvisionError if the package made no such program."""
    shims = {}
    for command, program in install.commands.items():
        path = entry.tree / "venv" / "bin" / program
        if not path.is_file():
            raise ProvisionError(f"install.commands.{command}: the package made no program {program}; correct the seam's row")
        shims[command] = f'#!/bin/sh\nexec {shlex.quote(str(path))} "$@"\n'
    return shims


def newest_pypi(install: PypiInstall) -> str:
    """The exact version that uv takes when it is free to choose. Raises ProvisionError if it finds none."""
    command = [uv_program(), "pip", "compile", "--quiet", "--no-deps", "--no-header", "--no-annotate", *_choice(install), "-"]
    answer = ask(f"uv pip compile {install.package}", command, installer_environment(), install.package + "\n")
    return answer.rpartition("==")[2].split()[0]


def _choice(install: PypiInstall) -> tuple[str, ...]:
    return ("--python", install.python, "--python-preference", "system")


def installer_environment() -> dict[str, str]:
    """What an installer's environment gets: the Python that runs us is the first that uv tries, since it is there already.

    The last are those that a version manager keeps beside it, whose own launchers run none that is not switched on.
    """
    base = Path(sys.base_prefix)
    beside = sorted(folder for folder in base.parent.glob("*/bin") if (folder / "python3").exists() and folder != base / "bin")
    return {"PATH": os.pathsep.join([f"{base}/bin", os.environ.get("PATH", ""), *map(str, beside)])}


def outside_of_system(base: Path) -> tuple[str, ...]:
    """The base interpreter's folders that a sandbox lacks: every sandbox has a /usr."""
    return tuple(sorted(str(path) for path in {base, base.resolve()} if not path.is_relative_to("/usr")))


def what_is_there(site: Path, package: str) -> tuple[str, list[str]]:
    """The version of the package, and lines naming every distribution that was resolved and each file of the package itself."""
    resolved = []
    own: list[str] = []
    version = ""
    wanted = _canonical(package.partition("[")[0])
    for each in importlib.metadata.distributions(path=[str(site)]):
        name = _canonical(each.metadata["Name"])
        resolved.append(f"{name} {each.version}")
        if name == wanted:
            version = each.version
            # Without a recorded hash, or outside site-packages: made by the installer here, with paths of this machine in it.
            files = [file for file in each.files or () if file.hash and not str(file).startswith("..")]
            own = [f"{file} {hashlib.sha256(file.read_binary()).hexdigest()}" for file in files]
    return version, [*sorted(resolved), *sorted(own)]


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
