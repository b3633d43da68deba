"""The proxy as a server of its own: the admin API and the capture, on two ports or one, by one process or several.

The first process checks what it is asked for, probes the engine and makes the sockets. With several workers it starts each as a child
that serves every session on sockets of its own on the same ports (``SO_REUSEPORT``), starts one anew that dies, on the same sockets, and
takes all of them down with it: a child ends when its standard input does, so none outlives even a killed parent.
"""

from __future__ import annotations

import contextlib
import gc
import ipaddress
import json
import os
import resource
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

from pytest_harness.capture.app import CaptureProxy
from pytest_harness.capture.control import Facts, Level, control_app
from pytest_harness.capture.directory import SessionDirectory
from pytest_harness.capture.guard import Guard
from pytest_harness.capture.probe import Probe, probe
from pytest_harness.capture.upstream import Upstream
from pytest_harness.owners import marked
from pytest_harness.serving import ASGIApp, BackgroundServer, Receive, Scope, Send

MOUNT = "/capture"
SHORTEST_ADMIN_KEY = 16

_BACKLOG = 1024
_NOTICE_SECONDS = 0.25
_STOP_SECONDS = 15.0
_QUICK_SECONDS = 2.0
_MOST_QUICK_DEATHS = 5


class ServeError(Exception):
    """A server that cannot be started as asked; the message says why and what to do."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """What to serve. A port 0 is a free one."""

    llm_url: str
    model: str | None = None
    llm_key: str | None = field(default=None, repr=False)
    host: str = "127.0.0.1"
    capture_port: int = 0
    control_port: int = 0
    one_port: bool = False
    """One port, ``control_port``, with the capture below ``/capture``."""
    admin_key: str | None = field(default=None, repr=False)
    """None makes one, unless ``open_admin``."""
    open_admin: bool = False
    """No admin key; on loopback only."""
    journal_dir: Path | None = None
    """None is a new folder for temporary files."""
    workers: int = 1
    level: Level = "tokens"
    train: bool = False
    """Only an engine whose replies may be trained on: at level tokens, its logprobs known to be those of the temperature."""
    durable: bool = False

    def __post_init__(self) -> None:
        """Raises ServeError for what cannot go together."""
        if not self.llm_url:
            raise ServeError("there is no engine to serve; name one with --llm-url http://HOST:PORT/v1")
        if self.workers < 1:
            raise ServeError(f"{self.workers} workers cannot serve; give --workers 1 or more")
        if self.train and self.level != "tokens":
            raise ServeError(f"--train and --level {self.level} contradict each other: only tokens may train; leave one of them out")
        if self.open_admin and self.admin_key is not None:
            raise ServeError("--no-admin-key and --admin-key-env contradict each other; give one of them")
        if self.admin_key is not None and (len(self.admin_key) < SHORTEST_ADMIN_KEY or not self.admin_key.isprintable()):
            raise ServeError(f"the admin key is shorter than {SHORTEST_ADMIN_KEY} characters or not printable; choose another")
        if not is_loopback(self.host):
            if self.open_admin:
                raise ServeError(f"{self.host} can be reached from other machines, so the admin API needs a key; leave out --no-admin-key")
            if self.admin_key is None:
                raise ServeError(f"{self.host} can be reached from other machines; name the variable of an admin key with --admin-key-env")


@dataclass(frozen=True, slots=True)
class Served:
    """A server that runs: where it is, and what stands behind it."""

    control_url: str
    capture_url: str
    admin_key: str | None
    generated: bool
    """Whether the admin key was made here."""
    journal_dir: Path
    probe: Probe


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address; a name other than ``localhost`` counts as one that others can."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def serve(config: Config, *, told: Callable[[Served], None]) -> None:
    """Serve until SIGTERM or SIGINT; ``told`` is called once, when everything listens. For the main thread.

    Raises ServeError, ProbeError, UpstreamError or SessionError before anything listens.
    """
    found = probe(config.llm_url, model=config.model, api_key=config.llm_key)
    if config.train:
        found.require_training(config.llm_url)
    found.require(config.level, config.llm_url)
    generated = config.admin_key is None and not config.open_admin
    admin_key = secrets.token_urlsafe(32) if generated else config.admin_key
    folder = Path(tempfile.mkdtemp(prefix="harness-capture-")) if config.journal_dir is None else config.journal_dir
    with contextlib.ExitStack() as stack:
        _many_files(stack)
        sets = _sockets(config, stack)
        control_url = _url(config.host, sets[0][0])
        capture_url = f"{control_url}{MOUNT}" if config.one_port else _url(config.host, sets[0][1])
        work = _Work(
            config=replace(config, model=found.model, admin_key=admin_key, journal_dir=folder.absolute()),
            instance=f"server-{secrets.token_hex(8)}",
            capture_url=None if config.one_port else capture_url,
            engine={
                "url": config.llm_url,
                "model": found.model,
                "version": found.version,
                "logprobs": found.logprobs,
                "streamed": found.streamed.level,
            },
            level=found.level,
            buffered=found.buffered,
        )
        work.directory()  # a folder that cannot be used is said now, not by a worker
        stopping = _stop_signals(stack)
        served = Served(control_url, capture_url, admin_key, generated, folder, found)
        if config.workers == 1:
            with _serving(work, sets[0]) as sessions:
                told(served)
                while not stopping.wait(_NOTICE_SECONDS):
                    sessions.notice()
        else:
            _supervise(work, sets, stopping, lambda: told(served))


def announce(served: Served, admin_key_env: str | None) -> None:
    """Say on standard output where the server is, and its admin key once if it was made here."""
    if served.admin_key is None:
        key = "none: everyone on this machine is let in"
    elif served.generated:
        key = f"{served.admin_key} (made for this run; it is not shown again)"
    else:
        key = f"the value of {admin_key_env}"
    streams = ", its streams lose some, so they are made of whole replies here" if served.probe.buffered else ""
    for name, value in (
        ("control", served.control_url),
        ("capture", served.capture_url),
        ("admin key", key),
        ("engine", f"{served.probe.model}, level {served.probe.level}, logprobs {served.probe.logprobs}{streams}"),
        ("journals", served.journal_dir),
    ):
        sys.stdout.write(f"{name}: {value}\n")
    sys.stdout.flush()


@dataclass(frozen=True, kw_only=True)
class _Work:
    """What a worker needs to know."""

    config: Config
    instance: str
    capture_url: str | None
    engine: dict[str, Any]
    level: Level
    buffered: bool

    def directory(self) -> SessionDirectory:
        config = self.config
        model = config.model or ""
        guard = Guard(config.llm_url, model, config.level, config.train, config.llm_key)
        upstream = Upstream(url=config.llm_url, model=model, api_key=config.llm_key, buffered=self.buffered, guard=guard)
        return SessionDirectory(
            config.journal_dir or Path(), upstream, instance=self.instance, shared=config.workers > 1, durable=config.durable
        )

    def dumped(self) -> str:
        return json.dumps(asdict(self), default=str)

    @classmethod
    def loaded(cls, text: str) -> _Work:
        fields = json.loads(text)
        config = fields.pop("config")
        return cls(config=Config(**{**config, "journal_dir": Path(config["journal_dir"])}), **fields)


@contextlib.contextmanager
def _serving(work: _Work, sockets: tuple[socket.socket, ...]) -> Iterator[SessionDirectory]:
    """Both applications on their sockets, the admin API first."""
    sessions = work.directory()
    capture = CaptureProxy(sessions=sessions)
    facts = Facts(instance=work.instance, capture_url=work.capture_url, level=work.level, engine=work.engine)
    control = control_app(sessions, facts, admin_key=work.config.admin_key)
    apps: tuple[ASGIApp, ...] = (_OnePort(control, capture),) if work.config.one_port else (control, capture)
    with contextlib.ExitStack() as stack:
        stack.enter_context(collecting_rarely())
        for app, sock in zip(apps, sockets, strict=True):
            stack.enter_context(BackgroundServer(app)).listen(sock)
        stack.callback(sessions.shut)  # first of all: calls end with an error that their harness understands, and are recorded
        yield sessions


@contextlib.contextmanager
def collecting_rarely() -> Iterator[None]:
    """In a process that only serves: what is there stays, and a call leaves no cycles, so that a tenth of the time is not spent looking."""
    thresholds = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


class _OnePort:
    """The capture below ``/capture``, the admin API everywhere else."""

    def __init__(self, control: ASGIApp, capture: ASGIApp) -> None:
        self._control = control
        self._capture = capture

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        path = scope.get("path", "")
        if path == MOUNT or path.startswith(f"{MOUNT}/"):
            scope = {**scope, "path": path[len(MOUNT) :] or "/", "raw_path": scope["raw_path"][len(MOUNT) :] or b"/"}
            await self._capture(scope, receive, send)
        else:
            await self._control(scope, receive, send)


def _sockets(config: Config, stack: contextlib.ExitStack) -> list[tuple[socket.socket, ...]]:
    """For each worker its listening sockets, on the same ports for all. Raises ServeError."""
    ports = [config.control_port] if config.one_port else [config.control_port, config.capture_port]
    options = ("--control-port",) if config.one_port else ("--control-port", "--capture-port")
    sets: list[tuple[socket.socket, ...]] = []
    for _ in range(config.workers):
        made: list[socket.socket] = []
        for number, port in enumerate(ports):
            try:
                family = socket.getaddrinfo(config.host, port, type=socket.SOCK_STREAM)[0][0]
                sock = socket.create_server((config.host, port), family=family, backlog=_BACKLOG, reuse_port=config.workers > 1)
            except (OSError, OverflowError) as error:
                where = f"{config.host}, port {port}"
                raise ServeError(f"{where} cannot be listened on ({error}); choose another with --host or {options[number]}") from None
            made.append(stack.enter_context(contextlib.closing(sock)))
            ports[number] = sock.getsockname()[1]  # what was free for the first is taken by all
        sets.append(tuple(made))
    return sets


def _many_files(stack: contextlib.ExitStack) -> None:
    """Let this process and its workers have as many connections as the system allows; shells often allow 1024 files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))


