"""Stands before the capture proxy while channels are tried out, and writes down by which of them each request came.

Each channel has a port of its own and each variable that takes a key has a key of its own, so the request itself says which of the many
things that were set has moved it. Behind this the request has the session's key, wherever its own stood.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from pytest_harness.capture.routing import find_route, plain_path
from pytest_harness.serving import ASGIApp, Event, Receive, Scope, Send

_KEY_HEADERS = (b"authorization", b"x-api-key", b"x-goog-api-key", b"api-key")


@dataclass(frozen=True)
class Request:
    """One request as it came."""

    channel: str
    """The channel whose address it went to."""
    method: str
    path: str
    """Without the query."""
    dialect: str
    model_call: bool
    """Whether it asks for a completion by its route."""
    key: str | None
    """The name of the key that it showed; None where it showed none of ours."""
    key_header: str | None
    """Where it showed it: the header's name, ``query`` where it stands in the URL."""
    answered: bool = False
    """Whether it is a model call that got a whole reply with status 200."""


class Watch:
    """The application in front of ``proxy``; ``ports`` names the channel of each port, ``keys`` each key.

    ``answered`` is called after each model call that got a reply with status 200, on the server's thread.
    """

    def __init__(
        self, proxy: ASGIApp, session_key: str, *, ports: Mapping[int, str], keys: Mapping[str, str], answered: Callable[[], None]
    ) -> None:
        self._proxy = proxy
        self._authorization = b"Bearer " + session_key.encode()
        self._ports = ports
        self._keys = {key.encode(): name for name, key in keys.items()}
        self._answered = answered
        self.requests: list[Request] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Write one request down and pass it on."""
        if scope["type"] != "http":
            return
        path, query = plain_path(scope["path"]), scope["query_string"]
        found = find_route(scope["method"], path, query, scope["headers"])
        key, header = self._shown(scope["headers"], query)
        model_call = found.route is not None and found.route.kind == "call"
        channel = self._ports.get(scope["server"][1], "")
        number = len(self.requests)
        self.requests.append(Request(channel, scope["method"], path, found.dialect.name, model_call, key, header))

        def answered() -> None:
            self.requests[number] = replace(self.requests[number], answered=True)
            self._answered()

        passed = {**scope, "headers": self._with_our_key(scope["headers"])}
        await self._proxy(passed, receive, _Listening(send, answered) if model_call else send)

    def _shown(self, headers: Iterable[tuple[bytes, bytes]], query: bytes) -> tuple[str | None, str | None]:
        for name, value in headers:
            if name in _KEY_HEADERS:
                shown = self._keys.get(value.strip().rpartition(b" ")[2])
                if shown is not None:
                    return shown, name.decode()
        return next(((name, "query") for key, name in self._keys.items() if key in query), (None, None))

    def _with_our_key(self, headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        return [*((name, value) for name, value in headers if name not in _KEY_HEADERS), (b"authorization", self._authorization)]


class _Listening:
    """Passes a reply on and says when a good one is over."""

    def __init__(self, send: Send, answered: Callable[[], None]) -> None:
        self._send = send
        self._answered = answered
        self._good = False

    async def __call__(self, event: Event) -> None:
        if event["type"] == "http.response.start":
            self._good = event["status"] == 200
        await self._send(event)
        if event["type"] == "http.response.body" and not event.get("more_body") and self._good:
            self._answered()


def new_keys(names: Iterable[str]) -> dict[str, str]:
    """A key for each of these names, of the form that OpenAI's have."""
    return {name: f"sk-hc-{secrets.token_urlsafe(24)}" for name in names}
