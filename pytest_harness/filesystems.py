"""A folder of any file system that fsspec knows: one of this machine, s3://, gs://, sftp://. Credentials are its own library's affair.

fsspec is an extra: whoever imports this says what to install without it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import fsspec

from pytest_harness.reports.secrets import masked


class FileSystemError(Exception):
    """What a file system complained of, in one line that names the folder and shows no secret."""


class UnknownProtocolError(FileSystemError):
    """A URL of which fsspec knows no file system."""


class Folder:
    """A folder, which need not be there yet. ``fs`` and ``root`` are fsspec's own names of where it is."""

    def __init__(self, url: str) -> None:
        self.where = masked(url)
        protocol = url.partition("://")[0].split("::")[0] if "://" in url else "file"
        if protocol not in fsspec.available_protocols():
            raise UnknownProtocolError(f"{self.where}: fsspec knows no {protocol}://")
        with self.said():
            self.fs, root = fsspec.core.url_to_fs(url)
            self.root = str(root).rstrip("/")
        protocols = (self.fs.protocol,) if isinstance(self.fs.protocol, str) else tuple(self.fs.protocol)
        self.local = "file" in protocols
        self.url = f"file://{self.root}" if self.local else url
        """The same from another working folder."""

    def at(self, name: str) -> str:
        """The path of what has this name in it."""
        return f"{self.root}/{name}"

    def put(self, path: Path, name: str) -> None:
        """Send a file."""
        self._make_room(name)
        self.fs.put_file(str(path), self.at(name))

    def write(self, name: str, content: bytes) -> None:
        """Write a file."""
        self._make_room(name)
        self.fs.pipe_file(self.at(name), content)

    def _make_room(self, name: str) -> None:
        if self.local:  # others make folders by themselves, or have none
            self.fs.makedirs(self.at(name).rpartition("/")[0], exist_ok=True)

    @contextlib.contextmanager
    def said(self) -> Iterator[None]:
        """Whatever the file system raises in here is a FileSystemError; a package that is missing stays an ImportError."""
        try:
            yield
        except (ImportError, FileSystemError):
            raise
        except Exception as error:  # noqa: BLE001 (each file system raises errors of its own)
            said = masked(" ".join(str(error).split())) or type(error).__name__
            raise FileSystemError(f"{self.where}: {said} ({type(error).__name__})") from None
