"""The server as its user meets it: a child process before a scripted engine, driven with OpenAI's SDK, stopped and killed."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import openai
import pytest

from pytest_harness.capture.shared import read_calls
from pytest_harness.engines.scripted import Fault, Script, ScriptedEngine, Step
from pytest_harness.evidence import Call
from pytest_harness.serving import BackgroundServer

ENGINE = "engine-key-canary-0123456789"
ADMIN = "admin-key-canary-0123456789"
MESSAGES = [{"role": "user", "content": "Hello"}]


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[ScriptedEngine, str]]:
    engine = ScriptedEngine(Script((Step("Done."),)), model="served", api_key=ENGINE)
    with BackgroundServer(engine) as server:
        yield engine, server.listen().url


@pytest.fixture
def engine(served) -> Iterator[ScriptedEngine]:
    yield served[0]
    served[0].faults = []


class Served:
    """A server that runs, and what it said of itself."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.said = dict(self._line() for _ in range(5))
        self.control, self.capture = self.said["control"], self.said["capture"]
        self.admin = httpx.Client(base_url=self.control, headers={"authorization": f"Bearer {ADMIN}"}, timeout=60, verify=False)

    def _line(self) -> tuple[str, str]:
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        name, _, value = line.strip().partition(": ")
        return name, value

    def open(self, **fields) -> dict:
        reply = self.admin.post("/sessions", json=fields)
        assert reply.status_code == 201, reply.text
        return reply.json()

    def ask(self, session: dict, *, stream: bool = False, **fields) -> str:
        """The text of the reply."""
        with openai.OpenAI(base_url=session["base_urls"]["openai"], api_key=session["key"], max_retries=0, timeout=60) as sdk:
            if not stream:
                return sdk.chat.completions.create(model="any", messages=MESSAGES, **fields).choices[0].message.content
            chunks = sdk.chat.completions.create(model="any", messages=MESSAGES, stream=True, **fields)
            return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)

    def calls(self, name: str) -> list[Call]:
        return [Call.model_validate_json(line) for line in self.admin.get(f"/sessions/{name}/calls").text.splitlines()]

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(60)


@pytest.fixture
def command(served) -> list[str]:
    return [sys.executable, "-m", "pytest_harness.cli", "serve", "--llm-url", served[1], "--llm-key-env", "ENGINE_KEY"]


@pytest.fixture
def environment() -> dict[str, str]:
    return {**os.environ, "ENGINE_KEY": ENGINE, "ADMIN_KEY": ADMIN}


