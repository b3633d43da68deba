"""Keeps secrets out of what is written down, and the engine's key out of what the harness gets.

Header values are replaced by name, and known secrets wherever they stand in a text, also where JSON or a URL escaped them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

REDACTED = "<redacted>"

SECRET_HEADERS = frozenset(
    {"authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie", "set-cookie"},
)

_UNESCAPED = re.compile(r"[A-Za-z0-9_.-]+")

_SHORTEST = 8
"""Shorter keys are placeholders such as ``EMPTY``: replacing them everywhere would tear ordinary text apart."""


class Redactor:
    """Replaces the given secrets in texts. It never shows them: not in its repr, and not in what it returns."""

    def __init__(self, secrets: Iterable[str | None]) -> None:
        self._plain = sorted({secret for secret in secrets if secret and len(secret) >= _SHORTEST}, key=len, reverse=True)
        self._spelled = [(_needs(secret), re.compile("".join(map(_any_spelling, secret)))) for secret in self._plain]

    def text(self, text: str) -> str:
        """The text without any of the secrets."""
        for secret in self._plain:
            text = text.replace(secret, REDACTED)
        for needs, spelled in self._spelled:
            if any(sign in text for sign in needs):
                text = spelled.sub(REDACTED, text)
        return text

    def data(self, data: bytes) -> bytes:
        """The bytes without any of the secrets; bytes without one are returned as they are, valid UTF-8 or not."""
        text = data.decode("utf-8", "surrogateescape")
        clean = self.text(text)
        return data if clean is text or clean == text else clean.encode("utf-8", "surrogateescape")

    def body(self, data: bytes) -> str:
        """A message body as it is recorded: without secrets; bytes that are not UTF-8 appear as ``\\xNN``."""
        return self.text(data.decode("utf-8", "backslashreplace"))

    def headers(self, headers: Iterable[tuple[str, str]]) -> dict[str, str]:
        """Headers as they are recorded: lower-case names, repeated ones joined by ``, ``, secret ones replaced."""
        recorded: dict[str, str] = {}
        for spelling, value in headers:
            name = spelling.lower()
            if name in SECRET_HEADERS:
                recorded[name] = REDACTED
                continue
            text = self.body(value.encode("utf-8", "surrogateescape"))
            recorded[name] = f"{recorded[name]}, {text}" if name in recorded else text
        return recorded


def _needs(secret: str) -> tuple[str, ...]:
    """What a text must contain for the secret to stand in it in another spelling: the slow search is rarely needed.

    Nobody has to escape letters and digits, so only the form in which they can be escaped at all counts for a secret of these.
    """
    return ("\\u00",) if _UNESCAPED.fullmatch(secret) else ("\\", "%")


def _any_spelling(character: str) -> str:
    """A pattern for one character of a secret as it stands in JSON (also in JSON inside JSON) or in a URL."""
    units = character.encode("utf-16-be").hex()
    escapes = "".join(rf"\\+u(?i:{units[at : at + 4]})" for at in range(0, len(units), 4))
    spellings = [re.escape(character), escapes]
    spellings += ["".join(f"%(?i:{byte:02x})" for byte in character.encode("utf-8"))]
    if not character.isalnum():
        spellings += [rf"\\+{re.escape(character)}"]
    return f"(?:{'|'.join(spellings)})"
