"""A folder as bytes, for a machine that cannot see it: its files, their permissions, and its links as they are."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path


def packed(folder: Path) -> bytes:
    """All that is in the folder."""
    parcel = io.BytesIO()
    with tarfile.open(fileobj=parcel, mode="w:gz", compresslevel=1) as archive:
        archive.add(folder, arcname=".")
    return parcel.getvalue()


def unpack(parcel: bytes, into: Path) -> None:
    """The same in another folder, which need not be there yet."""
    with tarfile.open(fileobj=io.BytesIO(parcel), mode="r:gz") as archive:
        archive.extractall(into, filter="tar")  # links may lead anywhere, as they do in the folder that was packed
