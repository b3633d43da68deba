"""The way to the engine: where it is, and clients that tell an engine that is not there from one that broke off.

Plain HTTP goes over connections of our own (``wire.py``), anything else over aiohttp. Neither keeps anything of one session that another
could see: no cookies, no redirects, no retries.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from pytest_harness.capture.wire import CutError, RequestHeaders, Target, UnreachableError, WirePool

if TYPE_CHECKING:
    import aiohttp

    from pytest_harness.capture.guard import Guard

__all__ = ["CutError", "UnreachableError", "Upstream", "UpstreamClient", "UpstreamError", "UpstreamReply"]

_CONNECT_SECONDS = 30
_SILENCE_SECONDS = 900
_IDLE_SECONDS = 3
"""An idle connection is given up after this time: vLLM's server closes its side after 5 s, and a request must not meet that."""


class UpstreamError(Exception):
    """An engine that cannot be addressed as asked; the message says why and what to do."""


def without_credentials(url: str) -> str:
    """A URL for people to read, which need not be a valid one: what stands before an ``@`` may be a password, and is left out."""
    before, at, rest = url.rpartition("@")
    scheme, mark, _ = before.partition("://")
    return f"{scheme}{mark}***@{rest}" if at and mark else f"***@{rest}" if at else url


@dataclass(frozen=True, kw_only=True)
class Upstream:
    """An engine: its base URL (``/v1`` is added to one without a path), the name of the model it serves, and its key.

    ``buffered`` says that its streams lose ids: it is asked for whole replies, and streams are made of them here. Which of the two was
    done for a call shows in the request as forwarded.
    """

    url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    buffered: bool = False
    guard: Guard | None = field(default=None, repr=False, compare=False)
    """What notices that it returns less than it did; None where it lives no longer than its session."""

    def __post_init__(self) -> None:
        """Raises UpstreamError for a URL that is not plain HTTP or that carries credentials, and for a key that fits in no header."""
        try:
            parts = urlsplit(self.url)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError as error:  # a bracket without its other, a port that is no number
            reason = "" if "@" in self.url else f" ({error})"  # it quotes what it cannot read
            shown = without_credentials(self.url)
            raise UpstreamError(f"the engine's URL {shown!r} is not a URL{reason}; write it like http://127.0.0.1:8000/v1") from None
        if not usable:
            shown = without_credentials(self.url)
            raise UpstreamError(f"the engine's URL {shown!r} is not an HTTP URL; write it like http://127.0.0.1:8000/v1")
        if parts.username is not None or parts.password is not None:
            raise UpstreamError("the engine's URL carries credentials; give them as api_key")
        if parts.query or parts.fragment:
            raise UpstreamError(f"the engine's URL {self.url!r} has a query or a fragment; give the base URL alone")
        if self.api_key is not None and not self.api_key.isprintable():
            raise UpstreamError("the engine's key has line ends or other control characters; give it without them")

    def endpoint(self, path: str) -> str:
        """The URL of a route such as ``/chat/completions``."""
        base = self.url.rstrip("/")
        return f"{base}{path}" if urlsplit(base).path else f"{base}/v1{path}"

    @cached_property
    def completions(self) -> str:
        """The URL of the chat-completions route."""
        return self.endpoint("/chat/completions")

    def headers(self, *, streamed: bool = False) -> RequestHeaders:
        """What a request to it carries; the same object for the same wish."""
        return self._streamed_headers if streamed else self._whole_headers

    @cached_property
    def _streamed_headers(self) -> RequestHeaders:
        return self._headers("text/event-stream")

    @cached_property
    def _whole_headers(self) -> RequestHeaders:
        return self._headers("application/json")

    def _headers(self, accept: str) -> RequestHeaders:
        key = () if self.api_key is None else (("authorization", f"Bearer {self.api_key}"),)
        told = (("accept", accept), ("accept-encoding", "identity"), ("content-type", "application/json"))
        return (*told, ("user-agent", "harness-conformance"), *key)

    @cached_property
    def tokenize(self) -> str:
        """The URL of vLLM's route that counts tokens; it stands beside ``/v1``."""
        return self.endpoint("").removesuffix("/v1") + "/tokenize"


