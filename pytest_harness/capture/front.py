"""The one port of this machine to which somebody may lead the outside, and the ways from it to the attempts.

The capture proxy listens on loopback, and a sandbox on another machine cannot reach that. The user leads a public URL to the front's port
(a tunnel, a reverse proxy), and the front leads on to the attempts: each has a path of its own below the URL, ``/r/<word>``, whose word is
made by chance and told to its harness alone, and a Unix socket of that name in a folder that only this user can enter. Nothing else can be
reached here: no other path is answered but by 404, and no admin API, engine, or other attempt lies below the path of an attempt.

A tunnel carries the requests of many clients over few connections. So a connection carries one request, and the other side is told so;
bytes pass as they come, in both directions, and the end of one side is the end of the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import socket
import threading
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pytest_harness.owners import temporary_folder
from pytest_harness.serving import ASGIApp, Receive, Scope, Send

HEAD_LIMIT = 1 << 16
"""Bytes that the head of a request may have."""
HEAD_SECONDS = 30.0
"""How long the head of a request may take: whoever connects and says nothing is not waited for."""
_CHUNK = 1 << 16
_LINGER_SECONDS = 2.0
_BACKLOG = 1024
_REQUEST = re.compile(rb"[A-Z]+ (/r/([0-9a-f]{32})(?:[/?][^ ]*)?) HTTP/1\.[01]")
_OF_CONNECTION = frozenset({b"connection", b"keep-alive", b"proxy-connection"})
_NOTHING_HERE = b'{"error": {"message": "There is nothing here.", "code": "not_found"}}'


@dataclass(frozen=True)
class Way:
    """How a sandbox elsewhere reaches this run's attempts. Other processes of the run may use it too."""

    url: str
    """The public URL, without a slash at its end."""
    folder: str
    """Where the sockets of the attempts lie."""

    def door(self) -> Door:
        """The way to one attempt."""
        word = secrets.token_hex(16)
        return Door(f"{self.url}/r/{word}", f"/r/{word}", Path(self.folder, word))


@dataclass(frozen=True)
class Door:
    """The way to one attempt: its public base URL, the path of it that is its own, and the socket behind it."""

    url: str
    path: str
    file: Path

    def listener(self) -> socket.socket:
        """A listening socket, which the caller owns. It is reached from now on."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.bind(str(self.file))
            sock.listen(_BACKLOG)
        except OSError:
            sock.close()
            raise
        return sock

    def below(self, app: ASGIApp) -> ASGIApp:
        """The application as it stands below the path, which it sees nothing of."""
        ours = self.path

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            path: str = scope["path"]
            if path == ours or path.startswith(f"{ours}/"):
                plain = path.removeprefix(ours) or "/"
                await app({**scope, "path": plain, "raw_path": plain.encode()}, receive, send)
            else:
                length = (b"content-length", str(len(_NOTHING_HERE)).encode())
                headers = [(b"content-type", b"application/json"), length]
                await send({"type": "http.response.start", "status": 404, "headers": headers})
                await send({"type": "http.response.body", "body": _NOTHING_HERE, "more_body": False})

        return answer

    def close(self) -> None:
        """Nobody gets in any more. Closing twice is harmless."""
        self.file.unlink(missing_ok=True)


class Front:
    """Listens on 127.0.0.1 until closed; a port 0 is a free one. Use it as a context manager. Raises OSError for a port that is taken."""

    def __init__(self, port: int = 0) -> None:
        self.question = f"/r/{secrets.token_hex(16)}"
        """A path by which to see whether a URL leads here: nobody else can give the ``answer``."""
        self.answer = secrets.token_hex(16)
        self._socket = socket.create_server(("127.0.0.1", port), backlog=_BACKLOG)
        self.port: int = self._socket.getsockname()[1]
        self._open = contextlib.ExitStack()
        self.folder = self._open.enter_context(temporary_folder("front"))
        self._running: tuple[asyncio.AbstractEventLoop, asyncio.Event, threading.Thread] | None = None

    def way(self, url: str) -> Way:
        """The way by a URL that leads here."""
        return Way(url.rstrip("/"), str(self.folder))

    def __enter__(self) -> Self:
        ready = threading.Event()

        async def serve() -> None:
            stop = asyncio.Event()
            self._running = (asyncio.get_running_loop(), stop, thread)
            async with await asyncio.start_server(self._connected, sock=self._socket, limit=HEAD_LIMIT):
                ready.set()
                await stop.wait()

        thread = threading.Thread(target=lambda: asyncio.run(serve()), name="front", daemon=True)
        thread.start()
        ready.wait()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._running is not None:
            loop, stop, thread = self._running
            loop.call_soon_threadsafe(stop.set)
            thread.join(timeout=10)
        self._open.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            async with _closing(writer):
                await self._lead(reader, writer)

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, TimeoutError):
            return
        except asyncio.LimitOverrunError:
            await _say(reader, writer, b"431 Request Header Fields Too Large", _NOTHING_HERE)
            return
        request, *fields = head[:-4].split(b"\r\n")
        match = _REQUEST.fullmatch(request)
        if match is not None and match[1].decode() == self.question:
            await _say(reader, writer, b"200 OK", self.answer.encode())
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as inside:
            inside.setblocking(False)
            try:
                if match is None:
                    raise FileNotFoundError
                await asyncio.get_running_loop().sock_connect(inside, str(self.folder / match[2].decode()))
            except OSError:
                await _say(reader, writer, b"404 Not Found", _NOTHING_HERE)
                return
            kept = [field for field in fields if field.partition(b":")[0].strip().lower() not in _OF_CONNECTION]
            whole = b"\r\n".join([request, *kept, b"connection: close", b"", b""])
            await _first_of(_pass_in(whole, reader, inside), _pass_out(inside, writer))
        await _end(reader, writer)


@contextlib.asynccontextmanager
async def _closing(writer: asyncio.StreamWriter) -> Any:
    try:
        yield
    finally:
        writer.close()


async def _say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, status: bytes, body: bytes) -> None:
    """Answer, and end the connection."""
    head = b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
    writer.write(head % (status, len(body)) + body)
    await writer.drain()
    await _end(reader, writer)


async def _end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """End our side, and read what else is on its way: a connection closed over unread bytes is reset, and the answer lost with it."""
    writer.write_eof()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS):
            await _read_away(reader)


async def _read_away(reader: asyncio.StreamReader) -> None:
    """Read until the other side ends."""
    with contextlib.suppress(OSError):
        while await reader.read(_CHUNK):
            pass


async def _pass_in(head: bytes, reader: asyncio.StreamReader, inside: socket.socket) -> None:
    """Pass the request on until the client leaves. An attempt may answer and close before it has read all: its answer is still to come."""
    loop = asyncio.get_running_loop()
    with contextlib.suppress(OSError):
        await loop.sock_sendall(inside, head)
        while data := await reader.read(_CHUNK):
            await loop.sock_sendall(inside, data)
    await _read_away(reader)


async def _pass_out(inside: socket.socket, writer: asyncio.StreamWriter) -> None:
    """Pass the answer on until the attempt ends it. It is read from the socket itself: a stream drops it when a write has failed."""
    loop = asyncio.get_running_loop()
    with contextlib.suppress(OSError):
        while data := await loop.sock_recv(inside, _CHUNK):
            writer.write(data)
            await writer.drain()


async def _first_of(*courses: Coroutine[Any, Any, None]) -> None:
    """Wait for one of them, and end the others; none runs when this returns."""
    tasks = [asyncio.create_task(course) for course in courses]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