@pytest.fixture
def start(command, environment, engine, tmp_path) -> Iterator[object]:
    processes: list[subprocess.Popen[str]] = []
    servers: list[Served] = []

    def start_one(*options: str) -> Served:
        arguments = [*command, "--admin-key-env", "ADMIN_KEY", "--journal-dir", str(tmp_path / "journals"), *options]
        processes.append(subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        servers.append(Served(processes[-1]))
        return servers[-1]

    yield start_one
    for server in servers:
        server.admin.close()
    for process in processes:
        process.kill()
        process.communicate()


def refused(command: list[str], environment: dict[str, str]) -> str:
    """What a server that does not start says; one sentence and exit code 4, no traceback, no secret."""
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 4, ended.stderr
    assert ended.stdout == ""
    assert ended.stderr.startswith("error: ")
    assert ended.stderr.count("\n") == 1
    assert ENGINE not in ended.stderr
    assert ADMIN not in ended.stderr
    return ended.stderr


def test_a_session_over_the_admin_api_the_sdk_the_export_and_the_end(start, tmp_path) -> None:
    server = start()
    session = server.open(id="attempt-1", purpose="train", policy={"temperature": 0.8})
    assert server.ask(session, temperature=0.1) == "Done."
    assert server.ask(session, stream=True) == "Done."
    server.admin.delete("/sessions/attempt-1")
    calls = server.calls("attempt-1")
    assert [call.streamed for call in calls] == [False, True]
    assert all(call.samples[0].token_ids == calls[0].samples[0].token_ids and call.delivery == "delivered" for call in calls)
    with pytest.raises(openai.AuthenticationError):
        server.ask(session)
    assert server.stop() == 0
    assert server.process.stderr.read() == ""
    assert [call.index for call in read_calls(tmp_path / "journals" / "attempt-1")] == [0, 1]
    written = b"".join(path.read_bytes() for path in (tmp_path / "journals").rglob("*") if path.is_file())
    for secret in (ENGINE, ADMIN, session["key"]):
        assert secret.encode() not in written


def test_a_durable_server_serves(start, tmp_path) -> None:
    server = start("--durable", "--workers", "2")
    session = server.open(id="attempt-1")
    assert server.ask(session) == "Done."
    assert len(server.calls("attempt-1")) == 1


def test_a_stream_that_loses_ids_is_made_of_whole_replies(environment, tmp_path, engine, served) -> None:
    """The engine is the scripted one, but its streams carry no ids."""

    async def lossy(scope, receive, send) -> None:
        async def less(event) -> None:
            body = event.get("body", b"")
            if body.startswith(b"data: {"):
                event = {**event, "body": body.replace(b'"token_ids"', b'"other_ids"')}
            await send(event)

        await engine(scope, receive, less)

    with BackgroundServer(lossy) as lossy_server:
        url = lossy_server.listen().url
        arguments = [sys.executable, "-m", "pytest_harness.cli", "serve", "--llm-url", url, "--llm-key-env", "ENGINE_KEY"]
        arguments += ["--admin-key-env", "ADMIN_KEY", "--journal-dir", str(tmp_path / "j")]
        with subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            try:
                server = Served(process)
                assert "made of whole replies" in server.said["engine"]
                session = server.open(id="attempt-1", purpose="train")
                assert server.ask(session, stream=True) == "Done."
                (call,) = server.calls("attempt-1")
                assert call.streamed
                assert call.samples[0].token_ids
                server.admin.close()
                assert server.stop() == 0
            finally:
                process.kill()


def test_the_admin_key_is_not_shown_where_it_was_given(start) -> None:
    server = start()
    assert server.said["admin key"] == "the value of ADMIN_KEY"
    server.stop(signal.SIGINT)
    assert ADMIN not in server.process.stdout.read()


def test_an_admin_key_that_was_made_is_shown_once_and_works(command, environment, tmp_path) -> None:
    arguments = [*command, "--journal-dir", str(tmp_path / "j")]
    with subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        server = Served(process)
        server.admin.close()
        key = server.said["admin key"].split()[0]
        assert len(key) >= 32
        reply = httpx.get(f"{server.control}/sessions", headers={"authorization": f"Bearer {key}"}, verify=False)
        assert reply.status_code == 200
        assert httpx.get(f"{server.control}/sessions", verify=False).status_code == 401
        assert server.stop() == 0
        assert key not in process.stdout.read() + process.stderr.read()


def test_on_one_port_the_capture_lies_below_capture(start) -> None:
    server = start("--one-port")
    assert server.capture == f"{server.control}/capture"
    session = server.open()
    assert session["base_urls"]["openai"] == f"{server.control}/capture/v1"
    assert server.ask(session) == "Done."
    assert httpx.get(f"{server.capture}/v1/models", verify=False).status_code == 401


def test_two_workers_on_one_port_know_every_session_and_lose_nothing(start) -> None:
    server = start("--workers", "2")
    session = server.open(id="attempt-1", budget={"calls": 40})

    def ask(_) -> str:
        headers = {"authorization": f"Bearer {session['key']}"}  # a connection for each call, so the kernel spreads them
        body = {"model": "any", "messages": MESSAGES}
        return str(httpx.post(f"{server.capture}/v1/chat/completions", json=body, headers=headers, timeout=60, verify=False).status_code)

    with ThreadPoolExecutor(8) as pool:
        statuses = Counter(pool.map(ask, range(48)))
    assert statuses["401"] == 0
    info = server.admin.delete("/sessions/attempt-1").json()
    assert (info["calls"], info["charged"]) == (48, 40)
    calls = server.calls("attempt-1")
    assert [call.index for call in calls] == list(range(48))
    assert Counter(call.outcome for call in calls) == {"complete": 40, "budget_stop": 8}
    assert Counter(ask(number) for number in range(8)) == {"401": 8}
    assert server.stop() == 0


def test_twenty_sessions_at_the_same_time_have_the_calls_of_their_own_and_no_others(start) -> None:
    server = start("--workers", "2")
    sessions = [server.open(id=f"attempt-{number}") for number in range(20)]
    all_there = threading.Barrier(len(sessions))

    def said(session: dict) -> list[str]:
        return [f"{session['id']}, turn {turn}" for turn in range(4)]

    def play(session: dict) -> list[int]:
        headers = {"authorization": f"Bearer {session['key']}"}
        all_there.wait(60)
        statuses = []
        for text in said(session):
            body = {"model": "any", "messages": [{"role": "user", "content": text}]}
            reply = httpx.post(f"{server.capture}/v1/chat/completions", json=body, headers=headers, timeout=60, verify=False)
            statuses.append(reply.status_code)
        return statuses

    with ThreadPoolExecutor(len(sessions)) as pool:
        assert list(pool.map(play, sessions)) == [[200] * 4] * len(sessions)
    for session in sessions:
        server.admin.delete(f"/sessions/{session['id']}")
        calls = server.calls(session["id"])
        assert [json.loads(call.received.body)["messages"][0]["content"] for call in calls] == said(session)
        assert {call.outcome for call in calls} == {"complete"}
    assert server.stop() == 0


def children(process: subprocess.Popen[str]) -> list[int]:
    return [int(number) for number in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def test_a_worker_that_is_killed_is_started_anew_and_none_outlives_its_parent(start) -> None:
    server = start("--workers", "2")
    session = server.open()
    before = children(server.process)
    assert len(before) == 2
    os.kill(before[0], signal.SIGKILL)
    answers = [httpx.get(f"{server.control}/health", timeout=60, verify=False).status_code for _ in range(8)]
    assert answers == [200] * 8
    for _ in range(4):
        assert server.ask(session) == "Done."
    workers = {os.pidfd_open(number) for number in children(server.process)}
    assert len(workers) == 2
    server.process.kill()
    server.process.wait(60)
    for worker in workers:
        assert select_ready(worker)
        os.close(worker)


def select_ready(pidfd: int) -> bool:
    """Whether the process ended, at the latest within a minute."""
    return bool(select.select([pidfd], [], [], 60)[0])


def test_what_was_delivered_is_in_the_journal_after_a_kill(start, tmp_path) -> None:
    server = start()
    session = server.open(id="attempt-1")
    for _ in range(3):
        server.ask(session)
    server.stop(signal.SIGKILL)
    assert [call.outcome for call in read_calls(tmp_path / "journals" / "attempt-1")] == ["complete"] * 3
    again = start()
    assert again.admin.get("/sessions/attempt-1").json()["state"] == "interrupted"
    assert len(again.calls("attempt-1")) == 3
    assert again.admin.post("/sessions", json={"id": "attempt-1"}).status_code == 409


def test_a_stop_with_a_call_in_flight_ends_cleanly_and_records_it(start, engine, tmp_path) -> None:
    server = start()
    session = server.open(id="attempt-1")
    never = asyncio.Event()
    engine.faults = [Fault("slow", after=2, event=never)]
    with openai.OpenAI(base_url=session["base_urls"]["openai"], api_key=session["key"], max_retries=0, timeout=60) as sdk:
        stream = iter(sdk.chat.completions.create(model="any", messages=MESSAGES, stream=True))
        next(stream)
        assert server.stop() == 0
        with pytest.raises((openai.APIError, httpx.HTTPError)):
            list(stream)
    assert [call.outcome for call in read_calls(tmp_path / "journals" / "attempt-1")] == ["cancelled"]
    assert server.process.stderr.read() == ""


def test_without_an_engine_nothing_starts(environment) -> None:
    assert "--llm-url" in refused([sys.executable, "-m", "pytest_harness.cli", "serve"], environment)


def test_an_engine_that_is_not_there_is_one_sentence(environment) -> None:
    command = [sys.executable, "-m", "pytest_harness.cli", "serve", "--llm-url", "http://127.0.0.1:9"]
    assert "cannot be reached" in refused(command, environment)


def test_an_engine_without_ids_is_refused_and_served_at_a_lower_level(command, environment, engine, start) -> None:
    engine.faults = [Fault("null_ids")]
    said = refused(command, environment)
    assert "token_ids" in said
    assert "--level logprobs" in said
    server = start("--level", "logprobs")
    assert server.said["engine"] == "served, level logprobs, logprobs processed"
    assert server.admin.post("/sessions", json={"purpose": "train"}).status_code == 409
    assert server.open(purpose="eval")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--host", "0.0.0.0"], "--admin-key-env"),
        (["--host", "0.0.0.0", "--no-admin-key"], "--no-admin-key"),
        (["--no-admin-key", "--admin-key-env", "ADMIN_KEY"], "contradict"),
        (["--admin-key-env", "NOT_SET"], "NOT_SET"),
        (["--admin-key-env", "SHORT_KEY"], "shorter than"),
        (["--level", "best"], "tokens, logprobs, text"),
        (["--workers", "0"], "--workers"),
        (["--control-port", "99999"], "--control-port"),
        (["--model", "other"], "does not serve other"),
    ],
)
def test_what_cannot_be_served_is_one_sentence(command, environment, tmp_path, options, named) -> None:
    environment["SHORT_KEY"] = "short"
    assert named in refused([*command, "--journal-dir", str(tmp_path / "j"), *options], environment)


def test_a_port_that_is_taken_is_one_sentence(command, environment, tmp_path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert port in refused([*command, "--journal-dir", str(tmp_path / "j"), "--capture-port", port], environment)
