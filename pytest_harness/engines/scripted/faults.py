"""Faults that the engine plays on request: what goes wrong, and in which chat call.

A fault is data. ``Fault("null_ids")`` spoils every call, ``Fault("status", calls={0}, status=429)`` the first only. Calls are counted
from 0 over all chat requests of one engine, bad ones included.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

from pytest_harness.engines.scripted.errors import RequestError
from pytest_harness.engines.scripted.wire import Choice, Json

Kind = Literal[
    "status",
    "html",
    "cut",
    "slow",
    "null_ids",
    "missing_logprobs",
    "misaligned_logprobs",
    "nan_logprob",
    "positive_logprob",
    "wrong_usage",
    "empty_choices",
    "null_call_id",
]


@dataclass(frozen=True)
class Fault:
    """One fault.

    ``status`` answers with ``status``, ``headers`` and ``message`` in vLLM's error body; ``html`` with an HTML page and ``status``.
    ``cut`` ends the connection after ``after`` chunks of a stream, or in the middle of a body that is not streamed. ``slow`` waits for
    ``event`` before the chunk number ``after``, or before the reply; it must be set on the server's loop. ``nan_logprob`` and
    ``positive_logprob`` spoil the position ``after``. The others need nothing.
    """

    kind: Kind
    calls: Collection[int] | None = None
    """The chat calls that it spoils, from 0; None for all."""
    after: int = 0
    status: int = 500
    message: str = "Internal server error"
    headers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    event: asyncio.Event | None = None

    def __post_init__(self) -> None:
        if (self.kind == "slow") != (self.event is not None):
            raise ValueError(f"the fault {self.kind!r} {'needs an' if self.kind == 'slow' else 'takes no'} event")

    def hits(self, call: int) -> bool:
        """Whether it spoils this call."""
        return self.calls is None or call in self.calls

    def error(self) -> RequestError:
        """The answer of a ``status`` fault."""
        kind = {400: "BadRequestError", 429: "RateLimitError"}.get(self.status, "InternalServerError")
        return RequestError(self.message, status=self.status, kind=kind)


def spoil_choice(kind: str, choice: Choice, after: int) -> Choice:
    """The choice as a fault tells it."""
    entries = choice.logprobs
    match kind:
        case "missing_logprobs":
            return replace(choice, logprobs=None)
        case "misaligned_logprobs" if entries:
            return replace(choice, logprobs=entries[:-1])
        case "nan_logprob" | "positive_logprob" if entries:
            value = math.nan if kind == "nan_logprob" else 0.5
            spoiled = {**entries[after], "logprob": value}
            return replace(choice, logprobs=(*entries[:after], spoiled, *entries[after + 1 :]))
    return choice


def _null_ids(document: Json) -> None:
    if "prompt_token_ids" in document:
        document["prompt_token_ids"] = None
    for choice in document["choices"]:
        if "token_ids" in choice:
            choice["token_ids"] = None


def _wrong_usage(document: Json) -> None:
    usage = document.get("usage")
    if usage:
        usage["completion_tokens"] += 1


def _empty_choices(document: Json) -> None:
    document["choices"] = []


def _null_call_id(document: Json) -> None:
    for choice in document["choices"]:
        for call in (choice.get("message") or choice.get("delta") or {}).get("tool_calls", ()):
            if "id" in call:
                call["id"] = None


_DOCUMENT_FAULTS: Mapping[str, Callable[[dict[str, Any]], None]] = {
    "null_ids": _null_ids,
    "wrong_usage": _wrong_usage,
    "empty_choices": _empty_choices,
    "null_call_id": _null_call_id,
}


def spoil_document(kind: str, document: Json) -> None:
    """Change a reply or a chunk as a fault tells it."""
    change = _DOCUMENT_FAULTS.get(kind)
    if change:
        change(document)
