"""Our proxy on a loopback port, with two routes to open and close sessions: PORT ENGINE_PORT FOLDER [--durable]."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from pathlib import Path

import uvicorn

from pytest_harness.capture import CaptureProxy, Session, Upstream
from pytest_harness.serving import Receive, Scope, Send


class WithSessions:
    """The proxy and its sessions."""

    def __init__(self, engine: int, folder: Path) -> None:
        self._proxy = CaptureProxy()
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
            session = self._proxy.open_session(self._upstream, self._folder / f"{next(self._numbers)}.journal")
            self._sessions[session.key] = session
            answer = {"session_id": session.key}
        else:
            await asyncio.to_thread(self._sessions.pop(scope["path"].rpartition("/")[2]).close)
        body = json.dumps(answer).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


if __name__ == "__main__":
    port, engine, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    app = WithSessions(engine, folder / "journals")
    uvicorn.run(
        app, host="127.0.0.1", port=port, lifespan="off", log_config=None, access_log=False, http="httptools", loop="uvloop", ws="none"
    )
