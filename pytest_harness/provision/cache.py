"""The cache of installed things: an entry is whole or it is not there.

An install is made at its final place, since a virtual environment holds absolute paths, and under a lock. The manifest, written
last and put in place by a rename, is the mark of completeness: what has none is thrown away and made anew.

    harness/<name>/<version>-<platform>-<recipe>/    manifest.json  install.log  tree/
    node/<version>-<platform>-<recipe>/              likewise
    engine/<name>/<version>-<platform>-<recipe>/     likewise
    locks/                                           one file an entry, never removed
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import sysconfig
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import platformdirs
from pydantic import BaseModel, ConfigDict

from pytest_harness.textfile import TextFileError, read_text

VARIABLE = "HARNESS_CONFORMANCE_CACHE"

Progress = Callable[[str], None]


class ProvisionError(Exception):
    """A harness that cannot be installed; the message says which, why, and where the installer's output is."""


class Facts(BaseModel):
    """The manifest of an entry: what is really there."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: str
    digest: str
    """SHA-256 over everything that was resolved and over the package's own files."""
    mounts: tuple[str, ...]
    """Absolute paths outside the entry that it needs to run."""
    uses: tuple[str, ...] = ()
    """Names of the shared entries it needs, e.g. its Node."""
    seconds: float
    """How long the install took."""


@dataclass(frozen=True)
class Entry:
    """One place of the cache."""

    root: Path
    name: str
    """Path of the entry below the cache's folder."""

    @property
    def folder(self) -> Path:
        """The entry's folder."""
        return self.root / self.name

    @property
    def tree(self) -> Path:
        """What was installed: the only part that a sandbox sees."""
        return self.folder / "tree"

    @property
    def log(self) -> Path:
        """The installer's output."""
        return self.folder / "install.log"

    @property
    def manifest(self) -> Path:
        """The mark of completeness."""
        return self.folder / "manifest.json"

    @property
    def lock(self) -> Path:
        """The file whose lock is held while the entry changes."""
        return self.root / "locks" / self.name.replace("/", "-")

    @property
    def harness(self) -> str | None:
        """The harness or engine that the entry holds; None where it is something shared."""
        kind, name, *_ = self.name.split("/")
        return name if kind in ("harness", "engine") else None

    def facts(self) -> Facts | None:
        """The manifest, or None if the entry is not whole or something that it needs is gone."""
        facts = self.own_facts()
        # What is used uses nothing itself: manifests that name themselves, or each other, are no installer's.
        used = [Entry(self.root, name).own_facts() for name in facts.uses] if facts else []
        return facts if all(each is not None and not each.uses for each in used) else None

    def _interpreters(self) -> Iterator[Path]:
        """The Python of a virtual environment in it: a link, which leads nowhere once the Python that it was made from has gone."""
        return (place / "bin" / "python" for place in self.tree.iterdir() if (place / "pyvenv.cfg").exists())

    def own_facts(self) -> Facts | None:
        """The same, whatever is with the entries that it uses."""
        try:
            facts = Facts.model_validate_json(read_text(self.manifest))
            whole = any(self.tree.iterdir()) and all(path.exists() for path in (*map(Path, facts.mounts), *self._interpreters()))
        except (OSError, ValueError, TextFileError):
            return None
        return facts if whole else None


@dataclass(frozen=True)
class Making:
    """What an installer gets: where to install, where to write its output, and what keeps the lock held while a child lives."""

    entry: Entry
    lock: int

    @property
    def tree(self) -> Path:
        """The folder to install into; it exists and is empty."""
        return self.entry.tree

    @property
    def log(self) -> Path:
        """The file that takes the installer's output."""
        return self.entry.log


@dataclass(frozen=True)
class Made:
    """What an installer found to be there when it was done: ``Facts`` without the time it took."""

    version: str
    digest: str
    mounts: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()


