"""What the stack alone costs on this machine: our server and our client to the engine with nothing between them. PORT ENGINE_PORT.

Bytes go through as they come; nothing is authenticated, read, kept or cut. No proxy on this stack can be faster.
"""

from __future__ import annotations

import sys

import uvicorn

from pytest_harness.capture import Upstream
from pytest_harness.capture.serve import collecting_rarely
from pytest_harness.capture.upstream import UpstreamClient
from pytest_harness.serving import Receive, Scope, Send


class Bare:
    """Passes everything on."""

    def __init__(self, engine: int) -> None:
        self._upstream = Upstream(url=f"http://127.0.0.1:{engine}", model="m")
        self._client = UpstreamClient()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        body = b""
        while True:
            event = await receive()
            body += event["body"]
            if not event["more_body"]:
                break
        reply = await self._client.post(self._upstream.completions, self._upstream.headers(), body)
        wanted = [(name.encode(), value.encode()) for name, value in reply.headers if name in ("content-type", "content-length")]
        await send({"type": "http.response.start", "status": reply.status, "headers": wanted})
        while piece := await reply.next():
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


if __name__ == "__main__":
    config = uvicorn.Config(
        Bare(int(sys.argv[2])),
        host="127.0.0.1",
        port=int(sys.argv[1]),
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        http="httptools",
        ws="none",
    )
    with collecting_rarely():
        uvicorn.Server(config).run()
