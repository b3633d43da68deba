"""The Hermes tool parser: what each sampled token adds to the message, as content or as part of a tool call.

vLLM has two of it, and so has this. A stream tells a call as it grows, with the arguments letter for letter, before it can know whether
they will be whole. A reply that is not streamed is read at its end: its calls are told with their arguments written anew, or, if one of
them is no JSON or lacks a part, none is, and all of the text is content.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pytest_harness.engines.scripted.tokenizer import CALL, END_OF_CALL

_NAME = re.compile(r'"name"\s*:\s*"([^"]+)"')
_ARGUMENTS = re.compile(r'"arguments"\s*:\s*')
_CALL = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)


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
    """What each token adds; parallel to ``ids``. The marks are the ids of ``<tool_call>`` and ``</tool_call>``.

    Of a reply that is not ``streamed`` only the sum of them is right.
    """
    if tools and streamed:
        return list(_growing(ids, pieces, call_mark, end_mark))
    if tools and call_mark in ids:
        with suppress(ValueError, KeyError, TypeError):
            return _whole(pieces)
    return [Delta(content=piece) for piece in pieces]


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


def _whole(pieces: Sequence[str]) -> list[Delta]:
    """As many deltas as pieces, which add up to their content and calls. Raises ValueError, KeyError or TypeError if a call is none."""
    text = "".join(pieces)
    made = [json.loads(found[1]) for found in _CALL.finditer(text)]
    told = [Delta(content=text[: text.find(CALL)])]
    told += [
        Delta(call=number, name=call["name"], arguments=json.dumps(call["arguments"], ensure_ascii=False))
        for number, call in enumerate(made)
    ]
    return told + [Delta()] * (len(pieces) - len(told))


def _growing(ids: Sequence[int], pieces: Sequence[str], call_mark: int, end_mark: int) -> Iterator[Delta]:
    number, reader, nameless, waiting = -1, None, False, ""
    for token, piece in zip(ids, pieces, strict=True):
        told: tuple[str | None, str | None] = (None, None)
        if reader is not None:
            ends = token == end_mark
            told = reader.read("" if ends else piece, ends=ends)
            if ends:
                nameless, reader = nameless or not reader.named, None
        elif token == call_mark:
            number, reader = number + 1, _CallReader()
            if waiting and number == 0:
                yield Delta(content=waiting)
                continue
        elif number < 0:  # what follows the first call is the line break before the next one, or the end of the turn
            # What may be the beginning of a mark waits, and is never told if nothing follows it.
            waiting += piece
            ready = waiting[: len(waiting) - _overlap(waiting, CALL)]
            waiting = waiting[len(ready) :]
            yield Delta(content=ready or None)
            continue
        # vLLM waits for the name of a call before it looks at the next one, so a call that never has one hides all that follow.
        yield Delta(call=number, name=told[0], arguments=told[1]) if any(told) and not nameless else Delta()


def _overlap(text: str, mark: str) -> int:
    """How many characters at the end of a text may be the beginning of a mark."""
    return next((length for length in range(min(len(text), len(mark) - 1), 0, -1) if mark.startswith(text[-length:])), 0)


class _CallReader:
    """Reads one call as it grows, whatever it is: its arguments are all that follows their name, less the last bracket of what is JSON."""

    def __init__(self) -> None:
        self.named = False
        self._text = self._sent = ""

    def read(self, piece: str, *, ends: bool) -> tuple[str | None, str | None]:
        """The name, as soon as it is whole and only once, and what ``piece`` adds to the arguments."""
        self._text += piece
        text = self._text if ends else self._text[: len(self._text) - _overlap(self._text, END_OF_CALL)]
        text = text.strip()
        name = None
        if not self.named:
            found = _NAME.search(text)
            if found is None:
                return None, None
            name, self.named = found[1], True
        begin = _ARGUMENTS.search(text)
        if begin is None:
            return name, None
        arguments = text[begin.end() :]
        if (ends or _is_json(text)) and arguments.endswith("}"):
            arguments = arguments[:-1].rstrip()
        added = arguments[len(self._sent) :]
        self._sent += added
        return name, added or None


def _is_json(text: str) -> bool:
    if not text.endswith("}"):
        return False
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
