"""The Hermes tool parser: what each sampled token adds to the message, as content or as part of a tool call.

A reply that is not streamed is the sum of these deltas, so both forms say the same. A call that the sample does not finish (cut by a
limit or a stop string) is no call: as in vLLM's unstreamed replies all of the text is then content, in both forms.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_HEAD = re.compile(r'\s*\{"name": ("(?:[^"\\]|\\.)*"), "arguments": ')


@dataclass(frozen=True)
class Delta:
    """What one token adds: ``content``, or to the call number ``call`` its name (once) and more of its arguments. All None: nothing."""

    content: str | None = None
    call: int | None = None
    name: str | None = None
    arguments: str | None = None


@dataclass(frozen=True)
class Call:
    """A whole call, its arguments as they were sampled."""

    name: str
    arguments: str


def deltas(ids: Sequence[int], pieces: Sequence[str], *, call_mark: int, end_mark: int, tools: bool) -> list[Delta]:
    """What each token adds; parallel to ``ids``. The marks are the ids of ``<tool_call>`` and ``</tool_call>``."""
    if not tools or call_mark not in ids or ids.count(call_mark) != ids.count(end_mark):
        return [Delta(content=piece) for piece in pieces]
    return list(_deltas(ids, pieces, call_mark, end_mark))


def message(parts: Sequence[Delta]) -> tuple[str | None, list[Call]]:
    """The content and the calls that deltas add up to; content is None beside calls without text."""
    content = "".join(part.content or "" for part in parts)
    calls: dict[int, Call] = {}
    for part in parts:
        if part.call is not None:
            before = calls.get(part.call, Call("", ""))
            calls[part.call] = Call(before.name + (part.name or ""), before.arguments + (part.arguments or ""))
    return (content or None if calls else content), [calls[number] for number in sorted(calls)]


def _deltas(ids: Sequence[int], pieces: Sequence[str], call_mark: int, end_mark: int) -> Iterator[Delta]:
    number, reader = -1, None
    for token, piece in zip(ids, pieces, strict=True):
        if token == call_mark:
            number, reader = number + 1, _CallReader()
            yield Delta()
        elif token == end_mark:
            reader = None
            yield Delta()
        elif reader is not None:
            name, arguments = reader.read(piece)
            yield Delta(call=number, name=name, arguments=arguments) if name or arguments else Delta()
        else:
            # What follows the first call is the line break before the next one, or the end of the turn.
            yield Delta(content=piece) if number < 0 and piece else Delta()


class _CallReader:
    """Reads the JSON of one call as it grows; its ``arguments`` end where their outermost bracket closes."""

    def __init__(self) -> None:
        self._head: str | None = ""
        self._depth = 0
        self._quoted = self._escaped = self._ended = False

    def read(self, piece: str) -> tuple[str | None, str | None]:
        name = None
        if self._head is not None:
            self._head += piece
            found = _HEAD.match(self._head)
            if not found:
                return None, None
            name, piece, self._head = json.loads(found[1]), self._head[found.end() :], None
        return name, "".join(self._arguments(piece)) or None

    def _arguments(self, piece: str) -> Iterator[str]:
        for char in piece:
            if self._ended:
                return
            yield char
            if self._escaped:
                self._escaped = False
            elif self._quoted:
                self._escaped, self._quoted = char == "\\", char != '"'
            elif char == '"':
                self._quoted = True
            elif char in "{[":
                self._depth += 1
            elif char in "}]":
                self._depth -= 1
                self._ended = self._depth == 0
