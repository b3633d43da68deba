"""What a dialect is: how a harness's request becomes a chat-completions request, and how the engine's reply goes back.

The engine is always asked on its chat-completions route, the only one that gives ids and logprobs for every kind of turn. A dialect is
pure: documents and bytes in, documents and bytes out; it knows no network, no clock but what it is given, and nothing of capture. The
exchange adds what the capture needs to the request and takes it out of the reply before the dialect sees it.

What a dialect can say and chat completions cannot is carried over or refused with the dialect's own error: never dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from pytest_harness.evidence import Dialect as DialectName

RouteKind = Literal["call", "count", "models", "model", "probe"]
Framing = Literal["sse", "json"]
QUERY = ":query"
"""Under this name, which no header can have, the headers given to ``route`` carry the request's raw query string."""


class RefusalError(Exception):
    """A request that does not go to the engine; the message is for the harness, ``status`` is 4xx."""

    def __init__(self, message: str, param: str | None = None, *, status: int = 400) -> None:
        super().__init__(message)
        self.param = param
        self.status = status


class MalformedReplyError(Exception):
    """A reply of the engine's with status 200 that is none; the message says what was wrong. ``Reply`` may raise it anywhere."""


@dataclass(frozen=True)
class Route:
    """What a path asks for. ``call`` is a model call and is recorded; the others are answered as the vendor does and are never calls."""

    kind: RouteKind
    model: str | None = None
    """The model named in the path, where the dialect names it there."""
    streamed: bool | None = None
    """Whether a stream is asked for, where the dialect says it in the path; None where the body says it."""
    framing: Framing = "sse"
    """What a stream is: ``text/event-stream``, or ``json``: one ``application/json`` array that grows (Gemini without ``alt=sse``), in
    which a keep-alive is white space instead of a comment."""


@dataclass(frozen=True)
class Prepared:
    """A request as chat completions say it.

    ``chat`` has no capture fields and its ``model`` is replaced by the exchange. ``stream`` is not in it: ``streamed`` says it.
    """

    chat: dict[str, Any]
    streamed: bool
    notes: tuple[str, ...] = ()
    """What the request says and the engine is not told though it might matter, a sentence each; recorded with the call."""


class Reply(Protocol):
    """Turns the engine's reply to one call into the dialect's. One for each call; a stream is told chunk by chunk.

    A stream's bytes are ``opening()``, then ``chunk()`` for each chunk in order, then ``closing()`` after the engine's last chunk. What
    ``closing`` returns is held back until the journal has the call, so the events that end the turn belong there.
    """

    def whole(self, completion: Mapping[str, Any]) -> bytes:
        """The body of a reply that was not streamed."""
        ...

    def opening(self) -> bytes:
        """The events before the first chunk; may be empty."""
        ...

    def chunk(self, chunk: Mapping[str, Any]) -> bytes:
        """The events of one ``chat.completion.chunk``; may be empty."""
        ...

    def closing(self) -> bytes:
        """The events that end the stream."""
        ...

    def error_event(self, status: int, message: str) -> bytes:
        """An error inside a stream that has begun: the vendor's SDK must raise it."""
        ...


class Dialect(Protocol):
    """One wire dialect."""

    name: DialectName

    def route(self, method: str, path: str, headers: Mapping[str, str]) -> Route | None:
        """What this path asks for, None if it is none of this dialect's.

        ``path`` has no query and may be percent-encoded; header names are lower-case, and ``QUERY`` is among them where there is a query.
        """
        ...

    def prepare(self, body: bytes, route: Route, *, created: float) -> tuple[Prepared, Reply]:
        """The request for the engine, and what turns its reply back. ``created`` is Unix seconds. Raises RefusalError."""
        ...

    def error(self, status: int, message: str, *, code: str | None = None, param: str | None = None) -> bytes:
        """The body of an error in the vendor's shape."""
        ...

    def upstream_error(self, status: int, body: bytes) -> bytes:
        """An error of the engine, which has OpenAI's shape or any other, in this dialect's: its message, type and code survive."""
        ...

    def answer(self, route: Route, *, model: str, created: float, tokens: int | None) -> bytes:
        """The body for a route that is no call. ``tokens`` is the count for ``count``. Raises RefusalError, e.g. 404 for another model."""
        ...
