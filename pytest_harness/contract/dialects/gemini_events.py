"""The grammar of Gemini's replies, streamed or whole: what Google's SDKs and its own harness put a turn together from.

Every part of a stream is a response of its own. A part of a content has one kind of data; a function call is never cut; a candidate has one
finish reason, after which it says no more; and the response's id is the same throughout. There is no end mark.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from pytest_harness.contract.chat_wire import short
from pytest_harness.contract.dialects.gemini import chunks
from pytest_harness.contract.dialects.neutral import Json, fields, objects, place
from pytest_harness.evidence.model import Message

Broken = tuple[str, str]
"""What the grammar wants, and what is there."""

LEGAL_NAME = re.compile(r"[A-Za-z_][\w.:-]{0,127}", re.ASCII)
"""What a function may be called."""

_ABOUT = frozenset({"thought", "thoughtSignature", "videoMetadata", "mediaResolution", "partMetadata"})
"""Fields that say something of a part's data."""


def broken_rules(message: Message | None) -> Iterator[Broken]:
    """Where a reply breaks the grammar."""
    finished: Counter[int] = Counter()
    ids = set()
    for chunk in chunks(message):
        if chunk.data is None:
            yield "a JSON object as the data of each event", short(chunk.text)
            continue
        ids.add(repr(chunk.data.get("responseId")))
        for number, candidate in enumerate(objects(chunk.data.get("candidates"))):
            index = place(candidate.get("index"), number)
            parts = objects(fields(candidate.get("content")).get("parts"))
            if finished[index] and any(part.get("text") or "functionCall" in part for part in parts):
                yield f"nothing of candidate {index} after its finish reason", short(repr(parts))
            finished[index] += candidate.get("finishReason") is not None
            yield from _content(fields(candidate.get("content")), parts)
    for index, times in finished.items():
        if times != 1:
            yield f"one finish reason for candidate {index}", str(times)
    if len(ids) > 1:
        yield "the same responseId throughout", ", ".join(sorted(ids))


def _content(content: Json, parts: list[Json]) -> Iterator[Broken]:
    if parts and content.get("role") != "model":
        yield "role model for what the model says", repr(content.get("role"))
    for part in parts:
        if len(part.keys() - _ABOUT) != 1:
            yield "one kind of data in a part", f"{sorted(part)}"
        call = part.get("functionCall")
        if call is not None and not (isinstance(call, dict) and LEGAL_NAME.fullmatch(str(call.get("name"))) and _whole(call)):
            yield "a function call with a legal name and an object of arguments", short(repr(call))


def _whole(call: Json) -> bool:
    return isinstance(call.get("args", {}), dict) and isinstance(call.get("id", ""), str)
