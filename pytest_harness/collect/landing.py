"""Where the nodes of a cluster bring the evidence: a folder of a file system that all of them and the command reach.

The manifest of a record goes away first and arrives last. What has none is no evidence, so a record that was only half brought, or half
written over, is never taken for one.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path

from pytest_harness.collect.collector import CollectError
from pytest_harness.collect.ledger import Line
from pytest_harness.evidence import Evidence, EvidenceError, read_evidence
from pytest_harness.evidence.store import MANIFEST
from pytest_harness.filesystems import FileSystemError, Folder
from pytest_harness.owners import temporary_folder


class Landing:
    """The folder that a URL names. Raises FileSystemError; a package that is missing is an ImportError."""

    def __init__(self, url: str) -> None:
        self._folder = Folder(url)

    @property
    def url(self) -> str:
        """Where it is, from anywhere."""
        return self._folder.url

    def check(self) -> None:
        """Write there and read it back: better before a rollout than after it."""
        folder, name, content = self._folder, f".reached-{uuid.uuid4().hex}", b"harness-conformance"
        with folder.said():
            folder.write(name, content)
            same = folder.fs.cat_file(folder.at(name)) == content
            folder.fs.rm_file(folder.at(name))
        if not same:
            raise FileSystemError(f"{folder.where}: what is written there cannot be read back")

    def bring(self, record: Path, episode: str) -> None:
        """Put a record there as that of the episode, in place of what there is of it. Links are no part of its seal, and stay here."""
        files = [path for path in sorted(record.rglob("*")) if path.is_file() and not path.is_symlink()]
        folder = self._folder
        with folder.said():
            for old in self._there(episode):
                folder.fs.rm_file(old)
            for path in sorted(files, key=lambda path: path == record / MANIFEST):
                folder.put(path, f"{episode}/{path.relative_to(record).as_posix()}")

    def mark(self, episode: str) -> str | None:
        """Which run of the episode the record is of, that is there; None if there is none."""
        folder = self._folder
        with folder.said():
            try:
                content = folder.fs.cat_file(folder.at(f"{episode}/{MANIFEST}"))
            except (FileNotFoundError, NotADirectoryError):
                return None
        try:
            mark = json.loads(content)["attempt_id"]
        except (ValueError, RecursionError, KeyError, TypeError):
            mark = None
        if not isinstance(mark, str):
            raise FileSystemError(f"{folder.where}: {episode}/{MANIFEST} is damaged; restore it, or remove it to run its episode again")
        return mark

    def on_disk(self, line: Line) -> bool:
        """Whether the record that the line tells of is there, and of that very run. Raises CollectError if nobody can say."""
        try:
            return self.mark(line.episode) == line.mark
        except FileSystemError as error:
            raise CollectError(f"--evidence-to {error}") from None

    def read(self, episode: str) -> Evidence:
        """The evidence of an episode. Raises EvidenceError too."""
        folder = self._folder
        with temporary_folder("fetched") as place:
            here = place / "record"
            with folder.said():
                for path in self._there(episode):
                    target = here / str(path).removeprefix(folder.at(f"{episode}/"))
                    target.parent.mkdir(parents=True, exist_ok=True)
                    folder.fs.get_file(path, str(target))
            try:
                return read_evidence(here)
            except EvidenceError as error:
                raise EvidenceError(str(error).replace(str(here), f"{folder.where}/{episode}")) from None

    def _there(self, episode: str) -> list[str]:
        """The files of its record, the manifest first."""
        folder = self._folder
        folder.fs.invalidate_cache()  # others write there too
        try:
            found = [str(path) for path in folder.fs.find(folder.at(episode))]
        except FileNotFoundError:
            return []
        return sorted(found, key=lambda path: path != folder.at(f"{episode}/{MANIFEST}"))


def landing_at(url: str) -> Landing:
    """Where evidence is to be brought, looked at first. Raises CollectError; a package that is missing is an ImportError."""
    try:
        landing = Landing(url)
        landing.check()
    except FileSystemError as error:
        raise CollectError(f"--evidence-to {error}; name a folder that you may write, s3://, gs:// or sftp://") from None
    return landing
