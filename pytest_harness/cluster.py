"""A cluster of Ray: found by its address, and functions of ours called on its nodes.

A call travels pickled, and its function by name, so every node needs this package in the same version; one that has another says so. What
Ray itself may do again is said with each call: by default nothing.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import re
import secrets
import signal
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager
from typing import Any

from pytest_harness import __version__

EXTRA = "install harness-conformance[ray]"
_ADDRESS = re.compile(r"auto|local|(?:ray://)?(?P<host>\[[^\]]+\]|[^\s:/\[\]]+):(?P<port>\d{1,5})/?")
_ANSWERS_SEC = 10.0
_AHEAD = 4
"""Calls that wait for each processor while many are made."""


class ClusterError(Exception):
    """A cluster that cannot be used as asked; one sentence that says why and what to do."""


class LostError(Exception):
    """A call of which nothing is known any more: its node or its process is gone, or it was cancelled."""


class Cluster:
    """A cluster that was connected to. May be used from several threads."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._function = ray.remote(called)
        self._lock = threading.Lock()
        self._under_way: dict[Future[Any], Any] = {}
        self._cancelled = False

    @property
    def processors(self) -> int:
        """How many its nodes have together."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 0)))

    def has_room(self, *, processors: float, memory: int) -> bool:
        """Whether a node that is there now has as much, be it in use; ``memory`` in bytes."""
        resources = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        return any(each.get("CPU", 0) >= processors and each.get("memory", 0) >= memory for each in resources)

    def share(self, value: bytes) -> Any:
        """What many calls need, brought to each node once: an argument of ``shared``."""
        return self._ray.put(value)

    def run[T](self, function: Callable[..., T], *arguments: object, shared: Iterable[Any] = (), memory: int = 0) -> T:
        """Call it on some node, once, and wait. Raises what it raised, or LostError; then nobody knows how far it came."""
        future: Future[T] = self._start(function, arguments, tuple(shared), memory=memory, repeats=0)
        return future.result()

    def each[A, T](self, function: Callable[..., T], items: Iterable[A], *, shared: Iterable[Any] = ()) -> Iterator[tuple[A, T]]:
        """Call it for each item, as many at a time as the cluster has room for; in their order. What a lost node had is run again."""
        shared, ahead = tuple(shared), _AHEAD * self.processors
        waiting: deque[tuple[A, Future[T]]] = deque()
        for item in items:
            waiting.append((item, self._start(function, (item,), shared, memory=0, repeats=-1)))
            if len(waiting) > ahead:
                before, future = waiting.popleft()
                yield before, future.result()
        for item, future in waiting:
            yield item, future.result()

    def cancel(self) -> None:
        """Interrupt what runs, as by Ctrl-C, and start nothing that waits."""
        with self._lock:
            self._cancelled = True
            references = list(self._under_way.values())
        for reference in references:
            self._ray.cancel(reference)

    def give_up(self) -> None:
        """End the processes of what runs, and wait for none of it."""
        with self._lock:
            under_way = list(self._under_way.items())
        for future, reference in under_way:
            with contextlib.suppress(Exception):  # the cluster may be gone
                self._ray.cancel(reference, force=True)
            _settle(future, error=LostError("it was given up"))

    def _start(self, function: Callable[..., Any], arguments: tuple[object, ...], shared: tuple[Any, ...], **how: int) -> Future[Any]:
        task = self._function.options(
            num_cpus=1, memory=how["memory"] or None, max_retries=how["repeats"], retry_exceptions=False, scheduling_strategy="SPREAD"
        )
        future: Future[Any] = Future()
        reference = task.remote(__version__, pickle.dumps((function, arguments)), *shared)
        with self._lock:
            self._under_way[future] = reference
            cancelled = self._cancelled
        if cancelled:
            self._ray.cancel(reference)
        reference.future().add_done_callback(lambda theirs: self._ended(future, theirs))
        return future

    def _ended(self, future: Future[Any], theirs: Future[Any]) -> None:
        with self._lock:
            self._under_way.pop(future, None)
        error = theirs.exception()
        if error is None:
            _settle(future, result=theirs.result())
        else:
            _settle(future, error=self._told(error))

    def _told(self, error: BaseException) -> BaseException:
        """What the function raised, without what Ray wraps it in; or that the call is lost."""
        exceptions = self._ray.exceptions
        if isinstance(error, exceptions.RayTaskError) and isinstance(error.cause, Exception):
            return error.cause
        return LostError(f"{type(error).__name__}: {one_line(error)}")


def called(version: str, call: bytes, *shared: object) -> Any:
    """On a node: make the call, if this is the version that asks for it."""
    if version != __version__:
        raise RuntimeError(
            f"{socket.gethostname()} has harness-conformance {__version__} and is asked by {version}; install the same on every node"
        )
    function, arguments = pickle.loads(call)  # noqa: S301 (it comes from the command; who may talk to a cluster of Ray may do anything there)
    with interruptible():
        return function(*arguments, *shared)


@contextmanager
def interruptible() -> Iterator[None]:
    """In here the main thread hears at once that its task is cancelled, and what it starts is born with the signals of a usual process.

    Ray sets the flag that a signal would set, and a thread that waits for something else does not look at it: a true signal makes it look.
    Ray's processes also keep SIGINT blocked, or ignored where the cluster was started in the background, and so would their children.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    handlers = {signal.SIGURG: lambda *_: None, signal.SIGINT: signal.default_int_handler}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    descriptor = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    mask = signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    listener = threading.Thread(target=_wake, args=(ours, threading.main_thread().ident), daemon=True)
    listener.start()
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.set_wakeup_fd(descriptor)
        theirs.close()
        listener.join()
        ours.close()
        for number, handler in before.items():
            signal.signal(number, handler)


