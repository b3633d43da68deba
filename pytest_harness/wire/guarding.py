"""Foreign code, kept from ending a run: whatever an adapter raises, exits with, or waits for becomes one ``AdapterError``.

An adapter is named by a user and may do anything when it is imported, made, started or stopped. Only the user's own interrupt passes.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

LIMIT_SEC = 90.0
"""How long an import, a start, a stop or one test may take; every wait inside is shorter, so only a subject that dribbles meets it."""
_SHOWN = 300


class AdapterError(Exception):
    """A subject that cannot be named or started; the message says what was wrong and what to do."""


class _OverdueError(BaseException):
    """Not an Exception: an adapter that suppresses those does not suppress this."""


def brief(error: BaseException) -> str:
    """An exception's type and the first line of its message, without control characters."""
    try:
        said = str(error).strip()
    except Exception:  # noqa: BLE001 - it is foreign, and may fail even at this
        said = ""
    line = "".join(sign for sign in said.partition("\n")[0] if sign.isprintable())[:_SHOWN]
    return f"{type(error).__name__}: {line}" if line else type(error).__name__


def escaped(value: Any) -> Any:
    """JSON data in which lone surrogates, which no UTF-8 can hold, are written as escapes."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, Mapping):
        return {escaped(name): escaped(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [escaped(part) for part in value]
    return value


@contextlib.contextmanager
def limited(overdue: Callable[[], BaseException]) -> Iterator[None]:
    """Raises what ``overdue`` gives once LIMIT_SEC have passed, whatever is waited for; only the main thread can be interrupted."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(*_: Any) -> None:
        raise overdue()

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_SEC)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def guarded(what: str) -> Iterator[None]:
    """Raises AdapterError for all that goes wrong inside, a missing end among it; ``what`` names it, such as "start of X"."""
    try:
        with limited(_OverdueError):
            yield
    except (AdapterError, KeyboardInterrupt, GeneratorExit):
        raise
    except _OverdueError:
        raise AdapterError(f"{what} took longer than {LIMIT_SEC:g} s; see what it waits for") from None
    except BaseException as error:  # noqa: BLE001 - sys.exit, pytest.exit and pytest.skip are no exceptions of the usual kind
        raise AdapterError(f"{what} failed ({brief(error)}); correct the adapter") from None


@contextlib.contextmanager
def running(adapter: object, start: Callable[[], None], stop: Callable[[], None]) -> Iterator[None]:
    """The adapter, started inside and stopped after it, also where its start failed. Raises AdapterError for either."""
    name = f"{type(adapter).__module__}:{type(adapter).__qualname__}"
    try:
        with guarded(f"start of {name}"):
            start()
    except BaseException:
        with contextlib.suppress(AdapterError), guarded(f"stop of {name}"):
            stop()
        raise
    try:
        yield
    finally:
        with guarded(f"stop of {name}"):
            stop()


def versions_of(told: Callable[[], Mapping[str, str]]) -> dict[str, str]:
    """What an adapter tells of its versions. Raises AdapterError if it cannot, or tells no mapping of names to versions."""
    with guarded("versions() of the adapter"):
        versions = told()
        if not isinstance(versions, Mapping):
            raise AdapterError(f"versions() of the adapter returned {type(versions).__name__}, a dict of names and versions is expected")
        return {escaped(str(name)): escaped(str(version)) for name, version in versions.items()}
