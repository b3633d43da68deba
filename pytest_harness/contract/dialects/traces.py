"""Fields of the capture in what was delivered, in any dialect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pytest_harness.contract.chat_wire import document
from pytest_harness.contract.dialects.gemini import chunks
from pytest_harness.contract.dialects.neutral import is_document
from pytest_harness.evidence.model import Call

_FIELDS = {
    "prompt_token_ids": "prompt_token_ids",
    "token_ids": "token_ids",
    "logprobs": "logprobs",
    "logprobsResult": "logprobs",
    "avgLogprobs": "logprobs",
}
"""The fields, and what each is of the engine's."""
_NOT_THE_REPLY = frozenset({"tools", "text", "metadata", "input", "args", "arguments", "functionCall", "instructions"})
"""Under these names stands what the model wrote, or what the request said and the reply repeats."""


def traces(call: Call) -> set[str]:
    """The engine's fields for the capture that are in the delivered bytes and hold something."""
    parts = [document(call.delivered)] if is_document(call.delivered) else [chunk.data for chunk in chunks(call.delivered)]
    return set(_within(parts))


def _within(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for entry in value:
            yield from _within(entry)
    elif isinstance(value, dict):
        for name, entry in value.items():
            if name in _FIELDS and entry not in (None, [], {}):
                yield _FIELDS[name]
            elif name not in _NOT_THE_REPLY:
                yield from _within(entry)
