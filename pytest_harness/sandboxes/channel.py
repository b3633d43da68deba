"""A running sandbox as whoever uses it sees it, of whatever kind it is: run commands in it, listen inside it, end it. No Harbor here.

In or around each sandbox there is a keeper, a process that serves one channel (``keeper.py`` has the packets). Commands run as the only
user there is inside, called root, in an environment built from nothing. Background processes survive from command to command and die with
the sandbox. There is no network but loopback; ``listener`` gives a listening socket in it, on which the host may serve.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import IO, Self

from pytest_harness.sandboxes.layout import HOME, HOSTNAME, PATH

BASE_ENV: Mapping[str, str] = {"HOME": HOME, "HOSTNAME": HOSTNAME, "LANG": "C.UTF-8", "PATH": PATH}


class SandboxError(Exception):
    """The sandbox cannot be started or used. The message says why and what to do."""


class SandboxDiedError(SandboxError):
    """The sandbox is gone. What was being done in it has no outcome."""


class Process:
    """A running command. ``control`` becomes readable when it has ended; ``kill`` ends its process group."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control

    def kill(self) -> None:
        """Kill the process group. Its end is reported by ``wait`` as ever. Killing twice is harmless."""
        try:
            self.control.shutdown(socket.SHUT_WR)
        except OSError:
            return

    def wait(self) -> int:
        """The exit status (128 + signal for one that was killed), once there is one. Raises SandboxDiedError."""
        try:
            verb, _, value = self.control.recv(64).decode().partition(":")
        except ConnectionError:
            verb, value = "", ""
        self.control.close()
        if verb != "exit":
            raise SandboxDiedError("the sandbox ended while a command ran in it")
        return int(value)


class RunningSandbox:
    """One running sandbox. Use it as a context manager, or call ``close``. Threads may share it.

    ``keeper`` is a process of this machine that lives as long as the sandbox does.
    """

    def __init__(self, name: str, keeper: subprocess.Popen[bytes], channel: socket.socket) -> None:
        self.name = name
        self._keeper = keeper
        self._channel = channel
        self._lock = threading.Lock()

    def spawn(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str = "/",
        stdin: IO[bytes] | int = subprocess.DEVNULL,
        stdout: IO[bytes] | int = subprocess.DEVNULL,
        stderr: IO[bytes] | int = subprocess.DEVNULL,
    ) -> Process:
        """Start a command; ``argv[0]`` is an absolute path inside, ``env`` is laid over ``BASE_ENV``. Raises SandboxDiedError.

        A descriptor given as a stream can be opened again by everything inside: never give one of a file that must not be written.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        null = os.open(os.devnull, os.O_RDWR)
        streams = [null if s == subprocess.DEVNULL else s if isinstance(s, int) else s.fileno() for s in (stdin, stdout, stderr)]
        try:
            with theirs, _json_file({"argv": list(argv), "env": {**BASE_ENV, **(env or {})}, "cwd": cwd}) as request, self._lock:
                socket.send_fds(self._channel, [b"exec"], [request.fileno(), theirs.fileno(), *streams])
        except OSError:
            ours.close()
            raise SandboxDiedError(f"the sandbox {self.name} is gone; nothing can be run in it any more") from None
        finally:
            os.close(null)
        return Process(ours)

    def listener(self, port: int) -> socket.socket:
        """A TCP socket listening on 127.0.0.1:``port`` inside. The caller owns it. Raises SandboxError if the port is taken."""
        return socket.socket(fileno=self._ask(f"listen:{port}")[0])

    def datagrams(self, port: int) -> socket.socket:
        """A UDP socket on 127.0.0.1:``port`` inside. The caller owns it. Raises SandboxError if the port is taken."""
        return socket.socket(fileno=self._ask(f"datagram:{port}")[0])

    def memory(self) -> int | None:
        """Bytes of memory that all processes inside have together, what they share counted once; None where the kernel does not tell."""
        try:
            with self._lock:
                self._channel.send(b"memory")
                answer = self._channel.recv(64)
        except OSError:
            answer = b""
        if not answer:
            raise SandboxDiedError(f"the keeper of the sandbox {self.name} is gone")
        return int(answer) if answer.isdigit() else None

    def written(self) -> int | None:
        """Bytes that its files take on this machine's disk; None where the kernel sees to it that they stay within their limit."""
        return None

    def close(self) -> None:
        """End everything that runs inside. Returns when it is gone. Closing twice is harmless."""
        self._channel.close()
        self._keeper.wait()

    def remains(self) -> bool:
        """Whether something of it is still there, though no command can be run in it."""
        return False

    def _begin(self, spec: object) -> None:
        """Have the keeper make it ready, and try it. Raises SandboxError, after which nothing is left."""
        try:
            self._ask("start", spec)
            if (code := self.spawn(["/bin/true"]).wait()) != 0:
                raise SandboxError(f"/bin/true ended with {code} in a fresh sandbox")  # noqa: TRY301
        except BaseException:
            self.close()
            raise

    def _ask(self, packet: str, body: object = None) -> list[int]:
        try:
            with self._lock:
                if body is None:
                    self._channel.send(packet.encode())
                else:
                    with _json_file(body) as file:
                        socket.send_fds(self._channel, [packet.encode()], [file.fileno()])
                answer, numbers, _, _ = socket.recv_fds(self._channel, 8192, 1, socket.MSG_CMSG_CLOEXEC)
        except OSError:
            answer, numbers = b"", []
        if not answer:
            raise SandboxDiedError(f"the keeper of the sandbox {self.name} is gone")
        if answer != b"ok":
            raise SandboxError(answer.decode(errors="replace").removeprefix("failed:"))
        return numbers

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _json_file(content: object) -> IO[bytes]:
    file = os.fdopen(os.memfd_create("request"), "wb")
    file.write(json.dumps(content).encode())
    file.flush()
    return file