def _wake(flags: socket.socket, thread: int) -> None:
    while flagged := flags.recv(64):
        if signal.SIGINT in flagged:
            signal.pthread_kill(thread, signal.SIGURG)


@contextmanager
def connected(address: str) -> Iterator[Cluster]:
    """The cluster at an address: ``auto``, ``HOST:PORT``, ``ray://HOST:PORT``, or ``local`` for one on this machine as long as the block.

    Raises ClusterError.
    """
    _check_answers(address)
    for variable, value in _settings(address).items():
        os.environ.setdefault(variable, value)
    try:
        import ray  # noqa: PLC0415 (an extra)
    except ImportError as error:
        raise ClusterError(f"--ray {address}: Ray is not here ({error}); {EXTRA}, here and on every node") from None
    try:
        own = {"include_dashboard": False} if address == "local" else {}
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **own)
    except Exception as error:  # noqa: BLE001 (each way of connecting raises errors of its own)
        raise ClusterError(f"--ray {address}: {one_line(error)}; start the cluster, or name the address of one that runs") from None
    try:
        yield Cluster(ray)
    finally:
        ray.shutdown()


def _settings(address: str) -> dict[str, str]:
    """What Ray takes from its environment, where the user has not said otherwise."""
    if address != "local":
        return {"RAY_NUM_REDIS_GET_RETRIES": "1"}  # what answers and is no cluster would be asked for a quarter of an hour
    # A cluster of our own tells nobody that it runs, takes calls from nobody else, and writes no token for that into the user's home.
    return {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}


def one_line(error: BaseException) -> str:
    """The first sentence of what it says."""
    said = " ".join(str(error).split("\n\n")[0].split())
    return said.rstrip(".") or type(error).__name__


def _check_answers(address: str) -> None:
    """Ray itself waits long for what does not answer."""
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise ClusterError(f"--ray {address} is no address of a cluster; write auto, local, HOST:PORT or ray://HOST:PORT")
    if match["host"] is None:
        return
    try:
        socket.create_connection((match["host"].strip("[]"), int(match["port"])), timeout=_ANSWERS_SEC).close()
    except (OSError, OverflowError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise ClusterError(f"--ray {address}: nothing answers there ({reason}); start the cluster, or name the address of one") from None


def _settle(future: Future[Any], *, result: object = None, error: BaseException | None = None) -> None:
    """Unless it is already."""
    with contextlib.suppress(InvalidStateError):
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
