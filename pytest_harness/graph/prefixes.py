"""Sequences of ids that share what they have in common: a tree in which every distinct beginning is kept once.

Adding a sequence compares bytes and stores only what no earlier one had, so time is linear in the ids that are read and memory in the ids
that are new. Two equal sequences of one tree are the same ``Prefix``.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import Any

_WIDTH = 8
"""Bytes of an id."""


class Prefix:
    """One sequence of ids, as what it adds to the longest sequence that it begins with. Only this module changes one."""

    __slots__ = ("after", "before", "length", "own")

    def __init__(self, before: Prefix | None, own: bytes, length: int) -> None:
        self.before = before
        self.own = own
        self.after: dict[bytes, Prefix] = {}
        """The sequences that begin with this one, by the first id that they add."""
        self.length = length
        """How many ids it has."""

    def __repr__(self) -> str:
        return f"<{self.length} ids>"

    @property
    def ids(self) -> tuple[int, ...]:
        """The whole sequence, put together for this question."""
        whole = array("Q")
        whole.frombytes(b"".join(reversed([prefix.own for prefix in self.beginnings()])))
        return tuple(whole)

    def beginnings(self) -> Iterator[Prefix]:
        """Itself, and every other sequence of the tree that it begins with, longest first."""
        prefix: Prefix | None = self
        while prefix is not None:
            yield prefix
            prefix = prefix.before

    def add(self, ids: bytes) -> Prefix:
        """This sequence followed by these ids."""
        prefix, at = self, 0
        while at < len(ids):
            following = prefix.after.get(ids[at : at + _WIDTH])
            if following is None:
                return _hang(prefix, ids[at:])
            same = _same(following.own, ids, at)
            prefix = following if same == len(following.own) else _split(following, same)
            at += same
        return prefix


class Tree:
    """A tree of sequences. A conversation is added turn by turn, so each sequence is looked for behind the last one first."""

    def __init__(self) -> None:
        self.root = Prefix(None, b"", 0)
        self._last = (b"", self.root)

    def add(self, ids: bytes) -> Prefix:
        """The sequence of these ids."""
        known, prefix = self._last
        found = prefix.add(ids[len(known) :]) if ids.startswith(known) else self.root.add(ids)
        self._last = ids, found
        return found


def as_bytes(ids: Iterable[Any] | None) -> bytes | None:
    """The ids as integers of fixed width; None unless every one is an int that is not negative."""
    if ids is None:
        return None
    ids = tuple(ids)
    if set(map(type, ids)) - {int}:
        return None
    try:
        return array("Q", ids).tobytes()
    except OverflowError:
        return None


def _hang(before: Prefix, own: bytes) -> Prefix:
    new = before.after[own[:_WIDTH]] = Prefix(before, own, before.length + len(own) // _WIDTH)
    return new


def _split(prefix: Prefix, at: int) -> Prefix:
    """The sequence that has only the first bytes of what this one adds; this one stays the same sequence."""
    assert prefix.before is not None  # the empty sequence adds nothing that could be split
    upper = _hang(prefix.before, prefix.own[:at])
    prefix.before, prefix.own = upper, prefix.own[at:]
    upper.after[prefix.own[:_WIDTH]] = prefix
    return upper


def _same(own: bytes, ids: bytes, at: int) -> int:
    """How many bytes of ``own`` stand in ``ids`` from ``at`` on, in whole ids: halving the doubt costs no more than comparing once."""
    if ids.startswith(own, at):
        return len(own)
    low, high = 0, min(len(own), len(ids) - at) // _WIDTH  # so many ids are the same, and so many may be
    while low < high:
        middle = (low + high + 1) // 2
        if ids.startswith(own[low * _WIDTH : middle * _WIDTH], at + low * _WIDTH):
            low = middle
        else:
            high = middle - 1
    return low * _WIDTH
