"""What all tests share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def run_pytest() -> Run:
    """Runs pytest in a process of its own, as a user would, in the folder given; none of our own configuration is seen there."""

    def run(folder: Path, *arguments: object, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *map(str, arguments)]
        return subprocess.run(command, cwd=folder, env=clean | (env or {}), capture_output=True, text=True, check=False)

    return run
