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

_SHORTEST = 8
"""Shorter keys are placeholders such as ``EMPTY``: replacing them everywhere would tear ordinary text apart."""


class Redactor:
    """Replaces the given secrets in texts. It never shows them: not in its repr, and not in what it returns."""

    def __init__(self, secrets: Iterable[str | None]) -> None:
        self._plain = sorted({secret for secret in secrets if secret and len(secret) >= _SHORTEST}, key=len, reverse=True)
        self._escaped = re.compile("|".join("".join(map(_any_spelling, secret)) for secret in self._plain)) if self._plain else None

    def text(self, text: str) -> str:
        """The text without any of the secrets."""
        for secret in self._plain:
            text = text.replace(secret, REDACTED)
        if self._escaped is not None and ("\\" in text or "%" in text):
            text = self._escaped.sub(REDACTED, text)
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
            elif name in recorded:
                recorded[name] += f", {self.text(value)}"
            else:
                recorded[name] = self.text(value)
        return recorded


def _any_spelling(character: str) -> str:
    """A pattern for one character of a secret as it stands in JSON (also in JSON inside JSON) or in a URL."""
    code = ord(character)
    spellings = [re.escape(character), rf"\\+u(?i:{code:04x})"]
    spellings += ["".join(f"%(?i:{byte:02x})" for byte in character.encode("utf-8"))]
    if not character.isalnum():
        spellings += [rf"\\+{re.escape(character)}"]
    return f"(?:{'|'.join(spellings)})"
