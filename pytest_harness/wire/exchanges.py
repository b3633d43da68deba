"""What was said between a client and the proxy in one test, as bytes, for the findings.

The vendors' SDKs stand on httpx or its fork httpx2, which have the same transports: the one made here keeps a copy of what passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

KEPT_BYTES = 6000
"""How much of each body a finding shows."""


@dataclass
class Exchange:
    """One request and as much of its reply as has come."""

    request_line: str
    request_headers: list[tuple[str, str]] = field(default_factory=list)
    request_body: bytes = b""
    status: int | None = None
    reply_headers: list[tuple[str, str]] = field(default_factory=list)
    reply_body: bytearray = field(default_factory=bytearray)

    def to_document(self, secrets: tuple[str, ...]) -> dict[str, Any]:
        """As JSON, without the secrets, its bodies cut at KEPT_BYTES."""

        def told(data: bytes | bytearray | str) -> str:
            text = data if isinstance(data, str) else bytes(data[:KEPT_BYTES]).decode("utf-8", "backslashreplace")
            for secret in secrets:
                text = text.replace(secret, "<redacted>")
            return text if isinstance(data, str) or len(data) <= KEPT_BYTES else f"{text}… ({len(data)} bytes)"

        return {
            "request": told(self.request_line),
            "request_headers": [[name, told(value)] for name, value in self.request_headers],
            "request_body": told(self.request_body),
            "status": self.status,
            "reply_headers": [[name, told(value)] for name, value in self.reply_headers],
            "reply_body": told(self.reply_body),
        }


class ExchangeLog:
    """The exchanges of one test, in order. Secrets named to it are in none of its documents."""

    def __init__(self) -> None:
        self._exchanges: list[Exchange] = []
        self.secrets: set[str] = set()

    def begin(self, exchange: Exchange) -> Exchange:
        """Keep this one; what is learned later is filled in."""
        self._exchanges.append(exchange)
        return exchange

    def clear(self) -> None:
        """Forget what was said so far."""
        self._exchanges.clear()

    @property
    def last_reply(self) -> bytes:
        """The body of the last reply, as far as it was read."""
        return bytes(self._exchanges[-1].reply_body) if self._exchanges else b""

    @property
    def last_reply_headers(self) -> dict[str, str]:
        """The headers of the last reply, their names in lower case."""
        return {name.lower(): value for name, value in self._exchanges[-1].reply_headers} if self._exchanges else {}

    def documents(self, last: int = 3) -> list[dict[str, Any]]:
        """The last few, as JSON."""
        secrets = tuple(sorted(self.secrets, key=len, reverse=True))
        return [each.to_document(secrets) for each in self._exchanges[-last:]]


def client(library: Any, log: ExchangeLog, **options: Any) -> Any:
    """A ``library.Client`` (httpx or httpx2) for plain HTTP that keeps what it says in the log and looks at no proxy settings."""

    class Recorded(library.SyncByteStream):  # type: ignore[misc]
        def __init__(self, stream: Any, kept: bytearray) -> None:
            self._stream = stream
            self._kept = kept

        def __iter__(self) -> Iterator[bytes]:
            for part in self._stream:
                self._kept += part
                yield part

        def close(self) -> None:
            self._stream.close()

    class Recording(library.HTTPTransport):  # type: ignore[misc]
        def handle_request(self, request: Any) -> Any:
            exchange = Exchange(f"{request.method} {request.url}", list(request.headers.items()), request.read())
            log.begin(exchange)
            response = super().handle_request(request)
            exchange.status = response.status_code
            exchange.reply_headers = list(response.headers.items())
            response.stream = Recorded(response.stream, exchange.reply_body)
            return response

    limits = library.Limits(max_keepalive_connections=8)
    return library.Client(transport=Recording(limits=limits, verify=False, trust_env=False), trust_env=False, **options)
