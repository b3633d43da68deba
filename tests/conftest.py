"""What all tests share."""

from __future__ import annotations

import importlib.util
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
