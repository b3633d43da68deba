"""HTTP/1.1 to an engine over kept-alive connections: a protocol, a parser and a pool, because a general client costs more than the rest.

There is no ceiling on connections. A reply that is read slower than it comes stops the engine's socket, so that memory stays bounded.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, cast
from urllib.parse import urlsplit

import httptools

RequestHeaders = tuple[tuple[str, str], ...]

_HIGH_WATER = 1 << 18
"""This many bytes of a reply may wait to be read before the engine's socket is no longer read from."""
_HEAD_LIMIT = 1 << 18
_SWEEP_SECONDS = 1.0


class UnreachableError(Exception):
    """No connection to the engine came about."""


class CutError(Exception):
    """The engine broke off before its reply was whole."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request goes: ``line`` is its request line and its ``Host`` header."""

    host: str
    port: int
    line: bytes

    @classmethod
    def of(cls, url: str) -> Target | None:
        """The target of a plain HTTP URL; None for any other."""
        parts = urlsplit(url)
        if parts.scheme != "http":
            return None
        path = parts.path or "/"
        return cls(parts.hostname or "", parts.port or 80, f"POST {path} HTTP/1.1\r\nhost: {parts.netloc}\r\n".encode())


class WirePool:
    """The connections made on one event loop. ``*_seconds``: to connect, without a byte inside a call, unused between two."""

    def __init__(self, *, connect_seconds: float, silence_seconds: float, idle_seconds: float) -> None:
        self._connect_seconds = connect_seconds
        self._silence_seconds = silence_seconds
        self._idle_seconds = idle_seconds
        self._idle: dict[tuple[str, int], list[_Connection]] = {}
        self._open: set[_Connection] = set()
        self._sweeping: asyncio.TimerHandle | None = None

    async def post(self, target: Target, headers: RequestHeaders, body: bytes) -> WireReply:
        """Send a request and wait for the head of its reply. Raises UnreachableError or CutError."""
        connection = self._take(target)
        if connection is None:
            connection = await self._connect(target)
        reply = connection.start(b"%s%scontent-length: %d\r\n\r\n" % (target.line, _lines(headers), len(body)), body)
        try:
            await reply.head()
        except BaseException:
            reply.close()
            raise
        return reply

    def _take(self, target: Target) -> _Connection | None:
        idle = self._idle.get((target.host, target.port))
        while idle:
            connection = idle.pop()
            if connection.usable and time.monotonic() - connection.last_heard < self._idle_seconds:
                return connection
            connection.abort()
        return None

    async def _connect(self, target: Target) -> _Connection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._connect_seconds):
                _, connection = await loop.create_connection(lambda: _Connection(self, target), target.host, target.port)
        except (OSError, TimeoutError) as error:
            raise UnreachableError(f"no connection to the engine: {type(error).__name__}: {error}".rstrip(": ")) from error
        self._open.add(connection)
        if self._sweeping is None:
            self._sweeping = loop.call_later(_SWEEP_SECONDS, self._sweep)
        return connection

    def keep(self, connection: _Connection) -> None:
        """Put a connection back whose reply is whole."""
        self._idle.setdefault((connection.target.host, connection.target.port), []).append(connection)

    def forget(self, connection: _Connection) -> None:
        """A connection that is closed."""
        self._open.discard(connection)
        idle = self._idle.get((connection.target.host, connection.target.port), [])
        if connection in idle:
            idle.remove(connection)

    def _sweep(self) -> None:
        """Give up what was unused, and what was silent inside a call, for too long."""
        now = time.monotonic()
        for connection in list(self._open):
            silent = now - connection.last_heard
            if not connection.usable or silent > (self._silence_seconds if connection.busy else self._idle_seconds):
                connection.abort(f"it was silent for {silent:.0f} s")
        self._sweeping = asyncio.get_running_loop().call_later(_SWEEP_SECONDS, self._sweep) if self._open else None

    async def close_with_the_loop(self) -> None:
        """Wait until the loop's runner ends, then close everything."""
        try:
            await asyncio.Event().wait()
        finally:
            if self._sweeping is not None:
                self._sweeping.cancel()
            for connection in list(self._open):
                connection.abort()


