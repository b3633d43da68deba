"""Ids for the tool calls to which the engine gave none: without one, a harness cannot say which result belongs to which call.

An id is given once, where its call begins (in a whole reply, or in the first fragment of a stream), and noted. Only an id that is null,
missing or empty is filled in; any other stays, whatever it is.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from pytest_harness.evidence.notes import id_filled_in


class Fragment(NamedTuple):
    """What of a tool call one message or delta holds: which call of its choice it is, and whether there is an id."""

    call: int
    has_id: bool


class CallIds:
    """The tool calls of one reply, by choice and index, and the ids that were filled in. ``make`` gives a new id."""

    def __init__(self, make: Callable[[], str] = lambda: f"call_{secrets.token_hex(12)}") -> None:
        self.notes: list[str] = []
        self._make = make
        self._begun: set[tuple[int, int]] = set()

    def begun(self, choice: int, call: int) -> bool:
        """Whether a fragment of this call has come, so that its id is settled."""
        return (choice, call) in self._begun

    def lacking(self, choice: int, fragments: Sequence[Fragment]) -> list[int]:
        """The positions of the fragments with which a call begins that has no id."""
        return [
            place
            for place, (call, has_id) in enumerate(fragments)
            if not has_id and (choice, call) not in self._begun and all(call != other.call for other in fragments[:place])
        ]

    def begin(self, choice: int, fragments: Sequence[Fragment]) -> dict[int, str]:
        """Take the fragments in; the new id for each position that lacks one."""
        given: dict[int, str] = {}
        for place in self.lacking(choice, fragments):
            given[place] = self._make()
            self.notes.append(id_filled_in(given[place], call=fragments[place].call, choice=choice))
        self._begun.update([(choice, call) for call, _ in fragments])
        return given

    def fill(self, document: dict[str, Any], part: Literal["message", "delta"]) -> bool:
        """Fill in what is lacking in a whole reply or a chunk; tells whether anything was."""
        choices = document.get("choices")
        filled = False
        for position, choice in enumerate(choices if isinstance(choices, list) else ()):
            said = choice.get(part) if isinstance(choice, dict) else None
            calls = said.get("tool_calls") if isinstance(said, dict) else None
            if not isinstance(calls, list):
                continue
            streamed = part == "delta"  # in a whole reply the places tell the calls apart, and indices may all be 0
            fragments = [
                Fragment(_index(call, place) if streamed else place, not isinstance(call, dict) or call.get("id") not in (None, ""))
                for place, call in enumerate(calls)
            ]
            for place, call_id in self.begin(_index(choice, position) if streamed else position, fragments).items():
                calls[place] = {"id": call_id} | {name: value for name, value in calls[place].items() if name != "id"}
                filled = True
        return filled


def _index(fields: object, otherwise: int) -> int:
    index = fields.get("index") if isinstance(fields, dict) else None
    return index if isinstance(index, int) and not isinstance(index, bool) else otherwise
