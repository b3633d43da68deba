"""Server-sent events: whole events out of bytes that come in any pieces.

Line ends may be LF, CRLF or CR (https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

_EVENT_END = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r(?!\n))")
_LINE_END = re.compile(rb"\r\n|\n|\r")
_LONGEST_END = 4


class ServerSentEvent(msgspec.Struct):
    """One event, ``raw`` with the blank line that ends it."""

    raw: bytes

    @property
    def data(self) -> bytes | None:
        """The event's data lines joined by newlines; None if it has none (a comment, a heartbeat)."""
        lines = [_value(line) for line in self._lines() if _name(line) == b"data"]
        return b"\n".join(lines) if lines else None

    def with_data(self, data: bytes) -> bytes:
        """The bytes of this event with its data replaced by one line and everything else as it was."""
        others = [line for line in self._lines() if line and _name(line) != b"data"]
        return b"".join(line + b"\n" for line in (*others, b"data: " + data)) + b"\n"

    def _lines(self) -> list[bytes]:
        return _LINE_END.split(self.raw)


class EventSplitter:
    """Cuts a stream of bytes into events: the same events however the bytes were split."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._searched = 0

    def feed(self, data: bytes) -> Iterator[ServerSentEvent]:
        """The events that are whole now."""
        if not self._buffer and data.endswith(b"\n\n") and b"\r" not in data:  # whole events of the usual form
            if data.find(b"\n\n") == len(data) - 2 and not data.startswith(b"\n"):
                yield ServerSentEvent(data)
            else:
                yield from self._cut(data)
            return
        self._buffer += data
        while True:
            end = _EVENT_END.search(self._buffer, self._searched)
            # A CR at the very end may be the first half of a CRLF: which it is shows the next byte.
            if end is None or (end.end() == len(self._buffer) and self._buffer.endswith(b"\r")):
                self._searched = max(0, len(self._buffer) - _LONGEST_END)
                return
            yield self._take(end.end())

    def _cut(self, data: bytes) -> Iterator[ServerSentEvent]:
        at = 0
        while at < len(data):
            end = data.find(b"\n\n", at) + 2
            yield ServerSentEvent(data[at:end])
            at = end

    def rest(self) -> ServerSentEvent | None:
        """What is left when the stream has ended without the last blank line; None if that is nothing."""
        return self._take(len(self._buffer)) if self._buffer.strip() else None

    def _take(self, length: int) -> ServerSentEvent:
        raw = bytes(self._buffer[:length])
        del self._buffer[:length]
        self._searched = 0
        return ServerSentEvent(raw)


def _name(line: bytes) -> bytes:
    return line.partition(b":")[0]


def _value(line: bytes) -> bytes:
    return line.partition(b":")[2].removeprefix(b" ")
