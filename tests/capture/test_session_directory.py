"""Sessions in a folder: known to every process of the server, to no other server, and readable when it is gone."""

import asyncio
import contextlib
import json
import multiprocessing
from pathlib import Path

import pytest

from pytest_harness.capture import Upstream
from pytest_harness.capture.directory import BudgetSpec, ExpirySpec, SessionDirectory, SessionSpec, SessionUsedError
from pytest_harness.capture.identity import SessionError
from pytest_harness.capture.journal import CallRecord, Moments, Written
from pytest_harness.capture.sessions import SessionClosedError

UPSTREAM = Upstream(url="http://engine", model="m", api_key="engine-key-canary")


def directory(folder: Path, instance: str = "one", **settings) -> SessionDirectory:
    return SessionDirectory(folder, UPSTREAM, instance=instance, **settings)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[SessionDirectory, SessionDirectory]:
    """Two processes of one server, as far as their files go."""
    return directory(tmp_path, shared=True), directory(tmp_path, shared=True)


def run_call(session) -> int:
    async def run() -> int:
        with session.call() as running:
            session.journal.write_call(
                CallRecord(
                    index=running.index,
                    id=running.id,
                    dialect="chat",
                    method="POST",
                    path="/v1/chat/completions",
                    streamed=False,
                    received=Written({}, b"{}"),
                    outcome="complete",
                    times=Moments(received=float(running.index)),
                )
            )
            return running.index

    return asyncio.run(run())


def test_a_session_opened_by_one_process_is_served_by_another(pair) -> None:
    one, other = pair
    session = one.create(SessionSpec(id="attempt-1", budget=BudgetSpec(calls=3)))
    adopted = other.find(session.key.encode())
    assert adopted is not None
    assert (adopted.id, adopted.key, adopted.budget) == (session.id, session.key, session.budget)
    assert other.find(session.key.encode()) is adopted


def test_calls_of_two_processes_are_merged_in_order_of_arrival(pair) -> None:
    one, other = pair
    session = one.create(SessionSpec())
    adopted = other.find(session.key.encode())
    assert [run_call(which) for which in (session, adopted, adopted, session)] == [0, 1, 2, 3]
    assert [call.index for call in one.calls(session.id)] == [0, 1, 2, 3]
    assert [call.index for call in adopted.close()] == [0, 1, 2, 3]


def test_a_session_closed_by_one_process_is_closed_in_all(pair) -> None:
    one, other = pair
    session = one.create(SessionSpec())
    adopted = other.find(session.key.encode())
    one.end(session.id)
    assert other.find(session.key.encode()) is None
    with pytest.raises(SessionClosedError), adopted.call():
        pass
    assert one.find(session.key.encode()) is None
    assert [place.info(session.id).state for place in pair] == ["closed", "closed"]


def test_closing_stops_the_calls_of_other_processes_and_waits_for_them(pair) -> None:
    one, other = pair
    session = one.create(SessionSpec())
    adopted = other.find(session.key.encode())
    ended = []

    async def run() -> None:
        loop = asyncio.get_running_loop()
        with adopted.call() as running:
            closing = loop.run_in_executor(None, one.end, session.id)
            while not running.stop.is_set():
                other.notice()
                await asyncio.sleep(0)
            assert not closing.done()
            ended.append("call")
        await closing
        ended.append("session")

    asyncio.run(run())
    assert ended == ["call", "session"]


def test_a_call_that_comes_just_as_its_session_is_closed_elsewhere_is_not_let_in(pair) -> None:
    one, other = pair
    session = one.create(SessionSpec())
    adopted = other.find(session.key.encode())
    one.end(session.id)
    with pytest.raises(SessionClosedError), adopted.call():  # found before, called after
        pass


def test_a_session_at_rest_holds_no_file_descriptor(tmp_path) -> None:
    now = [1000.0]
    place = directory(tmp_path, shared=True, clock=lambda: now[0])
    session = place.create(SessionSpec(budget=BudgetSpec(calls=3)))
    run_call(session)
    session.journal.close()  # it has a limit of its own
    place.notice()
    assert _descriptors(tmp_path) == {"account", "busy"}
    now[0] += 2
    place.notice()
    assert _descriptors(tmp_path) == set()


