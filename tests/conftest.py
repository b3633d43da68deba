"""What all tests share."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent

pytest_plugins = ["pytester"]

settings.register_profile("untimed", deadline=None)  # how long an example takes says something of the machine alone
settings.load_profile("untimed")

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def run_pytest() -> Run:
    """Runs pytest in a process of its own, as a user would, in the folder given; none of our own configuration is seen there.

    The plugin of hypothesis stays out: with it each process imports all of hypothesis when it ends, a third of what a short run takes.
    """

    def run(folder: Path, *arguments: object, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_", "GITHUB_"))}
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", *map(str, arguments)]
        return subprocess.run(command, cwd=folder, env=clean | (env or {}), capture_output=True, text=True, check=False)

    return run


@pytest.fixture(scope="session")
def healthy() -> ModuleType:
    """Evidence in which nothing is wrong, made by ``tests/contract/healthy.py``."""
    spec = importlib.util.spec_from_file_location("healthy", Path(__file__).parent / "contract" / "healthy.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOY_ROW = """
name = "{name}"
title = "A harness that {does}"
homepage = "https://example.org"
dialect = "chat"
streams = false
scenarios = ["edit_file"]
[install]
kind = "preinstalled"
path = "{folder}"
version = "1"
commands = {{ {name} = "{name}" }}
[agent]
command = "{name} {{instruction}}"
timeout_sec = {seconds}
[agent.env]
{env}
[limits]
{limits}
[shell]
tool = "run"
argument = "line"
"""


@pytest.fixture(scope="session")
def write_toy() -> Callable[..., None]:
    """``write_toy(folder, name, program)`` writes a harness, ``folder/bin/<name>``, and its row, ``folder/seams/<name>.toml``."""

    def write(
        folder: Path,
        name: str,
        program: str,
        *,
        does: str = "is no harness",
        seconds: int = 60,
        env: dict[str, str] | None = None,
        limits: dict[str, int] | None = None,
    ) -> None:
        binary, row = folder / "bin" / name, folder / "seams" / f"{name}.toml"
        for path in (binary, row):
            path.parent.mkdir(parents=True, exist_ok=True)
        binary.write_text(program)
        binary.chmod(0o755)
        lines = ["\n".join(f"{key} = {json.dumps(value)}" for key, value in (table or {}).items()) for table in (env, limits)]
        row.write_text(TOY_ROW.format(name=name, does=does, folder=binary.parent, seconds=seconds, env=lines[0], limits=lines[1]))

    return write
