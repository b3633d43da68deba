"""What makes a session that one and no other: its id, its key, and how long it lasts."""

from __future__ import annotations

import hashlib
import re
import secrets
import string
from dataclasses import dataclass

KEY_PREFIX = "sk-hc-"

_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class SessionError(Exception):
    """A session that cannot be opened as asked; the message says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """When a session ends by itself, in seconds: after its opening, and after its last call. None is never."""

    absolute: float | None = None
    idle: float | None = None

    def __post_init__(self) -> None:
        """Raises SessionError for a time that is not positive."""
        for name, seconds in (("absolute", self.absolute), ("idle", self.idle)):
            if seconds is not None and not seconds > 0:
                raise SessionError(f"the {name} expiry is {seconds} seconds; give more than 0, or leave it out for never")


def new_key() -> str:
    """A key that nobody can guess: the prefix and 48 random capitals, because a run of these is what is looked for the fastest."""
    return KEY_PREFIX + "".join([secrets.choice(string.ascii_uppercase) for _ in range(48)])


def new_session_id() -> str:
    """An id for a session that was given none."""
    return f"session-{secrets.token_hex(8)}"


def checked_session_id(text: str) -> str:
    """The id itself. Raises SessionError for one that cannot be a folder's name everywhere."""
    if not _SESSION_ID.fullmatch(text):
        raise SessionError("a session id has 1 to 128 letters, digits, dots, hyphens and underscores, and begins with a letter or digit")
    return text


def key_digest(key: bytes) -> bytes:
    """What is kept of a key to look it up by."""
    return hashlib.sha256(key).digest()
