"""The little of HTTP that the engine needs, on bare ASGI: read a JSON body, send a body, notice that the client has gone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_harness.engines.scripted.request import read_json
from pytest_harness.engines.scripted.wire import dump
from pytest_harness.serving import Receive, Scope, Send


def request_headers(scope: Scope) -> dict[str, str]:
    """The request's headers, names in lower case."""
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


async def read_body(scope: Scope, receive: Receive) -> dict[str, Any]:
    """The request's JSON object. Raises RequestError if it is none."""
    raw = b""
    while True:
        event = await receive()
        raw += event.get("body", b"")
        if event["type"] == "http.disconnect" or not event.get("more_body"):
            return read_json(raw, request_headers(scope).get("content-type"))


async def disconnected(receive: Receive) -> None:
    """Return when the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def send_json(send: Send, status: int, document: Any, headers: Mapping[str, str] | None = None, *, cut: bool = False) -> None:
    """Send a JSON document."""
    await send_body(send, status, dump(document), {"content-type": "application/json", **(headers or {})}, cut=cut)


async def send_body(send: Send, status: int, body: bytes, headers: Mapping[str, str], *, cut: bool = False) -> None:
    """Send a whole body, or with ``cut`` half of it; the server then closes the connection."""
    told = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": [*told, (b"content-length", str(len(body)).encode())]})
    await send({"type": "http.response.body", "body": body[: len(body) // 2] if cut else body, "more_body": cut})
