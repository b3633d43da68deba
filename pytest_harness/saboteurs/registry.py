"""The register of saboteurs, and their aim: where a fault strikes is chosen by whoever applies it, if there is more than one place."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from contextvars import ContextVar

from pytest_harness.evidence.model import Evidence

Saboteur = Callable[[Evidence], Evidence]
Aim = Callable[[int], int]
"""Of so many places, the index of the one to strike."""

_SABOTEURS: dict[str, Saboteur] = {}
_AIM: ContextVar[Aim | None] = ContextVar("aim", default=None)


class SaboteurError(Exception):
    """An unknown saboteur, or one that is registered twice; the message names it."""


class NothingToSabotage(Exception):  # noqa: N818 - it is an answer, not an error
    """The evidence has nothing that this saboteur could break; the message says what it looked for."""


def saboteur(function: Saboteur) -> Saboteur:
    """Register a saboteur under the name of the function. Raises SaboteurError if the name is taken."""
    if function.__name__ in _SABOTEURS:
        raise SaboteurError(f"there are two saboteurs named {function.__name__}; rename one")
    _SABOTEURS[function.__name__] = function
    return function


def names() -> tuple[str, ...]:
    """The names of all saboteurs, sorted."""
    return tuple(sorted(_SABOTEURS))


def chosen[T](places: Sequence[T], usual: int) -> T:
    """The place at which to strike: the ``usual`` one, unless the saboteur was given an aim. There must be at least one."""
    aim = _AIM.get()
    return places[usual if aim is None else aim(len(places))]


def apply(name: str, evidence: Evidence, aim: Aim | None = None) -> Evidence:
    """The evidence with this fault, at its usual place or where ``aim`` says.

    Raises NothingToSabotage if the evidence offers no place for it, SaboteurError if there is no such saboteur.
    """
    try:
        function = _SABOTEURS[name]
    except KeyError:
        close = difflib.get_close_matches(name, _SABOTEURS, n=3)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        raise SaboteurError(f"there is no saboteur {name!r}{hint}") from None
    before = _AIM.set(aim)
    try:
        return function(evidence)
    finally:
        _AIM.reset(before)
