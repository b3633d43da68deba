"""Looks through everything for secrets before the first byte leaves: what is a key by its shape, and what this process has as one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from pytest_harness.pushing import PushError
from pytest_harness.pushing.records import Item
from pytest_harness.reports.cleaning import secret_values
from pytest_harness.reports.secrets import secret_in

PACKED = (b"\x1f\x8b", b"PK\x03\x04", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ", b"7z\xbc\xaf")
"""How files begin whose content cannot be seen as it stands: gzip, zip, zstandard, bzip2, xz, 7z."""
NAMED = 3
"""So many places are named in a sentence; of the others their number."""


def check(items: Iterable[Item], *, packed: bool = False) -> None:
    """Look through all files. ``packed``: those that are compressed may be sent unseen. Raises PushError."""
    values = secret_values()
    found: list[str] = []
    unseen: list[str] = []
    for item in items:
        content = item.path.read_bytes()
        if content.startswith(PACKED):
            unseen.append(str(item.path))
        text = f"{item.name}\n{content.decode('utf-8', 'replace')}"
        if (what := secret_in(text) or value_in(text, values)) is not None:
            found.append(f"{what} in {item.path}")
    if found:
        raise PushError(
            f"{_listed(found)}: nothing was sent; revoke it and run that again without, or unset the variable if it is no secret"
        )
    if unseen and not packed:
        raise PushError(
            f"{_listed(unseen)}: compressed, so no secret in it can be seen; nothing was sent; look yourself, then add --packed"
        )


def value_in(text: str, values: Mapping[str, str]) -> str | None:
    """Which of these values (value -> what it is) the text holds; None if none."""
    return next((what for value, what in values.items() if any(form in text for form in _forms(value))), None)


def _forms(value: str) -> Iterator[str]:
    """The value as it is, and as JSON writes it."""
    yield value
    yield json.dumps(value)[1:-1]


def _listed(places: list[str]) -> str:
    more = len(places) - NAMED
    return ", ".join(places[:NAMED]) + (f" and {more} more" if more > 0 else "")