def _descriptors(folder: Path) -> set[str]:
    """The names of the files below a folder that this process holds open."""
    names = set()
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            target = link.readlink()
            if target.is_relative_to(folder):
                names.add(target.name)
    return names


def test_a_process_that_opened_nothing_can_close_a_session(pair) -> None:
    one, other = pair
    session = one.create(SessionSpec())
    assert other.end(session.id)
    assert one.find(session.key.encode()) is None


def _hold(folder: Path, key: str, entered, killed) -> None:
    session = directory(folder, shared=True).find(key.encode())

    async def run() -> None:
        with session.call():
            entered.set()
            await asyncio.to_thread(killed.wait)

    asyncio.run(run())


def test_a_killed_process_holds_nobody_up(tmp_path) -> None:
    place = directory(tmp_path, shared=True)
    session = place.create(SessionSpec())
    context = multiprocessing.get_context("spawn")
    entered, never = context.Event(), context.Event()
    process = context.Process(target=_hold, args=(tmp_path, session.key, entered, never))
    process.start()
    assert entered.wait(60)
    process.kill()
    process.join()
    assert place.end(session.id)
    assert place.info(session.id).calls == 1


def test_another_server_on_the_same_folder_serves_no_session_of_the_first_but_shows_its_calls(tmp_path) -> None:
    first = directory(tmp_path)
    session = first.create(SessionSpec(id="attempt-1"))
    run_call(session)
    second = directory(tmp_path, instance="two", shared=True)
    assert second.find(session.key.encode()) is None
    assert second.info("attempt-1").state == "interrupted"
    assert len(second.calls("attempt-1")) == 1
    with pytest.raises(SessionUsedError, match="was used before"):
        second.create(SessionSpec(id="attempt-1"))


def test_counts_outlive_a_session(tmp_path) -> None:
    place = directory(tmp_path)
    session = place.create(SessionSpec())
    run_call(session)
    place.end(session.id)
    info = place.info(session.id)
    assert (info.state, info.calls, info.stopped) == ("closed", 1, 0)
    assert place.end(session.id)
    assert list(place.infos()) == []


def test_an_idle_session_is_not_ended_by_one_process_while_another_is_busy_with_it(tmp_path) -> None:
    now = [1000.0]
    one, other = (directory(tmp_path, shared=True, clock=lambda: now[0]) for _ in range(2))
    session = one.create(SessionSpec(expires=ExpirySpec(idle=60)))
    adopted = other.find(session.key.encode())

    async def run() -> None:
        with adopted.call():
            now[0] += 100
            assert one.find(session.key.encode()) is session
        now[0] += 59
        assert one.find(session.key.encode()) is session
        now[0] += 2
        assert one.find(session.key.encode()) is None

    asyncio.run(run())
    assert other.find(session.key.encode()) is None


def test_no_key_is_written_down(pair, tmp_path) -> None:
    session = pair[0].create(SessionSpec())
    run_call(pair[1].find(session.key.encode()))
    pair[0].end(session.id)
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert session.key.encode() not in path.read_bytes()
            assert b"engine-key-canary" not in path.read_bytes()


@pytest.mark.parametrize("name", ["..", ".keys", "", "a/../b", "\x00", "x" * 300, "absent"])
def test_any_text_may_be_asked_for(pair, name) -> None:
    assert pair[0].info(name) is None
    assert pair[0].calls(name) is None
    assert pair[0].end(name) is False


def test_a_folder_that_cannot_be_used_is_said_in_a_sentence(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SessionError, match="name a folder that is writable"):
        directory(tmp_path / "file")


def test_what_stands_in_the_folder_is_json_that_others_can_read(tmp_path) -> None:
    directory(tmp_path).create(SessionSpec(id="attempt-1", purpose="train"))
    stored = json.loads((tmp_path / "attempt-1" / "session.json").read_text(encoding="utf-8"))
    assert stored["spec"]["purpose"] == "train"
