"""Keeps secrets out of what is written down, and the engine's key out of what the harness gets.

Header values are replaced by name, and known secrets wherever they stand in a text, also where JSON or a URL escaped them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from pytest_harness.evidence.secrets import REDACTED, SECRET_HEADERS

_KEY_IN_QUERY = re.compile(r"([?&]key=)[^&]*")

_UNESCAPED = re.compile(r"[A-Za-z0-9_.-]+")
_PLAIN_RUN = re.compile(rb"[A-Za-z0-9]+")
_CAPITALS = re.compile(rb"[A-Z]{12,24}")
"""CPython's search skips what it looks for has no character of: texts have few capitals, and JSON has no other use for them."""
_ESCAPED_ASCII = re.compile(rb"\\u00[2-7]")

_SHORTEST = 8
"""Shorter keys are placeholders such as ``EMPTY``: replacing them everywhere would tear ordinary text apart."""

_SHORTEST_RUN = 5
_LONGEST_SIGN = 12
"""A longer one of all kinds of characters has so many of them that none tells the search anything."""
_REMEMBERED = 128
_REMEMBERED_SETS = 8


class Redactor:
    """Replaces the given secrets in texts. It never shows them: not in its repr, and not in what it returns."""

    def __init__(self, secrets: Iterable[str | None]) -> None:
        self._plain = sorted({secret for secret in secrets if secret and len(secret) >= _SHORTEST}, key=len, reverse=True)
        self._spelled: list[re.Pattern[str]] | None = None
        self._needs = [_needs(secret) for secret in self._plain]
        self._signs = [_sign(secret) for secret in self._plain]
        self._texts: dict[str, str] = {}
        self._header_sets: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}

    def text(self, text: str) -> str:
        """The text without any of the secrets."""
        for secret in self._plain:
            text = text.replace(secret, REDACTED)
        for place, needs in enumerate(self._needs):
            if any(sign in text for sign in needs):
                text = self._spellings()[place].sub(REDACTED, text)
        return text

    def data(self, data: bytes) -> bytes:
        """The bytes without any of the secrets; bytes without one are returned as they are, valid UTF-8 or not."""
        if not self._may_be_in(data):
            return data
        text = data.decode("utf-8", "surrogateescape")
        clean = self.text(text)
        return data if clean == text else clean.encode("utf-8", "surrogateescape")

    def body(self, data: bytes) -> str:
        """A message body as it is recorded: without secrets; bytes that are not UTF-8 appear as ``\\xNN``."""
        return self.text(data.decode("utf-8", "backslashreplace"))

    def path(self, path: str) -> str:
        """A path with its query as it is recorded: without secrets, and without any ``key``, whoever's it is."""
        return self._remembered(_KEY_IN_QUERY.sub(rf"\1{REDACTED}", path) if "key=" in path else path)

    def headers(self, headers: Iterable[tuple[str, str]]) -> dict[str, str]:
        """Headers as they are recorded: lower-case names, repeated ones joined by ``, ``, secret ones replaced.

        Most calls of a session have the same headers, so the last few sets are remembered; what is returned is not to be changed.
        """
        given = tuple(headers)
        known = self._header_sets.get(given)
        if known is not None:
            return known
        recorded: dict[str, str] = {}
        for spelling, value in given:
            name = spelling.lower()
            if name in SECRET_HEADERS:
                recorded[name] = REDACTED
                continue
            text = self._remembered(value)
            recorded[name] = f"{recorded[name]}, {text}" if name in recorded else text
        if len(self._header_sets) >= _REMEMBERED_SETS:
            self._header_sets.clear()
        self._header_sets[given] = recorded
        return recorded

    def _remembered(self, value: str) -> str:
        """A header's value or a path without secrets; most come again with every call, so some are remembered."""
        text = self._texts.get(value)
        if text is None:
            text = self.body(value.encode("utf-8", "surrogateescape"))
            if len(self._texts) >= _REMEMBERED:
                self._texts.clear()
            if len(value) < _REMEMBERED:
                self._texts[value] = text
        return text

    def _spellings(self) -> list[re.Pattern[str]]:
        """Patterns of the secrets however they are spelled; they take long to make, and most sessions need none."""
        if self._spelled is None:
            self._spelled = [re.compile("".join(map(_any_spelling, secret))) for secret in self._plain]
        return self._spelled

    def _may_be_in(self, data: bytes) -> bool:
        """A quick look without false negatives: whoever spells a secret differently still writes its letters and digits as they are, or
        escapes them as ``\\u00NN``. A secret with no long run of these is looked for in full."""
        for sign in self._signs:
            if sign is None or sign in data:
                return True
        return bool(self._signs) and b"\\" in data and b"\\u" in data and _ESCAPED_ASCII.search(data) is not None


def _sign(secret: str) -> bytes | None:
    """A run of a secret's capitals, or the beginning of its longest run of letters and digits; None if none is long enough to be rare."""
    data = secret.encode("utf-8")
    capitals = _CAPITALS.search(data)
    if capitals is not None:
        return capitals[0]
    longest: bytes = max(_PLAIN_RUN.findall(data), key=len, default=b"")
    return longest[:_LONGEST_SIGN] if len(longest) >= _SHORTEST_RUN else None


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
