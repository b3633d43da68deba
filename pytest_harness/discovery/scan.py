"""Reads the files of an installed harness for names: variables in capitals, and words that betray the kind of its config file."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pytest_harness.discovery.styles import style_words
from pytest_harness.sandboxes.layout import Mount

FILE_LIMIT = 512 << 20
TOTAL_LIMIT = 1 << 30
"""Bytes: what is larger is not read; native programs of harnesses have 100 to 350 MB."""

_CHUNK = 8 << 20
_OVERLAP = 256
_NAME = re.compile(rb"(?<![A-Za-z0-9_])[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?![A-Za-z0-9_])")
_NO_PROGRAMS = frozenset(
    {".png", ".jpg", ".gif", ".woff", ".woff2", ".ttf", ".map", ".md", ".pyc", ".wasm", ".mp3", ".wav", ".gz", ".zip", ".h"}
)


@dataclass(frozen=True)
class Words:
    """What was found."""

    names: frozenset[str]
    """Names in capitals with an underscore."""
    styles: frozenset[str]
    """Those of the styles' words that stand somewhere."""


def scan(folders: Iterable[Path]) -> Words:
    """All names in the files below these folders, the folders of other packages in them left out."""
    names: set[bytes] = set()
    wanted = {word.encode(): word for word in style_words()}
    styles: set[str] = set()
    left = TOTAL_LIMIT
    for path in _files(folders):
        size = path.stat().st_size
        if size > min(FILE_LIMIT, left):
            continue
        left -= size
        for text in _pieces(path):
            names.update(_NAME.findall(text))
            styles |= {word for coded, word in wanted.items() if word not in styles and coded in text}
    return Words(frozenset(name.decode() for name in names), frozenset(styles))


def npm_folders(tree: Path, package: str) -> tuple[Path, ...]:
    """The folder of the package, and those of its packages for a platform, whose names begin with its own."""
    modules = tree / "node_modules"
    own = modules / package
    return (own, *sorted(own.parent.glob(f"{own.name}-*")))


def pypi_folders(site: Path, package: str) -> tuple[Path, ...]:
    """The top folders that the distribution's own files lie in, and those of distributions that are named alike."""
    stem = _plain(package.partition("[")[0]).removesuffix("-mcp").removesuffix("-cli")
    tops = {
        site / file.parts[0]
        for each in importlib.metadata.distributions(path=[str(site)])
        if _plain(each.metadata["Name"]).startswith(stem)
        for file in each.files or ()
        if not file.parts[0].startswith("..") and not file.parts[0].endswith(".dist-info")
    }
    return tuple(sorted(tops))


def mounted_folders(mounts: Iterable[Mount]) -> tuple[Path, ...]:
    """The folders of a harness that was there before."""
    return tuple(mount.source for mount in mounts)


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _files(folders: Iterable[Path]) -> Iterator[Path]:
    for folder in folders:
        if folder.is_file():
            yield folder
        for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
            inside = path.relative_to(folder).parts
            if "node_modules" not in inside and ".git" not in inside and path.suffix not in _NO_PROGRAMS and path.is_file():
                yield path


def _pieces(path: Path) -> Iterator[bytes]:
    """The file piece by piece, each with the end of the one before, so that no word is cut."""
    end = b""
    with path.open("rb") as file:
        while piece := file.read(_CHUNK):
            yield end + piece
            end = piece[-_OVERLAP:]
