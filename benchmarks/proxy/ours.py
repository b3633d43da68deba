"""Our proxy on a loopback port, with two routes to open and close sessions: PORT ENGINE_PORT FOLDER [--durable]."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from pathlib import Path

import uvicorn

from pytest_harness.capture import CaptureProxy, Session, Upstream
from pytest_harness.capture.serve import collecting_rarely
from pytest_harness.capture.sessions import Sessions
from pytest_harness.serving import Receive, Scope, Send


class WithSessions:
    """The proxy and its sessions."""

    def __init__(self, engine: int, folder: Path, *, durable: bool) -> None:
        self._known = Sessions()
        self._proxy = CaptureProxy(sessions=self._known)
        self._durable = durable
        self._upstream = Upstream(url=f"http://127.0.0.1:{engine}", model="m")
        self._folder = folder
        self._folder.mkdir(parents=True, exist_ok=True)
        self._sessions: dict[str, Session] = {}
        self._numbers = itertools.count()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Everything but /sessions is the proxy's."""
        if not scope["path"].startswith("/sessions"):
            await self._proxy(scope, receive, send)
            return
        answer = {}
        if scope["method"] == "POST":
            journal = self._folder / f"{next(self._numbers)}.journal"
            session = self._known.open(self._upstream, journal, durable=self._durable)
            self._sessions[session.key] = session
            answer = {"session_id": session.key}
        else:
            await asyncio.to_thread(self._sessions.pop(scope["path"].rpartition("/")[2]).end)  # as the admin API does
        body = json.dumps(answer).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


if __name__ == "__main__":
    port, engine, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    app = WithSessions(engine, folder / "journals", durable="--durable" in sys.argv)
    config = uvicorn.Config(
        app,
        host="127.0.0.1",
        port=port,
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        http="httptools",
        ws="none",
    )
    with collecting_rarely():  # as the server has it
        uvicorn.Server(config).run()
