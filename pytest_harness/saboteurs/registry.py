"""The register of saboteurs."""

from __future__ import annotations

import difflib
from collections.abc import Callable

from pytest_harness.evidence.model import Evidence

Saboteur = Callable[[Evidence], Evidence]

_SABOTEURS: dict[str, Saboteur] = {}


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


def apply(name: str, evidence: Evidence) -> Evidence:
    """The evidence with this fault. Raises NothingToSabotage if it offers no place for it, SaboteurError if there is no such saboteur."""
    try:
        function = _SABOTEURS[name]
    except KeyError:
        close = difflib.get_close_matches(name, _SABOTEURS, n=3)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        raise SaboteurError(f"there is no saboteur {name!r}{hint}") from None
    return function(evidence)