class Cache:
    """The cache in ``root``, by default that of this user; the environment variable HARNESS_CONFORMANCE_CACHE names another."""

    def __init__(self, root: Path | None = None) -> None:
        chosen = root or os.environ.get(VARIABLE) or platformdirs.user_cache_path("harness-conformance")
        self.root = Path(chosen).absolute()

    def entry(self, place: str, version: str, recipe: object) -> Entry:
        """The place for what ``recipe``, anything that JSON can hold, installs.

        ``place`` is ``image``, ``node``, ``harness/<name>`` or ``engine/<name>``.
        """
        digest = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:8]
        return Entry(self.root, f"{place}/{version}-{sysconfig.get_platform()}-{digest}")

    def entries(self) -> Iterator[Entry]:
        """Every entry there is, whole or not, in the order of their names. Raises ProvisionError where one cannot look."""
        for kind, depth in (("harness", 2), ("image", 1), ("node", 1), ("engine", 2)):
            folders = [self.root / kind]
            for _ in range(depth):
                folders = [below for folder in folders for below in _below(folder)]
            for folder in folders:
                yield Entry(self.root, folder.relative_to(self.root).as_posix())

    def obtain(self, entry: Entry, title: str, make: Callable[[Making], Made], progress: Progress) -> Facts:
        """The facts of a whole entry, which ``make`` fills if it is not there; other processes wait for it meanwhile.

        Raises ProvisionError where the cache cannot be written, and whatever ``make`` raises.
        """
        facts = entry.facts()
        if facts is not None:
            return facts
        try:
            with _locked(entry, lambda: progress(f"waiting for another process that installs {title}")) as lock:
                facts = entry.facts()
                if facts is not None:
                    return facts
                return self._fill(entry, title, make, progress, lock)
        except OSError as error:
            raise ProvisionError(
                f"{title} cannot be installed into {self.root} ({error}); make it writable or set {VARIABLE} to a folder that is"
            ) from None

    def _fill(self, entry: Entry, title: str, make: Callable[[Making], Made], progress: Progress, lock: int) -> Facts:
        progress(f"installing {title}")
        started = time.monotonic()
        _remove(entry)
        entry.tree.mkdir(parents=True)
        try:
            made = make(Making(entry, lock))
        except BaseException:
            shutil.rmtree(entry.tree, ignore_errors=True)
            raise
        seconds = round(time.monotonic() - started, 1)
        facts = Facts(version=made.version, digest=made.digest, mounts=made.mounts, uses=made.uses, seconds=seconds)
        draft = entry.manifest.with_suffix(".draft")
        draft.write_text(facts.model_dump_json(indent=1) + "\n", encoding="utf-8")
        draft.rename(entry.manifest)
        progress(f"installed {title} in {seconds:.0f} s")
        return facts

    def discard(self, entry: Entry) -> None:
        """Remove an entry; what is being installed there is waited for. Raises ProvisionError."""
        try:
            with _locked(entry, lambda: None):
                _remove(entry)
        except OSError as error:
            raise ProvisionError(f"{entry.folder} cannot be removed ({error.strerror}); make the cache {self.root} writable") from None


def _below(folder: Path) -> list[Path]:
    """What lies in a folder; nothing in what is none. Raises ProvisionError."""
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise ProvisionError(f"{folder} cannot be read ({error.strerror}); make it readable, or name another cache in {VARIABLE}") from None


@contextmanager
def _locked(entry: Entry, waiting: Callable[[], None]) -> Iterator[int]:
    """Hold the entry's lock and give its descriptor.

    A child that inherits the descriptor holds the lock too (flock belongs to the open file, not to a process), so an installer that
    outlives a killed parent is waited for and never writes into what the next one makes. The filelock package can't hand that down.
    """
    entry.lock.parent.mkdir(parents=True, exist_ok=True)
    if entry.lock.exists() and not entry.lock.is_file():  # a FIFO would make the opener wait for ever
        raise ProvisionError(f"the lock {entry.lock} is no plain file; remove it")
    with entry.lock.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


def _remove(entry: Entry) -> None:
    if not entry.folder.is_dir() or entry.folder.is_symlink():
        entry.folder.unlink(missing_ok=True)
        return
    entry.manifest.unlink(missing_ok=True)  # first: what is half removed must not look whole
    if entry.folder.exists():
        shutil.rmtree(entry.folder)
