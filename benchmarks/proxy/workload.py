"""What the proxies are measured with: an engine that costs nothing, a client that costs little, and the bodies they exchange.

Client and engine are hand-written protocols with replies made beforehand, and share one process and one core, so that what is measured
is the proxy between them. Three workloads: a plain call (2,000 prompt ids, 50 sampled), the same streamed one token a chunk, and a
session that grows by 500 ids a turn.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from dataclasses import dataclass
from typing import cast

SAMPLED = 50
PROMPT = 2000
GROWTH = 500
TURNS = 100
TOKEN_GAP = 0.004
"""Seconds between two tokens of a paced stream."""

PACED = "PACED STREAM"
GROWING = "GROWING SESSION"

_random = random.Random(1)
_IDS = [_random.randrange(300, 150_000) for _ in range(TURNS * GROWTH + PROMPT + SAMPLED)]


def dump(document: object) -> bytes:
    """Compact JSON."""
    return json.dumps(document, separators=(",", ":")).encode()


def _entry(token: int) -> dict[str, object]:
    return {"token": f"token_id:{token}", "logprob": -0.5 - token / 1e6, "bytes": [119, 32], "top_logprobs": []}


def whole_reply(prompt: int) -> bytes:
    """The engine's reply to a prompt of so many ids, as HTTP."""
    sampled = _IDS[prompt : prompt + SAMPLED]
    message = {"role": "assistant", "content": "w " * SAMPLED, "reasoning": None}
    choice = {"index": 0, "message": message, "logprobs": {"content": [_entry(token) for token in sampled]}}
    body = dump(
        {
            "id": "chatcmpl-x",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [{**choice, "finish_reason": "stop", "stop_reason": None, "token_ids": sampled}],
            "usage": {"prompt_tokens": prompt, "completion_tokens": SAMPLED, "total_tokens": prompt + SAMPLED},
            "prompt_logprobs": None,
            "prompt_token_ids": _IDS[:prompt],
        }
    )
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body


