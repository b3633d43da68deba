"""Our thought signatures: what a client must give back unchanged so that the engine sees the very turn it sampled.

Gemini's clients echo ``thoughtSignature`` as it came, also where they drop thought texts, rewrite numbers or invent ids of their own for
function calls (gemini-cli does all of it). So a call's signature holds the engine's id and the arguments as the model wrote them: no
client can be trusted to give back 1.0, the spacing, or the order of keys. The first of a turn, or its last text, holds the reasoning.

A signature is base64 of a mark and a JSON object. Anything without the mark is a foreign signature, which says nothing here.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Any

from pytest_harness.capture.dialects.base import RefusalError
from pytest_harness.capture.dialects.neutral import Json, dump, object_of

_MARK = b"harness-conformance:1:"


@dataclass(frozen=True)
class Signature:
    """What one part's signature holds; the last three are of the call that it signs."""

    reasoning: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None

    def write(self) -> str:
        """The signature as it goes to the client."""
        held = {"r": self.reasoning, "i": self.call_id, "n": self.name, "a": self.arguments}
        payload = _MARK + dump({key: value for key, value in held.items() if value is not None})
        return base64.b64encode(payload).decode("ascii")


def read_signature(text: str | None, where: str) -> Signature | None:
    """What a part's signature says; None if it has none or a foreign one. Raises RefusalError for one of ours that was changed."""
    if not text:
        return None
    try:
        payload = base64.b64decode(standard_base64(text))
    except (binascii.Error, ValueError):
        return None
    if not payload.startswith(_MARK):
        return None
    try:
        held: Any = json.loads(payload.removeprefix(_MARK))
        values = [held.get(key) for key in "rina"]
    except (ValueError, AttributeError):
        values = [0]
    if not all(value is None or isinstance(value, str) for value in values):
        raise RefusalError(f"Corrupted thought signature. ({where}: give it back as it came, or leave it out)", where)
    return Signature(*values)


def arguments_of(args: Json, signature: Signature | None) -> str:
    """The text of a call's arguments: the model's own where the client gives their value back, else the client's."""
    signed = None if signature is None else signature.arguments
    if signed is not None and _same(object_of(signed), args):
        return signed
    return written(args)


def written(args: Json) -> str:
    """Arguments as text."""
    return json.dumps(args, ensure_ascii=False)


def standard_base64(text: str) -> str:
    """Base64 in the standard alphabet with padding; google-genai writes the URL-safe one, others leave the padding out."""
    text = text.replace("-", "+").replace("_", "/")
    return text + "=" * (-len(text) % 4)


def _same(one: Any, other: Any) -> bool:
    """Whether two JSON values are one to a client that has but one kind of number, a double."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return _double(one) == _double(other)
    return type(one) is type(other) and bool(one == other)


def _double(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")
