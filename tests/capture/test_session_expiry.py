"""When sessions end by themselves, what one costs that nobody uses, and that none is opened twice."""

import asyncio
import gc
import tracemalloc
from pathlib import Path

import pytest

from pytest_harness.capture import Upstream
from pytest_harness.capture.identity import Expiry, SessionError
from pytest_harness.capture.sessions import SessionClosedError, Sessions

UPSTREAM = Upstream(url="http://engine", model="m", api_key="engine-key-canary")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sessions(clock: Clock) -> Sessions:
    return Sessions(clock=clock)


@pytest.fixture
def opened(sessions: Sessions, tmp_path: Path):
    def open_one(**settings):
        return sessions.open(UPSTREAM, tmp_path / f"{len(list(tmp_path.iterdir()))}.ndjson", **settings)

    return open_one


def test_a_session_ends_at_its_absolute_time(sessions, opened, clock) -> None:
    session = opened(expires=Expiry(absolute=60))
    clock.now += 59.9
    assert sessions.find(session.key.encode()) is session
    clock.now += 0.1
    assert sessions.find(session.key.encode()) is None
    assert session.closed
    assert list(sessions) == []


def test_a_call_keeps_a_session_from_being_idle_while_it_runs_and_starts_its_time_anew(sessions, opened, clock) -> None:
    session = opened(expires=Expiry(idle=60))

    async def call() -> None:
        with session.call():
            clock.now += 1000
            assert sessions.find(session.key.encode()) is session
        clock.now += 59

    asyncio.run(call())
    assert sessions.find(session.key.encode()) is session
    clock.now += 1
    assert sessions.find(session.key.encode()) is None


def test_calls_that_run_when_the_absolute_time_comes_are_stopped(sessions, opened, clock) -> None:
    session = opened(expires=Expiry(absolute=60))

    async def call() -> None:
        with session.call() as running:
            clock.now += 60
            assert sessions.find(session.key.encode()) is None
            await asyncio.wait_for(running.stop.wait(), 10)

    asyncio.run(call())
    with pytest.raises(SessionClosedError), session.call():
        pass


def test_sessions_that_nobody_asks_for_are_ended_when_another_is_opened(sessions, opened, clock) -> None:
    forgotten = opened(expires=Expiry(idle=60))
    clock.now += 61
    fresh = opened()
    assert forgotten.closed
    assert list(sessions) == [fresh]


def test_a_session_without_expiry_stays(sessions, opened, clock) -> None:
    session = opened()
    clock.now += 1e9
    assert sessions.find(session.key.encode()) is session
    assert session.expires_at is None


@pytest.mark.parametrize("seconds", [{"absolute": 0}, {"idle": -1}, {"idle": float("nan")}])
def test_an_expiry_that_is_not_in_the_future_is_refused_in_a_sentence(seconds) -> None:
    with pytest.raises(SessionError, match="give more than 0"):
        Expiry(**seconds)


def test_an_id_is_used_once_for_ever(sessions, opened) -> None:
    opened(session_id="attempt-1")
    with pytest.raises(SessionError, match="was used before"):
        opened(session_id="attempt-1")
    sessions.get("attempt-1").close()
    with pytest.raises(SessionError, match="was used before"):
        opened(session_id="attempt-1")


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a/b", "a\\b", "a\n", "é", "x" * 129, "-a"])
def test_an_id_that_cannot_be_a_folder_everywhere_is_refused(opened, name) -> None:
    with pytest.raises(SessionError, match="a session id has"):
        opened(session_id=name)


def test_a_session_that_nobody_uses_costs_at_most_four_kilobytes(opened) -> None:
    kept = [opened() for _ in range(3)]
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        kept += [opened(session_id=f"attempt-{number}", expires=Expiry(idle=60)) for number in range(100)]
        gc.collect()
        assert (tracemalloc.get_traced_memory()[0] - before) / 100 <= 4096
    finally:
        tracemalloc.stop()


def test_a_session_that_nobody_uses_holds_no_file_descriptor(opened) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    kept = [opened() for _ in range(50)]
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert len(kept) == 50
