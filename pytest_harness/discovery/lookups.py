"""Writes down which hosts a sandbox asked for by name. Everything is answered at once with "there is no such host".

The sandbox has no network, so nothing is lost by that; and it is told where to ask: see ``LAYOUT_FILES``. What connects to an address
without asking for a name is not seen. A program that brings a resolver of its own may ask elsewhere, which is not seen either.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

PORT = 53
LAYOUT_FILES = {
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n",
    "/etc/resolv.conf": "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n",
}
"""What stands in a sandbox in place of its own files, so that names are asked for on loopback."""

_HEADER = 12
_NO_SUCH_NAME = 0x8183  # a response, recursion desired and available, code 3: see RFC 1035, 4.1.1


class Lookups:
    """Answers on a UDP socket, in a thread of its own, until closed. Use it as a context manager.

    ``asked`` is called with each name, on that thread.
    """

    def __init__(self, sock: socket.socket, asked: Callable[[str], None] = lambda _: None) -> None:
        self._socket = sock
        self._asked = asked
        self._names: dict[str, None] = {}
        self._closing = False
        self._thread = threading.Thread(target=self._serve, name="lookups", daemon=True)

    @property
    def names(self) -> tuple[str, ...]:
        """The hosts asked for, in the order of the first question for each."""
        return tuple(self._names)

    def _serve(self) -> None:
        while True:
            packet, sender = self._socket.recvfrom(4096)
            if self._closing:
                return
            asked = asked_name(packet)
            if asked is not None:
                name, end = asked
                self._names[name] = None
                self._asked(name)
                self._socket.sendto(_no_such_name(packet, end), sender)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._closing = True
        with contextlib.suppress(OSError):  # Linux says that it is not connected, and wakes the reader nevertheless
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(timeout=10)
        self._socket.close()


def asked_name(packet: bytes) -> tuple[str, int] | None:
    """The name that a DNS question is about, in lower case, and where the question ends; None for what is no question."""
    if len(packet) < _HEADER or packet[2] & 0x80 or packet[4:6] != b"\0\1":
        return None
    labels, place = [], _HEADER
    while place < len(packet) and (length := packet[place]):
        label = packet[place + 1 : place + 1 + length]
        if length > 63 or len(label) < length:
            return None
        labels.append(label.decode("ascii", "backslashreplace").lower())
        place += 1 + length
    end = place + 5  # the root's empty label, the type and the class
    return (".".join(labels), end) if labels and end <= len(packet) else None


def _no_such_name(packet: bytes, end: int) -> bytes:
    return packet[:2] + _NO_SUCH_NAME.to_bytes(2, "big") + b"\0\1" + bytes(6) + packet[_HEADER:end]
