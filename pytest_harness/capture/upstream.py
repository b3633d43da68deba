"""The way to the engine: where it is, and a keep-alive client that tells an engine that is not there from one that broke off.

The client keeps nothing of one session that another could see: no cookies, no redirects, no retries.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import aiohttp

_CONNECT_SECONDS = 30
_SILENCE_SECONDS = 900
_IDLE_SECONDS = 3
"""An idle connection is given up after this time: vLLM's server closes its side after 5 s, and a request must not meet that."""


class UpstreamError(Exception):
    """An engine that cannot be addressed as asked; the message says why and what to do."""


class UnreachableError(Exception):
    """No connection to the engine came about."""


class CutError(Exception):
    """The engine broke off before its reply was whole."""


@dataclass(frozen=True, kw_only=True)
class Upstream:
    """An engine: its base URL (``/v1`` is added to one without a path), the name of the model it serves, and its key."""

    url: str
    model: str
    api_key: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Raises UpstreamError for a URL that is not plain HTTP or that carries credentials, and for a key that fits in no header."""
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UpstreamError(f"the engine's URL {self.url!r} is not an HTTP URL; write it like http://127.0.0.1:8000/v1")
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


class UpstreamReply:
    """A reply of which the head has come. ``headers`` are in order, repeated ones apart."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.status = response.status
        self.headers = tuple((name.lower(), value) for name, value in response.headers.items())
        self.content_type = response.headers.get("content-type", "")
        self._response = response

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body, decompressed, in the pieces in which it comes. Raises CutError if it ends too early."""
        try:
            async for chunk in self._response.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise CutError(f"the engine broke off inside its reply: {_reason(error)}") from error


class UpstreamClient:
    """Posts to engines. The connections it makes on an event loop are closed when that loop's runner ends."""

    def __init__(self) -> None:
        self._by_loop: dict[asyncio.AbstractEventLoop, tuple[aiohttp.ClientSession, asyncio.Task[None]]] = {}

    @asynccontextmanager
    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> AsyncIterator[UpstreamReply]:
        """Send a request and wait for the head of its reply; leaving early cancels the engine's work.

        Raises UnreachableError or CutError.
        """
        try:
            response = await self._session().post(url, data=body, headers=headers, allow_redirects=False)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise UnreachableError(f"no connection to the engine: {_reason(error)}") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise CutError(f"the engine gave no reply: {_reason(error)}") from error
        try:
            yield UpstreamReply(response)
        finally:
            response.close()  # a no-op once the reply is read to its end; otherwise it hangs up, and the engine stops

    def _session(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        if loop not in self._by_loop:
            self._by_loop = {known: kept for known, kept in self._by_loop.items() if not known.is_closed()}
            session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_SECONDS),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=_SILENCE_SECONDS),
                skip_auto_headers=("user-agent", "accept", "accept-encoding", "content-type"),
                max_line_size=1 << 16,
                max_field_size=1 << 16,
                read_bufsize=1 << 18,
            )
            self._by_loop[loop] = session, loop.create_task(_close_with_the_loop(session))
        return self._by_loop[loop][0]


async def _close_with_the_loop(session: aiohttp.ClientSession) -> None:
    async with session:
        await asyncio.Event().wait()


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
