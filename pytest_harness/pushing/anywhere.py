"""Any file system that fsspec knows: a folder, s3://, gs://, az://, sftp://, memory://. Credentials are its own library's affair.

File systems tell no common digest of what they hold. So a push leaves ``harness-push.json`` there: the digest of each file that has
arrived, and the names of those that were on their way, which may be there in part if the push was killed. A file that it does not
know, and that has the right size, is read back.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import msgspec

from pytest_harness.filesystems import FileSystemError, Folder, UnknownProtocolError
from pytest_harness.pushing import PushError, State
from pytest_harness.pushing.records import Item
from pytest_harness.pushing.stores import Told

INDEX = "harness-push.json"
AT_ONCE = 8
"""Files on their way at the same time, where the file system can do that."""
BLOCK = 1 << 20


class Index(msgspec.Struct):
    """What a push knows of the target."""

    arrived: dict[str, str] = {}
    """Name -> SHA-256."""
    sending: list[str] = []


class FileSystem(Folder):
    """A folder of a file system to which things are pushed."""

    def __init__(self, url: str) -> None:
        with _refused():
            super().__init__(url)
        self.remarks: Sequence[str] = ()
        self.index = self._read_index()

    def states(self, items: Sequence[Item]) -> Mapping[str, State]:
        """By size, then by the digest that an earlier push left, else by reading what is there."""
        with self._said():
            sizes = {name: size for folder in {item.record for item in items} for name, size in self._sizes(folder)}
            return {item.name: self._state(item, sizes.get(item.name)) for item in items}

    def send(self, items: Sequence[Item], told: Told) -> None:
        """Send the files; what has arrived is remembered, however this ends."""
        with self._said():
            self.index.sending = sorted({item.name for item in items} | set(self.index.sending))
            self._write_index()
            pool = ThreadPoolExecutor(AT_ONCE if self.fs.async_impl else 1)
            under_way = [pool.submit(self._put, item) for item in items]
            try:
                for done in as_completed(under_way):
                    done.result()
                    told(1)
            finally:
                pool.shutdown(cancel_futures=True)
                arrived = [each.result() for each in under_way if not each.cancelled() and each.exception() is None]
                self.index.arrived |= {item.name: item.sha256 for item in arrived}
                self.index.sending = sorted(set(self.index.sending) - {item.name for item in arrived})
                self._write_index()

    def _put(self, item: Item) -> Item:
        self.put(item.path, item.name)
        return item

    def _state(self, item: Item, size: int | None) -> State:
        if size is None:
            return "new"
        known = self.index.arrived.get(item.name)
        if size == item.size and (known or self._digest(item.name)) == item.sha256:
            return "same"
        return "new" if item.name in self.index.sending else "other"

    def _digest(self, name: str) -> str:
        digest = hashlib.sha256()
        with self.fs.open(self.at(name), "rb") as content:
            while block := content.read(BLOCK):
                digest.update(block)
        return digest.hexdigest()

    def _sizes(self, folder: str) -> Iterator[tuple[str, int]]:
        try:
            found = self.fs.find(self.at(folder), detail=True)
        except FileNotFoundError:
            return
        for path, facts in found.items():
            yield str(path).removeprefix(f"{self.root}/"), facts["size"]

    def _read_index(self) -> Index:
        """What an earlier push left; without it, or where it cannot be read, nothing is known, and files are read back."""
        with self._said():
            try:
                return msgspec.json.decode(self.fs.cat_file(self.at(INDEX)), type=Index)
            except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError, UnicodeDecodeError):
                return Index()

    def _write_index(self) -> None:
        self.write(INDEX, msgspec.json.format(msgspec.json.encode(self.index), indent=1))

    @contextlib.contextmanager
    def _said(self) -> Iterator[None]:
        with _refused(), self.said():
            yield


@contextlib.contextmanager
def _refused() -> Iterator[None]:
    try:
        yield
    except UnknownProtocolError as error:
        raise PushError(f"{error}; name a folder, s3://, gs://, sftp://, or hf://datasets/OWNER/NAME") from None
    except FileSystemError as error:
        raise PushError(f"{error}; mend that and push again, what has arrived is not sent twice") from None


def is_below(store: object, folder: Path) -> bool:
    """Whether what is sent of ``folder`` would come to lie in it, or be it: the target is a folder of this machine."""
    if not isinstance(store, FileSystem) or not store.local:
        return False
    source = folder.resolve()
    return (Path(store.root).resolve() / source.name).is_relative_to(source)
