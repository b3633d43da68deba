"""What the Responses dialect writes into fields that a harness sends back unread: item ids and ``encrypted_content``.

The Responses API cuts one engine turn into items. So that items sent back become the very turn they came from, an item's id names its turn.
The id of a custom call also carries the model's arguments where they cannot be made again from the item, and ``encrypted_content`` carries
the reasoning (encoded, not encrypted: it is the harness's own conversation). A harness that drops these fields loses only that exactness.
"""

from __future__ import annotations

import base64
import binascii
import re

_ID = re.compile(r"[a-z]+_([0-9a-f]{32})n[0-9]+(?:x([A-Za-z0-9_-]*))?")
_SEAL = "hc1."


def item_id(prefix: str, turn: str, number: int, carried: str | None = None) -> str:
    """The id of the item ``number`` of a turn. ``turn`` is 32 hexadecimal digits; ``carried`` is a text to find again in the id."""
    return f"{prefix}_{turn}n{number}" + ("" if carried is None else f"x{_encode(carried)}")


def turn_of(identity: object) -> str | None:
    """The turn that an item's id names; None if the id is missing or not one of ours."""
    match = _ID.fullmatch(identity) if isinstance(identity, str) else None
    return match and match[1]


def carried_by(identity: object) -> str | None:
    """The text that an item's id carries, None if none."""
    match = _ID.fullmatch(identity) if isinstance(identity, str) else None
    return None if match is None or match[2] is None else _decode(match[2])


def seal(text: str) -> str:
    """A text as ``encrypted_content``."""
    return _SEAL + _encode(text)


def unseal(content: str) -> str | None:
    """The text of an ``encrypted_content``, None if it was not made by ``seal``."""
    return _decode(content.removeprefix(_SEAL)) if content.startswith(_SEAL) else None


def _encode(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode("utf-8", "surrogatepass")).decode().rstrip("=")


def _decode(text: str) -> str | None:
    try:
        padded = text.encode("ascii") + b"=" * (-len(text) % 4)
        return base64.b64decode(padded, altchars=b"-_", validate=True).decode("utf-8", "surrogatepass")
    except (binascii.Error, UnicodeError):
        return None
