"""The Hermes tool parser: what each sampled token adds to the message, as content or as part of a tool call.

A reply that is not streamed is the sum of these deltas, so both forms say the same, but for a call that the sample does not finish (cut by
a limit or a stop string). There vLLM's two forms differ, and so do these: in a reply that is not streamed it is no call, and all of the
text is content; a stream has told it as a call before it could know.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_NAME = re.compile(r'\s*\{"name": ("(?:[^"\\]|\\.)*")')
_HEAD = re.compile(_NAME.pattern + ', "arguments": ')


@dataclass(frozen=True)
class Delta:
    """What one token adds: ``content``, ``reasoning``, or to the call number ``call`` its name (once) and more of its arguments.

    All None: nothing.
    """

    content: str | None = None
    call: int | None = None
    name: str | None = None
    arguments: str | None = None
    reasoning: str | None = None
    withheld: bool = False
    """Part of a call that the client did not want to hear of."""


@dataclass(frozen=True)
class Call:
    """A whole call, its arguments as they were sampled."""

    name: str
    arguments: str


def deltas(ids: Sequence[int], pieces: Sequence[str], *, call_mark: int, end_mark: int, tools: bool, streamed: bool) -> list[Delta]:
    """What each token adds; parallel to ``ids``. The marks are the ids of ``<tool_call>`` and ``</tool_call>``."""
    if not tools or call_mark not in ids or (not streamed and ids.count(call_mark) != ids.count(end_mark)):
        return [Delta(content=piece) for piece in pieces]
    return list(_deltas(ids, pieces, call_mark, end_mark))


def apart(ids: Sequence[int], pieces: Sequence[str], *, begin_mark: int, end_mark: int) -> list[Delta]:
    """The deltas of reasoning at the beginning of a sample, its marks with it; none if it does not begin with the first mark.

    The marks are the ids of ``<think>`` and ``</think>``; what was cut before the second is all reasoning.
    """
    if not ids or ids[0] != begin_mark:
        return []
    end = ids.index(end_mark) if end_mark in ids else len(ids) - 1
    return [
        Delta(reasoning=None if token in (begin_mark, end_mark) else piece) for token, piece in zip(ids[: end + 1], pieces, strict=False)
    ]


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
        self._head = self._held = ""
        self._named = self._headed = self._quoted = self._escaped = self._ended = False
        self._depth = 0

    def read(self, piece: str) -> tuple[str | None, str | None]:
        """The name, as soon as it is whole and only once, and what ``piece`` adds to the arguments."""
        name = None
        if not self._headed:
            self._head += piece
            piece = ""
            if not self._named and (found := _NAME.match(self._head)):
                name, self._named = json.loads(found[1]), True
            if found := _HEAD.match(self._head):
                piece, self._headed = self._head[found.end() :], True
        # vLLM strips what it has of a call, so white space waits for what follows it.
        self._held += "".join(self._arguments(piece))
        arguments = self._held.rstrip()
        self._held = self._held[len(arguments) :]
        return name, arguments or None

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
