"""Runs an ASGI application on loopback in a background thread, on as many listening sockets as it is given.

The capture proxy and the embedded engine both stand on this. One thread and one event loop serve all sockets of a server; a
socket made inside another network namespace works like any other (a socket belongs for ever to the namespace it was made in).
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
import threading
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import uvicorn
import uvloop

Scope = MutableMapping[str, Any]
Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

_BACKLOG = 1024
_TICK_SEC = 1.0
"""How often uvicorn tells the date anew."""


class _Server(uvicorn.Server):
    """Leaves when it is told to, where uvicorn looks ten times a second and then waits for connections that may not be there.

    A rollout starts three of them, and the tests a thousand.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._told = asyncio.Event()

    def leave(self) -> None:
        """To be called on the server's loop."""
        self.should_exit = self.force_exit = True
        self._told.set()

    async def main_loop(self) -> None:
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._told.wait(), _TICK_SEC)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self.server_state.connections or self.server_state.tasks:
            await super().shutdown(sockets)
            return
        for server in self.servers:
            server.close()
        for sock in sockets or []:
            sock.close()
        for server in self.servers:
            await server.wait_closed()


class Listener:
    """One listening socket of a server. ``url`` is its base URL, without a path; of a Unix socket ``http+unix://`` and its quoted path."""

    def __init__(self, url: str, leave: Callable[[], object], serving: Future[None]) -> None:
        self.url = url
        self._leave = leave
        self._serving = serving

    def leave(self) -> None:
        """Begin to close, without waiting for it."""
        if not self._serving.done():
            self._leave()

    def close(self) -> None:
        """Stop listening and cut what is still being served here. Closing twice is harmless."""
        self.leave()
        self._serving.result(timeout=10)


class BackgroundServer:
    """Serves ``app`` until closed. Use it as a context manager, or call ``start`` and ``close``."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._listeners: list[Listener] = []

    def start(self) -> Self:
        """Start the thread. It does not listen anywhere yet."""
        ready = threading.Event()

        def run() -> None:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                self._loop = runner.get_loop()
                ready.set()
                self._loop.run_forever()

        self._thread = threading.Thread(target=run, name=f"serving {type(self._app).__name__}", daemon=True)
        self._thread.start()
        ready.wait()
        return self

    def listen(self, sock: socket.socket | None = None, app: ASGIApp | None = None) -> Listener:
        """Serve on ``sock``, or on a free loopback port; there ``app`` instead, if it is given. The server owns the socket from now on."""
        if self._loop is None:
            raise RuntimeError("start the server before it can listen")
        if sock is None:
            sock = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
        url = _url(sock)
        config = uvicorn.Config(
            app or self._app, lifespan="off", log_config=None, access_log=False, proxy_headers=False, http="httptools", ws="none"
        )
        server = _Server(config)
        serving = self.submit(server.serve(sockets=[sock]))
        listener = Listener(url, functools.partial(self._loop.call_soon_threadsafe, server.leave), serving)
        self._listeners.append(listener)
        return listener

    def submit[T](self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on the server's loop."""
        if self._loop is None:
            raise RuntimeError("start the server before giving it work")
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def close(self) -> None:
        """Stop listening, cut what is still being served, and end the thread. Closing twice is harmless."""
        if self._loop is None or self._thread is None:
            return
        for listener in self._listeners:
            listener.leave()
        for listener in self._listeners:
            listener.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)
        self._loop = self._thread = None
        self._listeners.clear()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _url(sock: socket.socket) -> str:
    """The base URL of a listening socket, as requests-unixsocket and others write it for Unix sockets."""
    if sock.family == socket.AF_UNIX:
        return f"http+unix://{quote(sock.getsockname(), safe='')}"
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if sock.family == socket.AF_INET6 else f"http://{host}:{port}"
