"""Where a request belongs: which keys it shows, and which dialect its path is of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import parse_qsl

import msgspec

from pytest_harness.capture.dialects import TRANSLATED
from pytest_harness.capture.dialects.base import QUERY, Dialect, Route
from pytest_harness.capture.dialects.chat import Chat
from pytest_harness.capture.relays import CHAT

RawHeaders = list[tuple[bytes, bytes]]

_KEY_HEADERS = frozenset({b"x-api-key", b"x-goog-api-key", b"api-key"})
_IN_PATH = re.compile(r"/[at]/([^/]+)")
_VERSIONS = re.compile(r"(?:/v1)+(?=/v1(?:/|beta/|alpha/))")
_METHODS = ("POST", "GET")
_CALL = Route("call")
_ALL: tuple[Dialect | Chat, ...] = (CHAT, *TRANSLATED)
_COMPLETIONS = frozenset({"/v1/chat/completions", "/chat/completions"})


class Found(msgspec.Struct, frozen=True):
    """A dialect and what its path asks for; None if it has no such route. ``allowed`` are the methods it has, if it has the path."""

    dialect: Dialect | Chat
    route: Route | None
    allowed: str = ""


def keys_of(path: str, query: bytes, headers: RawHeaders) -> Iterator[bytes]:
    """Every key that a request shows: in its headers, in its query, or as ``/t/KEY/…`` or ``/a/KEY/…`` in its path."""
    for name, value in headers:
        if name == b"authorization":
            scheme, _, key = value.strip().partition(b" ")
            if scheme.lower() == b"bearer":
                yield key.strip()
        elif name in _KEY_HEADERS:
            yield value.strip()
    if b"key=" in query:
        for name_text, text in parse_qsl(query.decode("latin-1"), encoding="latin-1"):
            if name_text == "key":
                yield text.encode("latin-1")
    in_path = _IN_PATH.match(path)
    if in_path is not None:
        yield in_path[1].encode("utf-8", "surrogateescape")


def plain_path(path: str) -> str:
    """The path without a key, and with its version once: base URLs with ``/v1`` meet clients that add their own."""
    in_path = _IN_PATH.match(path)
    if in_path is not None:
        path = path[in_path.end() :] or "/"
    return _VERSIONS.sub("", path) if path.startswith("/v1/v1") else path


def find_route(method: str, path: str, query: bytes, headers: RawHeaders) -> Found:
    """The dialect of a path as ``plain_path`` gives it, and what is asked for."""
    if path in _COMPLETIONS and method == "POST":
        return Found(CHAT, _CALL)
    named = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
    if query:
        named[QUERY] = query.decode("latin-1")
    dialects = _likely(path, named)
    for dialect in dialects:
        route = dialect.route(method, path, named)
        if route is not None:
            return Found(dialect, route)
    for dialect in dialects:
        for other in _METHODS:
            if other != method and dialect.route(other, path, named) is not None:
                return Found(dialect, None, "POST" if other == "POST" else "GET, HEAD")
    return Found(dialects[0], None)


def _likely(path: str, headers: Mapping[str, str]) -> list[Dialect | Chat]:
    """All dialects, the one first that a path or a header speaks for; OpenAI's if nothing does."""
    by_name: dict[str, Dialect | Chat] = {dialect.name: dialect for dialect in _ALL}
    if "/messages" in path or "anthropic-version" in headers:
        first = "messages"
    elif "/v1beta" in path or "/v1alpha" in path or "Content" in path or "x-goog-api-key" in headers:
        first = "gemini"
    elif "/responses" in path:
        first = "responses"
    else:
        first = "chat"
    return [by_name.pop(first), *by_name.values()]
