"""A proxy killed at any moment: what a client has to its last byte is in the journal, and the journal can be read.

One process imports the proxy once and forks a child for each point, so that a point costs milliseconds. The moment is a number of
bytes: those that the harnesses send, that the engine sends, or that the harnesses get are counted, and the kill comes when a drawn
number of them has passed. What the kernel still has for a harness counts as delivered: it had left the proxy.
"""

from __future__ import annotations

import json
import os
import random
import re
import secrets
import select
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import h11
import httpx
import pytest

from pytest_harness.capture import read_journal

POINTS = 200
HARNESSES = 3
LONGEST = {"asked": 12, "said": 18, "got": 18}
"""What is counted, and the binary logarithm of the most bytes that pass before a kill."""

LAST_WORDS = {
    "chat": b"data: [DONE]",
    "messages": b"event: message_stop",
    "responses": b"event: response.completed",
    "gemini": b'"finishReason"',
}
"""What is in the last event of a dialect's stream, and in no other."""

LONG = 60_000
"""Signs in each fifth reply, more than the kernel takes at once: a kill finds it written down and half on its way."""

NAME = re.compile(r"call \d+-\d+-\d+")

NURSERY = """
import os, socket, sys
from pathlib import Path
import uvicorn.lifespan.off
import uvicorn.protocols.http.httptools_impl
from pytest_harness.capture import CaptureProxy, Upstream
from pytest_harness.serving import BackgroundServer

for line in sys.stdin:
    engine, journal = line.rstrip("\\n").split("\\t")
    child = os.fork()
    if child:
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    proxy = CaptureProxy()
    session = proxy.open_session(Upstream(url=engine, model="served"), journal=Path(journal))
    server = BackgroundServer(proxy).start()
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 32_768)  # the kernel does not take a long reply at once
    print(os.getpid(), server.listen(listening).url, session.key, flush=True)
    sys.stdin.read()  # the test has gone away
    os._exit(0)
"""


def name_in(body: str) -> str:
    return NAME.search(body)[0]


def question(dialect: str, text: str, streamed: bool):
    """A request's path and body."""
    if dialect == "gemini":
        method = "streamGenerateContent?alt=sse" if streamed else "generateContent"
        return f"/v1beta/models/any:{method}", {"contents": [{"role": "user", "parts": [{"text": text}]}]}
    if dialect == "responses":
        return "/v1/responses", {"model": "any", "input": text, "stream": streamed}
    body = {"model": "any", "messages": [{"role": "user", "content": text}], "stream": streamed}
    return ("/v1/chat/completions", body) if dialect == "chat" else ("/v1/messages", body | {"max_tokens": 100})


class Nursery:
    """Makes proxies, one at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen([sys.executable, "-c", NURSERY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def bear(self, engine: str, journal: str) -> tuple[int, str, str]:
        """A proxy's process, URL and key."""
        self._process.stdin.write(f"{engine}\t{journal}\n")
        self._process.stdin.flush()
        process, url, key = self._hear().split()
        return int(process), url, key

    def exit_code(self) -> int:
        """How the last proxy ended; nothing of it runs any more."""
        return int(self._hear())

    def _hear(self) -> str:
        assert select.select([self._process.stdout], [], [], 30)[0], "the process that makes the proxies is silent"
        return self._process.stdout.readline()

    def close(self) -> None:
        self._process.communicate(timeout=30)
        assert self._process.returncode == 0


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    made = Nursery()
    yield made
    made.close()


class Fuse:
    """Kills a process when so many bytes of what is counted have passed."""

    def __init__(self, process: int, counted: str, length: int) -> None:
        self._process = process
        self._counted = counted
        self._left = length
        self._lock = threading.Lock()

    def burn(self, what: str, count: int) -> None:
        if what != self._counted:
            return
        with self._lock:
            alive = self._left > 0
            self._left -= count
            if alive and self._left <= 0:
                os.kill(self._process, signal.SIGKILL)


@dataclass
class Asked:
    """A call as its client knows it."""

    name: str
    number: int
    dialect: str
    streamed: bool
    request: bytes
    body: bytes = b""
    """What came of the reply."""
    ended: bool = False
    said: bytes | None = None
    """The engine's reply; None if the call did not get there."""

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(range(self.number, self.number + 3))

    @property
    def has_the_last_byte(self) -> bool:
        return self.ended or (self.streamed and LAST_WORDS[self.dialect] in self.body and self.body.endswith((b"\n\n", b"\r\n\r\n")))


