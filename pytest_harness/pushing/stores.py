"""Where things are sent to: any file system that fsspec knows, or a dataset of the Hub. Their libraries are imported only for a push."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from pytest_harness.pushing import PushError, State
from pytest_harness.pushing.records import Item
from pytest_harness.reports.secrets import masked

HUB = "hf://"
EXTRA = "install harness-conformance[push]"

Told = Callable[[int], None]
"""Is told how many files have arrived since it was told last."""


class Store(Protocol):
    """A target. Whatever goes wrong with it is a PushError."""

    where: str
    """The target as it may be shown."""
    remarks: Sequence[str]
    """What whoever pushes should know of it."""

    def states(self, items: Sequence[Item]) -> Mapping[str, State]:
        """How each file stands there, by its name."""

    def send(self, items: Sequence[Item], told: Told) -> None:
        """Send the files, over what is there."""


def open_store(url: str) -> Store:
    """The target that the URL names. Raises PushError."""
    try:
        if url.startswith(HUB):
            from pytest_harness.pushing.hub import Dataset  # noqa: PLC0415 (an extra)

            return Dataset(url)
        from pytest_harness.pushing.anywhere import FileSystem  # noqa: PLC0415 (an extra)

        return FileSystem(url)
    except ImportError as error:
        raise PushError(f"{masked(url)} cannot be reached without a package that is not here ({error}); {EXTRA}, or that package") from None
