"""Bodies that no check can read, as they are nested too deeply.

Python's JSON readers give up at some depth, which is that of the interpreter. To a check such a body is as good as none, so it would find
that everything is missing from it: instead nothing of the attempt is judged, and the place is told.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from pytest_harness.contract.memo import once_per_evidence
from pytest_harness.evidence.model import Call, Evidence, Message

ANY_READER = 500
"""So many brackets are within the depth of every reader, however they are nested."""
ROOM = 100
"""How many levels more than a body has must be readable, as the checks are some calls deep themselves."""


@once_per_evidence
def too_deep(evidence: Evidence) -> str | None:
    """Where the first body stands that the checks depend on and cannot read; None if they can read all."""
    return next((place for call in evidence.calls for place in _places(call)), None)


def _places(call: Call) -> Iterator[str]:
    """What was refused before it went on, and a reply that was none, are judged by what became of them."""
    sides = (
        *((name, getattr(call, name)) for name in ("received", "forwarded") if call.forwarded is not None),
        *((name, getattr(call, name)) for name in ("replied", "delivered") if call.outcome == "complete"),
    )
    return (f"calls.ndjson line {call.index + 1}, {name}.body" for name, message in sides if message is not None and _is_deep(message))


def _is_deep(message: Message) -> bool:
    body = message.body
    if body.count("{") + body.count("[") <= ANY_READER:
        return False
    parts = [body] if body.lstrip().startswith(("{", "[")) else [row[5:] for row in body.splitlines() if row.startswith("data:")]
    return any(map(_is_unreadable, parts))


def _is_unreadable(text: str) -> bool:
    if text.count("{") + text.count("[") <= ANY_READER:
        return False
    try:
        json.loads("[" * ROOM + text + "]" * ROOM)
    except RecursionError:
        return True
    except ValueError:
        return False
    return False