@dataclass
class Point:
    """One proxy's life: several harnesses ask until it is killed."""

    make: type
    url: httpx.URL
    key: str
    fuse: Fuse
    asked: dict[str, Asked] = field(default_factory=dict)

    def answer(self, body):
        """What the engine says."""
        self.fuse.burn("said", 1)
        asked = self.asked.get(name_in(json.dumps(body)))
        if asked is None:  # of a proxy that was killed before
            return self.make.whole()
        prompt, ids = [asked.number], list(asked.ids)
        text = asked.name + "✓" * (LONG if asked.number % 5 == 0 else 1)
        if asked.streamed:
            parts = [
                self.make.event(self.make.chunk({"role": "assistant", "content": ""}, ids[:1], prompt_token_ids=prompt)),
                self.make.event(self.make.chunk({"content": text}, ids[1:])),
                self.make.event(self.make.chunk({}, [], "stop")),
                self.make.event("[DONE]"),
            ]
        else:
            document = self.make.completion(prompt_token_ids=prompt)
            document["choices"][0] |= {"token_ids": ids, "logprobs": self.make.chunk({}, ids)["choices"][0]["logprobs"]}
            document["choices"][0]["message"]["content"] = text
            whole = json.dumps(document).encode()
            parts = [whole[: len(whole) // 2], whole[len(whole) // 2 :]]
        asked.said = b"".join(parts)
        answer = self.make.Answer(self._counted(parts))
        return self.make.Answer(answer.parts, headers=self.make.SSE) if asked.streamed else answer

    def _counted(self, parts: list[bytes]) -> Iterator[bytes]:
        for part in parts:
            yield part
            self.fuse.burn("said", len(part))

    def harness(self, worker: str, chance: random.Random) -> None:
        """Ask, one call after the other on one connection, until nobody is there."""
        try:
            with socket.socket() as connection:
                connection.settimeout(30)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32_768)
                connection.connect((self.url.host, self.url.port))
                protocol = h11.Connection(h11.CLIENT)
                while self._call(f"call {worker}-{len(self.asked)}", connection, protocol, chance):
                    protocol.start_next_cycle()
        except ConnectionError:
            pass

    def _call(self, name: str, connection: socket.socket, protocol: h11.Connection, chance: random.Random) -> bool:
        dialect, streamed = chance.choice(list(LAST_WORDS)), chance.random() < 0.5
        path, body = question(dialect, name, streamed)
        request = json.dumps(body).encode()
        asked = self.asked[name] = Asked(name, chance.randrange(100_000), dialect, streamed, request)
        headers = {"host": "proxy", "authorization": f"Bearer {self.key}", "content-length": str(len(request))}
        data = protocol.send(h11.Request(method="POST", target=path, headers=list(headers.items())))
        data += protocol.send(h11.Data(request)) + protocol.send(h11.EndOfMessage())
        middle = chance.randrange(len(data))
        for part in (data[:middle], data[middle:]):
            connection.sendall(part)
            self.fuse.burn("asked", len(part))
        while True:
            event = protocol.next_event()
            if event is h11.NEED_DATA:
                received = connection.recv(chance.choice((10, 100, 1_000, 100_000)))
                self.fuse.burn("got", len(received))
                if not received:
                    return False
                protocol.receive_data(received)
            elif isinstance(event, h11.Data):
                asked.body += event.data
            elif isinstance(event, h11.EndOfMessage):
                asked.ended = True
                return True
            else:
                assert event.status_code == 200


def phase(asked: Asked, recorded: bool) -> str:
    """Where a call was when its proxy was killed."""
    if asked.has_the_last_byte:
        return "delivered"
    if recorded:
        return "recorded"
    return "not forwarded" if asked.said is None else "forwarded"


def test_a_proxy_killed_at_any_moment_has_written_down_every_delivered_call(nursery, engine, engine_url, make, tmp_path) -> None:
    seed = int(os.environ.get("KILL_SEED") or secrets.randbits(32))
    print(f"KILL_SEED={seed}")
    chance = random.Random(seed)
    phases: Counter[str] = Counter()
    with ThreadPoolExecutor(HARNESSES) as pool:
        for number in range(POINTS):
            journal = tmp_path / f"{number}.journal"
            counted, longest = chance.choice(list(LONGEST.items()))
            fuse_length = chance.randrange(1, 2 ** chance.randint(6, longest))
            process, url, key = nursery.bear(engine_url, str(journal))
            point = Point(make, httpx.URL(url), key, Fuse(process, counted, fuse_length))
            engine.answer = point.answer
            at_work = [pool.submit(point.harness, f"{number}-{worker}", random.Random(chance.random())) for worker in range(HARNESSES)]
            for harness in at_work:
                harness.result()
            assert nursery.exit_code() == -signal.SIGKILL

            calls = read_journal(journal)
            recorded = {name_in(call.received.body): call for call in calls}
            assert len(recorded) == len(calls)
            assert recorded.keys() <= point.asked.keys()
            for asked in point.asked.values():
                call = recorded.get(asked.name)
                phases[phase(asked, call is not None)] += 1
                if call is None:
                    assert not asked.has_the_last_byte, f"point {number}: {asked.name} was delivered and is not in the journal"
                    continue
                assert (call.outcome, call.dialect, call.streamed) == ("complete", asked.dialect, asked.streamed)
                assert call.received.body.encode() == asked.request
                assert call.replied.body.encode() == asked.said
                delivered = call.delivered.body.encode()
                assert delivered == asked.body if asked.has_the_last_byte else delivered.startswith(asked.body)
                assert call.prompt_ids == (asked.number,)
                assert [sample.token_ids for sample in call.samples] == [asked.ids]
    print(phases)
    assert all(phases[name] for name in ("not forwarded", "forwarded", "recorded", "delivered")), phases
