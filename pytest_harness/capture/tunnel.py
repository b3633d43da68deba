"""The way from a public URL to the front: one that the user leads there, or one that a command of the user's makes.

Which of the URLs that a command prints is the right one is not guessed: it is the one that leads to the front.
"""

from __future__ import annotations

import contextlib
import queue
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from pytest_harness.capture.front import Front

PORT = "{port}"
"""What stands in a command for the port that it is to lead to."""
READY_SECONDS = 90.0
"""How long a command may take to print a URL that leads to the front; a new name takes a while to be known everywhere."""
ASK_SECONDS = 10.0
_PAUSE_SECONDS = 0.5
_STOP_SECONDS = 10.0
_SHOWN = 300
_URL = re.compile(r"https?://[A-Za-z0-9.\-\[\]:]+(?:/[^\s\"'|<>]*)?")

_KEEP = """\
import ctypes, os, signal, subprocess, sys, threading
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: what loses its parent becomes a child of this process
child = subprocess.Popen(sys.argv[1], shell=True, stdin=subprocess.DEVNULL, start_new_session=True)
def end(number):
    try:
        os.killpg(child.pid, number)
    except ProcessLookupError:
        pass
def watch():
    sys.stdin.buffer.read()
    end(signal.SIGTERM)
    threading.Timer(5, end, [signal.SIGKILL]).start()
threading.Thread(target=watch, daemon=True).start()
code = child.wait()
end(signal.SIGKILL)
try:
    while True:
        os.waitpid(-child.pid, 0)
except ChildProcessError:
    os._exit(code if 0 <= code < 256 else 1)
"""
"""Runs the command in a group of its own and ends all of it when standard input ends, however the process that holds it ended.

It ends only when nothing of the group is left: a process that was killed holds its port until it has gone.
"""


class TunnelError(Exception):
    """A URL that does not lead to the front; the message says what is wrong and what to do."""


def check_url(url: str) -> str:
    """The URL as a base, without a slash at its end. Raises TunnelError for what cannot be one."""
    parts = urlsplit(url)
    with contextlib.suppress(ValueError):  # of a port that is no number
        if parts.scheme in {"http", "https"} and parts.hostname and not parts.query and not parts.fragment and not parts.username:
            _ = parts.port
            return url.rstrip("/")
    raise TunnelError(f"--public-url {url!r} is no base URL; write it as https://HOST or https://HOST/PATH")


def fault_of(url: str, front: Front) -> str | None:
    """Why a URL does not lead to the front; None if it does. It is asked over the network."""
    try:
        reply = httpx.get(f"{url}{front.question}", timeout=ASK_SECONDS)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return f"it cannot be reached ({error or type(error).__name__})"
    if reply.status_code != httpx.codes.OK:
        return f"it answers {reply.status_code}"
    return None if reply.text == front.answer else "somebody else answers there"


def require_url(url: str, front: Front) -> None:
    """Raises TunnelError where a URL of the user's does not lead to the front."""
    if fault := fault_of(url, front):
        raise TunnelError(
            f"--public-url {url} does not lead here: {fault}; lead it to 127.0.0.1:{front.port} on this machine (--public-port chooses "
            "another port), with the path below it as it is"
        )


@contextlib.contextmanager
def tunnel(
    command: str, front: Front, log: Path, *, ready_seconds: float = READY_SECONDS, waiting: Callable[[float], None] = lambda _: None
) -> Iterator[str]:
    """The URL that a command makes lead to the front; it runs as long as the context lasts.

    ``waiting`` is told how many seconds it has taken. Raises TunnelError.
    """
    if PORT not in command:
        raise TunnelError(f"--tunnel {command!r} does not say what it leads to; write {PORT} where the port of this machine belongs")
    log.parent.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", _KEEP, command.replace(PORT, str(front.port))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        lines = _read(process, log)
        yield _found(process, lines, front, command, log, ready_seconds, waiting)
    finally:
        _end(process)


def _read(process: subprocess.Popen[bytes], log: Path) -> queue.SimpleQueue[str]:
    """What it prints, line by line, as long as it runs; it lies in the log too."""
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    assert process.stdout is not None
    output = process.stdout

    def read() -> None:
        with output, log.open("wb") as file:
            for line in output:
                file.write(line)
                file.flush()
                lines.put(line.decode(errors="replace"))

    threading.Thread(target=read, name="tunnel", daemon=True).start()
    return lines


def _found(  # noqa: PLR0917 (one search, and all that it goes by)
    process: subprocess.Popen[bytes],
    lines: queue.SimpleQueue[str],
    front: Front,
    command: str,
    log: Path,
    ready_seconds: float,
    waiting: Callable[[float], None],
) -> str:
    """The first of the printed URLs that leads to the front."""
    started = time.monotonic()
    faults: dict[str, str] = {}
    last = "it printed nothing"
    while (passed := time.monotonic() - started) < ready_seconds:
        ended = process.poll()
        with contextlib.suppress(queue.Empty):
            line = lines.get(timeout=_PAUSE_SECONDS)
            while True:
                last = line.strip() or last
                faults.update({url.rstrip("/.,;)"): "" for url in _URL.findall(line)})
                line = lines.get_nowait()
        for url in faults:
            if (fault := fault_of(url, front)) is None:
                return url
            faults[url] = fault
        if ended is not None:
            raise TunnelError(f"--tunnel {command!r} ended with exit code {ended}: {last[-_SHOWN:]}; its log is {log}")
        waiting(passed)
    said = "; ".join(f"{url}: {fault}" for url, fault in faults.items()) or "it printed no URL"
    raise TunnelError(f"--tunnel {command!r} led nothing here within {ready_seconds:g} s: {said}; its log is {log}")


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
