"""The notes of a call that are read again, as they are written: which fields were not passed on, which ids were filled in.

The proxy writes them and the checks read them, so the words stand here, once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

_NOT_PASSED_ON = "not known to the engine, not passed on: "
_PLAIN_NAME = re.compile(r"[\w.-]+", re.ASCII)
_FILLED_IN = re.compile(r"the engine gave call \d+(?: of choice \d+)? no id; (\S+) was filled in")


def not_passed_on(names: Iterable[str]) -> str:
    """The note that says which fields of a request did not go to the engine; a name with odd characters is a JSON string in it."""
    return _NOT_PASSED_ON + ", ".join(map(_written, sorted(names)))


def names_not_passed_on(notes: Iterable[str]) -> frozenset[str]:
    """The fields of the request that, by these notes, did not go to the engine."""
    lists = [note.removeprefix(_NOT_PASSED_ON) for note in notes if note.startswith(_NOT_PASSED_ON)]
    return frozenset(_read(name) for names in lists for name in names.split(", "))


def id_filled_in(call_id: str, *, call: int, choice: int = 0) -> str:
    """The note that says that the engine gave a tool call no id, and which the harness got; both places count from 0."""
    where = f"call {call} of choice {choice}" if choice else f"call {call}"
    return f"the engine gave {where} no id; {call_id} was filled in"


def ids_filled_in(notes: Iterable[str]) -> frozenset[str]:
    """The ids of tool calls that, by these notes, are not the engine's."""
    return frozenset(found[1] for note in notes if (found := _FILLED_IN.fullmatch(note)))


def _written(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else json.dumps(name).replace(",", r"\u002c")


def _read(name: str) -> str:
    try:
        return str(json.loads(name)) if name.startswith('"') else name
    except ValueError:  # no name that was written here
        return name