class WireReply:
    """A reply to one request. ``headers`` are in order, their names lower-case, repeated ones apart."""

    def __init__(self, connection: _Connection) -> None:
        self.status = 0
        self.headers: tuple[tuple[str, str], ...] = ()
        self.first_byte_at: float | None = None
        self._connection: _Connection | None = connection
        self._expander: _Expander | None = None
        self._headed = self._ended = self._paused = False
        self._error: CutError | None = None
        self._waiting: list[bytes] = []
        self._size = 0
        self._woken: asyncio.Future[None] | None = None

    async def head(self) -> None:
        """Wait for status and headers. Raises CutError."""
        while not self._headed:
            if self._error is not None:
                raise self._error
            await self._wait()

    async def next(self) -> bytes:
        """What has come of the body since the last time, decompressed; empty at its end. Raises CutError if it ends too early."""
        while True:
            if self._waiting:
                data = self._waiting[0] if len(self._waiting) == 1 else b"".join(self._waiting)
                self._waiting = []
                self._size = 0
                if self._paused and self._connection is not None:
                    self._paused = False
                    self._connection.resume()
                if self._expander is not None:
                    data = self._expand(self._expander, data)
                    if not data:
                        continue
                return data
            if self._error is not None:
                raise self._error
            if self._ended:
                return b""
            await self._wait()

    def close(self) -> None:
        """Leave the reply; if it is not whole, this hangs up, and the engine stops."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()

    async def _wait(self) -> None:
        self._woken = asyncio.get_running_loop().create_future()
        await self._woken

    def _wake(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    def _expand(self, expander: _Expander, data: bytes) -> bytes:
        try:
            return expander.decompress(data)
        except zlib.error as error:
            self._error = CutError(f"the engine's reply is not compressed as it says: {error}")
            raise self._error from error

    # What the connection tells.

    def on_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Status and headers have come."""
        self.status = status
        self.headers = tuple([(name.lower().decode("latin-1"), value.decode("utf-8", "surrogateescape")) for name, value in headers])
        for name, value in self.headers:
            if name == "content-encoding" and value.strip().lower() in ("gzip", "deflate"):
                self._expander = zlib.decompressobj(zlib.MAX_WBITS | 32)
        self._headed = True
        self._wake()

    def on_data(self, data: bytes) -> None:
        """A piece of the body has come."""
        if self.first_byte_at is None:
            self.first_byte_at = time.time()
        self._waiting.append(data)
        self._size += len(data)
        if self._size > _HIGH_WATER and not self._paused and self._connection is not None:
            self._paused = True
            self._connection.pause()
        self._wake()

    def on_end(self) -> None:
        """The reply is whole."""
        self._ended = True
        if self._paused and self._connection is not None:
            self._connection.resume()  # it carries the next reply, whoever reads this one and when
        self._connection = None
        self._wake()

    def on_cut(self, why: str) -> None:
        """No more will come, though it is not whole."""
        self._connection = None
        self._error = CutError(f"the engine {'broke off inside its reply' if self._headed else 'gave no reply'}: {why}")
        self._wake()


@lru_cache(maxsize=64)
def _lines(headers: RequestHeaders) -> bytes:
    """Headers as they are sent; most calls of a session have the same."""
    return "".join([f"{name}: {value}\r\n" for name, value in headers]).encode("utf-8")


class _Expander(Protocol):
    def decompress(self, data: bytes, /) -> bytes: ...


class _Connection(asyncio.Protocol):
    """One connection: it carries one request after another, and is closed as soon as anything is not as it should be."""

    def __init__(self, pool: WirePool, target: Target) -> None:
        self.target = target
        self.last_heard = time.monotonic()
        self._pool = pool
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._reply: WireReply | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._head_size = 0
        self._headed = self._whole = False
        self._until_closed = False

    @property
    def usable(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    @property
    def busy(self) -> bool:
        return self._reply is not None

    def start(self, head: bytes, body: bytes) -> WireReply:
        reply = self._reply = WireReply(self)
        self._headers, self._head_size = [], 0
        self._headed = self._whole = self._until_closed = False
        self._parser = httptools.HttpResponseParser(self)
        self.last_heard = time.monotonic()
        if self._transport is None:
            reply.on_cut("it hung up")
        else:
            self._transport.writelines((head, body))
        return reply

    def pause(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def abort(self, why: str = "it was given up") -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
        self._end_reply(why)
        self._pool.forget(self)

    def _end_reply(self, why: str) -> None:
        reply, self._reply = self._reply, None
        if reply is not None:
            if self._headed and self._until_closed and why == "":
                reply.on_end()
            else:
                reply.on_cut(why or "it hung up")

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but name

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._end_reply("" if exc is None else f"{type(exc).__name__}: {exc}")
        self._pool.forget(self)

    def data_received(self, data: bytes) -> None:
        self.last_heard = time.monotonic()
        if self._parser is None or self._reply is None:
            self.abort()  # nobody asked for this
            return
        if not self._headed:
            self._head_size += len(data)
            if self._head_size > _HEAD_LIMIT:
                self.abort("the head of its reply is too long")
                return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.abort("it changed the protocol")
        except httptools.HttpParserError as error:
            self.abort(f"its reply is not HTTP ({error})")

    # httptools' callbacks

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self._parser is None or self._reply is None:
            return
        status = self._parser.get_status_code()
        if status < 200:
            return  # 100 and 103 announce the real reply
        self._headed = True
        names = {name.lower(): value.lower() for name, value in self._headers}
        self._until_closed = b"content-length" not in names and b"chunked" not in names.get(b"transfer-encoding", b"")
        self._reply.on_head(status, self._headers)

    def on_body(self, data: bytes) -> None:
        if self._reply is not None:
            self._reply.on_data(data)

    def on_message_complete(self) -> None:
        if self._parser is None:
            return
        if not self._headed:  # the end of an announcement
            self._headers = []
            return
        reply, self._reply = self._reply, None
        if self._parser.should_keep_alive() and self.usable:
            self._pool.keep(self)
        elif self._transport is not None:
            self._transport.close()
        if reply is not None:
            reply.on_end()