class UpstreamReply(Protocol):
    """A reply of which the head has come. ``headers`` are in order, their names lower-case, repeated ones apart."""

    status: int
    headers: tuple[tuple[str, str], ...]
    first_byte_at: float | None
    """When the first byte of the body came, in Unix seconds."""

    async def next(self) -> bytes:
        """What has come of the body since the last time, decompressed; empty at its end. Raises CutError if it ends too early."""
        ...

    def close(self) -> None:
        """Leave the reply; if it is not read to its end, this hangs up, and the engine stops."""
        ...


class UpstreamClient:
    """Posts to engines. The connections it makes on an event loop are closed when that loop's runner ends."""

    def __init__(self) -> None:
        self._targets: dict[str, Target | None] = {}
        self._pools: dict[asyncio.AbstractEventLoop, tuple[WirePool, asyncio.Task[None]]] = {}
        self._others: dict[asyncio.AbstractEventLoop, tuple[aiohttp.ClientSession, asyncio.Task[None]]] = {}

    async def post(self, url: str, headers: RequestHeaders, body: bytes) -> UpstreamReply:
        """Send a request and wait for the head of its reply. Raises UnreachableError or CutError."""
        if url not in self._targets:
            self._targets[url] = Target.of(url)
        target = self._targets[url]
        if target is None:
            return await _post_by_aiohttp(self._session(), url, headers, body)
        return await self._pool().post(target, headers, body)

    def _pool(self) -> WirePool:
        loop = asyncio.get_running_loop()
        if loop not in self._pools:
            self._pools = {known: kept for known, kept in self._pools.items() if not known.is_closed()}
            pool = WirePool(connect_seconds=_CONNECT_SECONDS, silence_seconds=_SILENCE_SECONDS, idle_seconds=_IDLE_SECONDS)
            self._pools[loop] = pool, loop.create_task(pool.close_with_the_loop())
        return self._pools[loop][0]

    def _session(self) -> aiohttp.ClientSession:
        import aiohttp  # noqa: PLC0415  it takes long to import, and most engines are reached without it

        loop = asyncio.get_running_loop()
        if loop not in self._others:
            self._others = {known: kept for known, kept in self._others.items() if not known.is_closed()}
            session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_SECONDS),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=_SILENCE_SECONDS),
                skip_auto_headers=("user-agent", "accept", "accept-encoding", "content-type"),
                max_line_size=1 << 16,
                max_field_size=1 << 16,
                read_bufsize=1 << 18,
                trust_env=True,
            )
            self._others[loop] = session, loop.create_task(_close_with_the_loop(session))
        return self._others[loop][0]


class _AiohttpReply:
    """A reply that came over aiohttp."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.status = response.status
        self.headers = tuple((name.lower(), value) for name, value in response.headers.items())
        self.first_byte_at: float | None = None
        self._response = response

    async def next(self) -> bytes:
        import aiohttp  # noqa: PLC0415

        try:
            data = await self._response.content.readany()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise CutError(f"the engine broke off inside its reply: {_reason(error)}") from error
        if data and self.first_byte_at is None:
            self.first_byte_at = time.time()
        return data

    def close(self) -> None:
        self._response.close()


async def _post_by_aiohttp(session: aiohttp.ClientSession, url: str, headers: RequestHeaders, body: bytes) -> UpstreamReply:
    import aiohttp  # noqa: PLC0415

    try:
        return _AiohttpReply(await session.post(url, data=body, headers=headers, allow_redirects=False))
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        raise UnreachableError(f"no connection to the engine: {_reason(error)}") from error
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise CutError(f"the engine gave no reply: {_reason(error)}") from error


async def _close_with_the_loop(session: aiohttp.ClientSession) -> None:
    async with session:
        await asyncio.Event().wait()


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
