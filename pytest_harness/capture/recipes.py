"""Recipes: bytes told as copies from other bytes and what is new, so that nothing is written down twice.

A recipe is a flat list: two integers copy (how far to skip in the source from where the last copy ended, and how many bytes to take),
and bytes stand for themselves.
"""

from __future__ import annotations

from collections.abc import Sequence

Recipe = list[int | bytes]

_WORTH_COPYING = 24
"""Shorter pieces are not looked for in the source: they would cost more to find than to write."""


def cook(recipe: Sequence[int | bytes], source: bytes) -> bytes:
    """The bytes of a recipe. Raises ValueError for one that does not fit the source."""
    pieces: list[bytes] = []
    at = 0
    steps = iter(recipe)
    for step in steps:
        if isinstance(step, bytes):
            pieces.append(step)
            continue
        size = next(steps, None)
        start, at = at + step, at + step + (size if isinstance(size, int) else 0)
        if not isinstance(size, int) or not 0 <= start <= at <= len(source):
            raise ValueError("a copy reaches beyond its source")
        pieces.append(source[start:at])
    return b"".join(pieces)


def from_spans(spans: Sequence[tuple[int, int] | bytes]) -> Recipe:
    """The recipe of spans of the source (from, to) and new bytes."""
    recipe: Recipe = []
    at = 0
    for span in spans:
        if isinstance(span, bytes):
            recipe.append(span)
        else:
            recipe += (span[0] - at, span[1] - span[0])
            at = span[1]
    return recipe


def of_pieces(pieces: Sequence[bytes], source: bytes) -> Recipe:
    """The recipe of pieces that come, for the most part, in the same order in the source."""
    recipe: Recipe = []
    at = 0
    for piece in pieces:
        start = source.find(piece[:_WORTH_COPYING], at) if len(piece) >= _WORTH_COPYING else -1
        if start >= 0 and source.startswith(piece, start):
            recipe += (start - at, len(piece))
            at = start + len(piece)
        elif recipe and isinstance(recipe[-1], bytes):
            recipe[-1] += piece
        else:
            recipe.append(piece)
    return recipe


def difference(data: bytes, source: bytes) -> Recipe:
    """The recipe of bytes that begin and end like the source."""
    ahead = common_prefix(data, source)
    behind = common_suffix(data, source, min(len(data), len(source)) - ahead)
    recipe: Recipe = [0, ahead] if ahead else []
    if ahead + behind < len(data):
        recipe.append(data[ahead : len(data) - behind])
    if behind:
        recipe += (len(source) - behind - ahead, behind)
    return recipe


def common_prefix(one: bytes, other: bytes) -> int:
    """How many bytes two texts have in common at their beginning."""
    if len(one) < len(other):
        one, other = other, one
    least, most = 0, len(other)
    if one.startswith(other):
        return most
    while most - least > 1:
        middle = (least + most) // 2
        if one.startswith(other[least:middle], least):
            least = middle
        else:
            most = middle
    return least


def common_suffix(one: bytes, other: bytes, limit: int) -> int:
    """How many bytes, at most ``limit``, two texts have in common at their end."""
    if not limit:
        return 0
    least, most = 0, limit + 1
    while most - least > 1:
        middle = (least + most) // 2
        if one.startswith(other[len(other) - middle : len(other) - least], len(one) - middle):
            least = middle
        else:
            most = middle
    return least
