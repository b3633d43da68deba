"""Long texts that have most in common, kept once: each is a list of pieces, and equal pieces of one attempt are one."""

from __future__ import annotations

import re

LONGEST = 400_000
"""So many characters of one body are kept: three quarters from its beginning, the rest from its end."""

_SEAM = re.compile(r"(?<=\},)|(?<=\}, )|(?<=\n\n)")
"""Where a body is cut: between the elements of a JSON list, such as messages and tools, and between the events of a stream."""


class Pieces:
    """The pieces of one attempt. ``table`` holds each once."""

    def __init__(self) -> None:
        self.table: list[str] = []
        self._places: dict[str, int] = {}

    def add(self, text: str) -> tuple[list[int], int]:
        """The places of the text's pieces, and how many characters were left out of its middle."""
        kept, left_out = _bounded(text)
        return [place for part in kept for piece in _SEAM.split(part) if (place := self._place(piece)) is not None], left_out

    def _place(self, piece: str) -> int | None:
        if not piece:
            return None
        if piece not in self._places:
            self._places[piece] = len(self.table)
            self.table.append(piece)
        return self._places[piece]


def _bounded(text: str) -> tuple[list[str], int]:
    left_out = len(text) - LONGEST
    if left_out <= 0:
        return [text], 0
    head = LONGEST * 3 // 4
    note = f"\n[… {left_out} characters are not on this page; the evidence has them …]\n"
    return [text[:head], note, text[head + left_out :]], left_out