def streamed_reply(prompt: int) -> list[bytes]:
    """The same as a stream: one piece for each event, each an HTTP chunk of its own."""
    base = {"id": "chatcmpl-x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    first = {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
    events = [dump({**base, "choices": [first], "prompt_token_ids": _IDS[:prompt]})]
    for number, token in enumerate(_IDS[prompt : prompt + SAMPLED], start=1):
        finish = "stop" if number == SAMPLED else None
        choice = {"index": 0, "delta": {"content": "w "}, "logprobs": {"content": [_entry(token)]}, "finish_reason": finish}
        events.append(dump({**base, "choices": [{**choice, "token_ids": [token]}]}))
    usage = {"prompt_tokens": prompt, "completion_tokens": SAMPLED, "total_tokens": prompt + SAMPLED}
    events += [dump({**base, "choices": [], "usage": usage}), b"[DONE]"]
    pieces = [b"%x\r\n%b\r\n" % (len(line), line) for line in (b"data: " + event + b"\n\n" for event in events)]
    pieces[0] = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n" + pieces[0]
    pieces[-1] += b"0\r\n\r\n"
    return pieces


def request_body(turn: int = 0, *, mark: str = "", stream: bool = False) -> bytes:
    """A harness's request after so many turns with a tool call each: 8 kB at turn 0."""
    tool = {"parameters": {"type": "object", "properties": {"a": {"type": "string"}}}, "description": "d" * 200}
    messages: list[dict[str, object]] = [{"role": "system", "content": mark + "s" * 3000}, {"role": "user", "content": "u" * 1000}]
    for number in range(turn):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "t1", "arguments": '{"a": "ls"}'}}
        messages.append({"role": "assistant", "content": "w " * SAMPLED, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": 'line of \\output\n "q" ' * 90})
    tools = [{"type": "function", "function": {"name": f"t{number}", **tool}} for number in range(12)]
    body: dict[str, object] = {"model": "m", "messages": messages, "tools": tools, "temperature": 1.0, "max_tokens": 4000}
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return dump(body)


class Engine(asyncio.Protocol):
    """Answers every request with what was made beforehand."""

    WHOLE = whole_reply(PROMPT)
    STREAMED = streamed_reply(PROMPT)
    GROWN = tuple(whole_reply(GROWTH * turn) for turn in range(1, TURNS + 1))
    MODELS = dump({"object": "list", "data": [{"id": "m", "object": "model", "created": 1, "owned_by": "x", "max_model_len": 131072}]})

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A connection of the proxy."""
        self._transport: asyncio.Transport | None = cast("asyncio.Transport", transport)  # uvloop's is none by inheritance
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()

    def connection_lost(self, exc: Exception | None) -> None:
        """The proxy let go."""
        self._transport = None

    def data_received(self, data: bytes) -> None:
        """Answer each request that is whole."""
        self._buffer += data
        while (taken := self._take()) is not None:
            self._answer(*taken)

    def _take(self) -> tuple[bool, bytes] | None:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return None
        head = bytes(self._buffer[:end]).lower()
        if b"transfer-encoding: chunked" in head:
            if not self._buffer.endswith(b"0\r\n\r\n"):
                return None
            length = len(self._buffer) - end - 4
        else:
            _, found, rest = head.partition(b"content-length:")
            length = int(rest.split(b"\r\n", 1)[0]) if found else 0
        if len(self._buffer) < end + 4 + length:
            return None
        body = bytes(self._buffer[end + 4 : end + 4 + length])
        del self._buffer[: end + 4 + length]
        return head.startswith(b"get"), body

    def _answer(self, get: bool, body: bytes) -> None:
        assert self._transport is not None
        if get:
            self._transport.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(self.MODELS) + self.MODELS
            )
        elif b'"stream":true' in body or b'"stream": true' in body:
            self._step(0, PACED.encode() in body)
        elif GROWING.encode() in body:
            self._transport.write(self.GROWN[min(TURNS - 1, body.count(b'"tool_call_id"'))])
        elif PACED.encode() in body:  # the proxy asked for the whole: it comes when the last token would have
            self._loop.call_later(TOKEN_GAP * (SAMPLED + 1), self._whole)
        else:
            self._whole()

    def _whole(self) -> None:
        if self._transport is not None:
            self._transport.write(self.WHOLE)

    def _step(self, piece: int, paced: bool) -> None:
        if self._transport is None:
            return
        self._transport.write(self.STREAMED[piece])
        if piece + 1 < len(self.STREAMED):
            if paced and piece < SAMPLED:  # usage and [DONE] directly follow the last token
                self._loop.call_later(TOKEN_GAP, self._step, piece + 1, paced)
            else:
                self._loop.call_soon(self._step, piece + 1, paced)


@dataclass(frozen=True)
class Answer:
    """One reply. Times are seconds since the request was written."""

    status: int
    first_byte: float
    """Of the body."""
    total: float
    body: bytes


class Client(asyncio.Protocol):
    """One keep-alive connection of a harness; one request at a time."""

    @classmethod
    async def open(cls, port: int) -> Client:
        """Connect to loopback."""
        _, client = await asyncio.get_running_loop().create_connection(cls, "127.0.0.1", port)
        return client

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection stands."""
        self._transport = cast("asyncio.Transport", transport)
        self._future: asyncio.Future[Answer] | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        """The proxy closed it."""
        if self._future is not None and not self._future.done():
            self._future.set_exception(ConnectionError(f"the proxy closed the connection: {exc}"))

    def ask(self, head: bytes, body: bytes = b"") -> asyncio.Future[Answer]:
        """Write a request; the future has its answer."""
        self._future = asyncio.get_running_loop().create_future()
        self._buffer = bytearray()
        self._body_at: int | None = None
        self._length = -1
        self._first: float | None = None
        self._asked = time.perf_counter()
        self._transport.writelines((head, body))
        return self._future

    def data_received(self, data: bytes) -> None:
        """Look for the end of the answer."""
        self._buffer += data
        if self._body_at is None:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            self._body_at = end + 4
            _, found, rest = bytes(self._buffer[:end]).lower().partition(b"content-length:")
            self._length = int(rest.split(b"\r\n", 1)[0]) if found else -1
        if self._first is None and len(self._buffer) > self._body_at:
            self._first = time.perf_counter()
        whole = len(self._buffer) >= self._body_at + self._length if self._length >= 0 else self._buffer.endswith(b"0\r\n\r\n")
        if whole and self._future is not None:
            now = time.perf_counter()
            answer = Answer(
                int(self._buffer[9:12]), (self._first or now) - self._asked, now - self._asked, bytes(self._buffer[self._body_at :])
            )
            self._future.set_result(answer)

    def close(self) -> None:
        """Hang up."""
        self._transport.close()


def head(path: str, key: str, length: int, method: str = "POST") -> bytes:
    """The head of a request."""
    return (
        f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\naccept: */*\r\n"
        f"authorization: Bearer {key}\r\ncontent-length: {length}\r\n\r\n"
    ).encode()
