"""Appends to many files with few open at once: the least recently used is closed, so that sessions at rest hold no descriptor."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

OPEN_FILES = 256


class AppendFiles:
    """The files of one process. Safe from any thread; a descriptor is never closed while it is used."""

    def __init__(self, limit: int = OPEN_FILES) -> None:
        self._limit = limit
        self._open: OrderedDict[Path, int] = OrderedDict()
        self._lock = threading.Lock()

    @contextmanager
    def descriptor(self, path: Path) -> Iterator[int]:
        """A descriptor of an existing file, for appending. Raises OSError."""
        with self._lock:
            yield self._descriptor(path)

    def append(self, path: Path, data: bytes) -> None:
        """Append to an existing file. Raises OSError; then part of the data may stand in it."""
        with self._lock:
            descriptor = self._descriptor(path)
            while data:
                data = data[os.write(descriptor, data) :]

    def release(self, path: Path) -> None:
        """Close the file if it is open."""
        with self._lock:
            descriptor = self._open.pop(path, None)
            if descriptor is not None:
                os.close(descriptor)

    def _descriptor(self, path: Path) -> int:
        descriptor = self._open.get(path)
        if descriptor is not None:
            self._open.move_to_end(path)
            return descriptor
        while len(self._open) >= self._limit:
            os.close(self._open.popitem(last=False)[1])
        descriptor = self._open[path] = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        return descriptor


FILES = AppendFiles()
"""The files of this process."""
