"""Clean environments with the built package in them, for the modules of ``make examples``. Nothing here knows the checkout at run time."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[2]
UV = Path(sys.executable).with_name("uv")
Run = Callable[..., subprocess.CompletedProcess[str]]


def clean_environ(**more: str) -> dict[str, str]:
    """What a user's shell would have: nothing of the pytest that runs this, nor of its environment."""
    foreign = ("PYTEST_", "PYTHONPATH", "VIRTUAL_ENV", "GITHUB_", "UV_")
    return {name: value for name, value in os.environ.items() if not name.startswith(foreign)} | more


@pytest.fixture(scope="session")
def dist(tmp_path_factory) -> SimpleNamespace:
    """The sdist, the wheel that is made of it, and the wheel that is made of the checkout."""
    folder = tmp_path_factory.mktemp("dist")
    build = [UV, "build", "--quiet", "--no-build-isolation", "--python", sys.executable]
    subprocess.run([*build, "--out-dir", folder, ROOT], check=True)
    subprocess.run([*build, "--wheel", "--out-dir", folder / "direct", ROOT], check=True)
    [sdist], [wheel], [direct] = (list(folder.glob(glob)) for glob in ("*.tar.gz", "*.whl", "direct/*.whl"))
    return SimpleNamespace(sdist=sdist, wheel=wheel, direct=direct)


@pytest.fixture(scope="session")
def constraints(tmp_path_factory) -> Path:
    """The versions of the lock, so that a run says something of this commit and not of the day."""
    path = tmp_path_factory.mktemp("constraints") / "constraints.txt"
    pinned = re.findall(r"^[A-Za-z0-9_.\[\]-]+==[^\\\n]+", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    path.write_text("\n".join(pinned) + "\n")
    return path


@pytest.fixture(scope="session")
def environment(tmp_path_factory, constraints) -> Callable[..., Run]:
    """Makes an environment with these packages; ``free`` are those that the lock does not hold. What it gives runs programs there."""

    def make(*packages: object, free: tuple[str, ...] = ()) -> Run:
        folder = tmp_path_factory.mktemp("environment") / "venv"
        subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, folder], check=True)
        held = [line for line in constraints.read_text().splitlines() if not line.startswith(tuple(f"{name}==" for name in free))]
        own = folder.with_name("constraints.txt")
        own.write_text("\n".join(held) + "\n")
        install = [UV, "pip", "install", "--quiet", "--python", folder / "bin" / "python", "--constraint", own]
        subprocess.run([*install, *map(str, packages)], check=True, env=clean_environ())

        def run(program: str, *arguments: object, cwd: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
            path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
            command = [str(folder / "bin" / program), *map(str, arguments)]
            return subprocess.run(command, cwd=cwd, env=clean_environ(PATH=path, **env or {}), capture_output=True, text=True, check=False)

        return run

    return make