def _url(host: str, sock: socket.socket) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{sock.getsockname()[1]}"


def _stop_signals(stack: contextlib.ExitStack) -> threading.Event:
    """An event that SIGTERM and SIGINT set."""
    stopping = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        stack.callback(signal.signal, number, signal.signal(number, stop))
    return stopping


class _Worker:
    """A child process and the sockets that it serves; the sockets are the parent's, so what waits in them outlives it."""

    def __init__(self, work: _Work, sockets: tuple[socket.socket, ...]) -> None:
        self._work = work
        self._sockets = sockets
        self.deaths = 0
        self.start()

    def start(self) -> None:
        """Start the process. It says a line when it listens."""
        files = [sock.fileno() for sock in self._sockets]
        command = [sys.executable, "-c", f"from {__name__} import work; work()", *map(str, files)]
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=files,
            text=True,
            env=marked(os.environ),
            start_new_session=True,
        )
        if self.process.stdin is not None:
            self.process.stdin.write(self._work.dumped() + "\n")
            self.process.stdin.flush()

    def await_ready(self) -> None:
        """Wait until it listens. Raises ServeError if it ended instead."""
        if self.process.stdout is None or not self.process.stdout.readline():
            raise ServeError("a worker process ended before it could serve; see what it wrote above")

    def revive(self) -> None:
        """Start it anew if it died. Raises ServeError if it keeps dying."""
        if self.process.poll() is None:
            return
        self.deaths = self.deaths + 1 if time.monotonic() - self.started < _QUICK_SECONDS else 0
        if self.deaths >= _MOST_QUICK_DEATHS:
            raise ServeError(
                f"a worker process ended {self.deaths} times at once (status {self.process.returncode}); see what it wrote above"
            )
        self._close_pipes()
        self.start()

    def stop(self) -> None:
        """Let it end by itself, and kill it if it does not."""
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()
        try:
            self.process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._close_pipes()

    def _close_pipes(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


def _supervise(work: _Work, sets: list[tuple[socket.socket, ...]], stopping: threading.Event, ready: Callable[[], None]) -> None:
    workers: list[_Worker] = []
    try:
        for sockets in sets:
            workers.append(_Worker(work, sockets))  # noqa: PERF401 (what was started must be known when a later one fails)
        for worker in workers:
            worker.await_ready()
        ready()
        while not stopping.wait(_NOTICE_SECONDS):
            for worker in workers:
                worker.revive()
    finally:
        for worker in workers:
            worker.stop()


def work() -> None:
    """The life of a worker process: what to do comes as one line on standard input, and its end is the end of the work."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # the parent says when
    task = _Work.loaded(sys.stdin.readline())
    sockets = tuple(socket.socket(fileno=int(number)) for number in sys.argv[1:])
    ended = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait_for_end, name="waiting for the parent's end", daemon=True).start()
    with _serving(task, sockets) as sessions:
        os.write(1, b"ready\n")
        while not ended.wait(_NOTICE_SECONDS):
            sessions.notice()
