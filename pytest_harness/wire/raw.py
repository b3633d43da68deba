"""Clients that are no SDK: plain HTTP for requests that no SDK would send, and bare sockets for what no HTTP client would."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx

from pytest_harness.wire.adapter import ProxySession
from pytest_harness.wire.exchanges import Exchange, ExchangeLog, client
from pytest_harness.wire.outcome import Broken

TIMEOUT_SEC = 25.0


@dataclass(frozen=True)
class Reply:
    """A reply to a plain request; header names are lower-case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        """The body as JSON. Raises Broken."""
        try:
            return json.loads(self.body)
        except ValueError:
            raise Broken("a JSON body", self.body) from None

    @property
    def events(self) -> list[Any]:
        """The data of the body's server-sent events, as JSON where they are, the closing ``[DONE]`` as text. Raises Broken."""
        found: list[Any] = []
        for event in self.body.replace(b"\r\n", b"\n").split(b"\n\n"):
            data = b"\n".join(line[5:].removeprefix(b" ") for line in event.split(b"\n") if line.startswith(b"data:"))
            if not data:
                continue
            try:
                found.append("[DONE]" if data == b"[DONE]" else json.loads(data))
            except ValueError:
                raise Broken("an event that holds JSON", event) from None
        return found


class Http:
    """Plain HTTP to the proxy, with or without the key of a session."""

    def __init__(self, log: ExchangeLog) -> None:
        self._client = client(httpx, log, timeout=TIMEOUT_SEC)

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def send(self, method: str, url: str, *, headers: Mapping[str, str | bytes] | None = None, body: bytes | None = None) -> Reply:
        """The whole reply. Raises Broken if there is none."""
        try:
            reply = self._client.request(method, url, headers=headers, content=body)
        except httpx.HTTPError as error:
            raise Broken(f"a reply to {method} {url}", f"{type(error).__name__}: {error}") from error
        return Reply(reply.status_code, dict(reply.headers), reply.content)

    def post(self, url: str, document: object, *, key: str | None, headers: Mapping[str, str | bytes] | None = None) -> Reply:
        """Post a document with a key as bearer."""
        told: dict[str, str | bytes] = {"content-type": "application/json", **(headers or {})}
        if key is not None:
            told["authorization"] = f"Bearer {key}".strip()
        return self.send("POST", url, headers=told, body=json.dumps(document).encode())

    @contextmanager
    def stream(self, url: str, document: object, *, key: str) -> Iterator[Iterator[bytes]]:
        """Post a document and give the pieces of the reply's body as they come; leaving the context hangs up."""
        headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
        try:
            with self._client.stream("POST", url, headers=headers, content=json.dumps(document).encode()) as reply:
                if reply.status_code != 200:
                    raise Broken("status 200", f"status {reply.status_code}: {reply.read().decode(errors='replace')}")
                yield reply.iter_raw()
        except httpx.HTTPError as error:
            raise Broken(f"a streamed reply to {url}", f"{type(error).__name__}: {error}") from error


class Wire:
    """A bare connection to the proxy; everything that is sent and received is logged."""

    def __init__(self, session: ProxySession, log: ExchangeLog) -> None:
        address = urlsplit(session.root)
        assert address.hostname is not None
        self._exchange = log.begin(Exchange("a bare connection"))
        try:
            self._socket = socket.create_connection((address.hostname, address.port or 80), timeout=TIMEOUT_SEC)
        except OSError as error:
            raise Broken("a connection to the proxy", f"{type(error).__name__}: {error}") from error
        self._host = address.netloc
        self._rest = b""

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def head(self, method: str, path: str, *headers: str | bytes) -> bytes:
        """A request's head, its last empty line included."""
        lines = [f"{method} {path} HTTP/1.1".encode(), f"host: {self._host}".encode()]
        lines += [each if isinstance(each, bytes) else each.encode() for each in headers]
        return b"\r\n".join([*lines, b"", b""])

    def send(self, data: bytes) -> None:
        """Send bytes. What the proxy no longer takes is not an error here: its reply tells."""
        self._exchange.request_body += data
        try:
            self._socket.sendall(data)
        except OSError:
            return

    def post(self, path: str, document: object, key: str) -> None:
        """Send a request with a document and a bearer key."""
        body = json.dumps(document).encode()
        headers = (f"authorization: Bearer {key}", "content-type: application/json", f"content-length: {len(body)}")
        self.send(self.head("POST", path, *headers) + body)

    def reply(self) -> Reply:
        """The next reply on this connection, read to the end of its body. Raises Broken."""
        head = self._until(b"\r\n\r\n").decode("latin-1")
        status_line, *lines = head.rstrip("\r\n").split("\r\n")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        try:
            status = int(status_line.split(" ")[1])
        except (IndexError, ValueError):
            raise Broken("an HTTP status line", status_line) from None
        if headers.get("transfer-encoding", "").lower() == "chunked":
            body = b""
            while size := int(self._until(b"\r\n"), 16):
                body += self._exactly(size)
                self._exactly(2)
            self._until(b"\r\n")
        else:
            body = self._exactly(int(headers.get("content-length", "0")))
        return Reply(status, headers, body)

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._rest:
            self._receive(f"bytes up to {mark!r}")
        found, _, self._rest = self._rest.partition(mark)
        return found + mark if mark == b"\r\n\r\n" else found

    def _exactly(self, size: int) -> bytes:
        while len(self._rest) < size:
            self._receive(f"{size} bytes of body")
        found, self._rest = self._rest[:size], self._rest[size:]
        return found

    def _receive(self, what: str) -> None:
        try:
            data = self._socket.recv(65536)
        except OSError as error:
            raise Broken(f"{what} from the proxy", f"{type(error).__name__}: {error} after {self._rest!r}") from error
        if not data:
            raise Broken(f"{what} from the proxy", f"the connection was closed after {self._rest!r}")
        self._exchange.reply_body += data
        self._rest += data
