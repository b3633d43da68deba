"""The journal: what is on disk, when, and how it is read again."""

from __future__ import annotations

import json
import os
import resource
import signal
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_harness.capture import JournalError, read_journal
from pytest_harness.capture.journal import Journal
from pytest_harness.capture.redaction import REDACTED, Redactor


def test_a_delivered_reply_is_already_written_down(harness) -> None:
    harness.ask()
    assert len(harness.recorded()) == 1


def test_calls_are_read_in_order_of_arrival_though_they_ended_otherwise(harness, engine, make) -> None:
    gate = make.Gate()

    def answer(body):
        text = json.dumps(make.completion()).encode()
        return make.Answer([gate, text] if body["messages"][0]["content"] == "first" else [text])

    engine.answer = answer
    with ThreadPoolExecutor() as pool:
        first = pool.submit(harness.ask, messages=[{"role": "user", "content": "first"}])
        assert gate.reached.wait(20)
        harness.ask(messages=[{"role": "user", "content": "second"}])
        gate.open()
        first.result()
    calls = harness.session.close()
    assert [(call.index, json.loads(call.received.body)["messages"][0]["content"]) for call in calls] == [(0, "first"), (1, "second")]
    lines = [json.loads(line) for line in harness.session.journal.path.read_text().splitlines()]
    assert [(line["record"], line.get("index")) for line in lines] == [("call", 1), ("delivery", None), ("call", 0), ("delivery", None)]
    assert harness.session.call_count == 2


def test_a_journal_is_for_its_owner_only(harness) -> None:
    assert stat.S_IMODE(harness.session.journal.path.stat().st_mode) == 0o600


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
def test_a_journal_torn_at_any_byte_gives_every_call_before_the_tear(harness, data) -> None:
    if not harness.recorded():
        harness.ask()
        harness.ask(stream=True)
        harness.settle()
    path = harness.session.journal.path
    whole = path.read_bytes()
    cut = data.draw(st.integers(0, len(whole)))
    torn = path.with_name("torn.ndjson")
    torn.write_bytes(whole[:cut])
    written = [json.loads(line) for line in whole[:cut].split(b"\n")[:-1]]
    calls = read_journal(torn)
    assert [call.id for call in calls] == [line["id"] for line in written if line["record"] == "call"]
    assert [call.delivery for call in calls if call.delivery == "delivered"] == ["delivered"] * sum(
        line["record"] == "delivery" for line in written
    )


@pytest.mark.parametrize(
    "damage",
    [
        b"{torn",
        b"null",
        b'{"record":"call"}',
        b'{"record":"other"}',
        b'{"record":"delivery","id":"x","delivery":"delivered","at":1}',
        b"\xff",
        b"",
    ],
)
def test_a_damaged_line_is_named(harness, damage) -> None:
    harness.ask()
    harness.settle()
    path = harness.session.journal.path
    damaged = path.with_name("damaged.ndjson")
    first, second, _ = path.read_bytes().split(b"\n")
    damaged.write_bytes(b"\n".join([first, damage, second, b""]))
    with pytest.raises(JournalError, match=r"damaged\.ndjson, line 2"):
        read_journal(damaged)


def test_a_missing_journal_is_a_sentence(tmp_path) -> None:
    with pytest.raises(JournalError, match="cannot be read"):
        read_journal(tmp_path / "none")


@pytest.mark.parametrize("stream", [False, True])
def test_what_cannot_be_recorded_is_not_delivered(harness, stream) -> None:
    path = harness.session.journal.path
    os.close(harness.session.journal._file)
    harness.session.journal._file = os.open(path, os.O_RDONLY)
    text = harness.ask(stream=stream).text
    assert "could not record the call" in text
    assert "[DONE]" not in text
    assert '"stop"' not in text
    with pytest.raises(JournalError, match="disk has room"):
        harness.session.close()
    harness.session._failure = None
    assert path.read_bytes() == b""


def test_half_a_line_is_taken_back_when_the_disk_is_full(harness, tmp_path) -> None:
    harness.ask()
    [call] = harness.recorded()
    journal = Journal(tmp_path / "full.ndjson")
    journal.write_call(call)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (journal.path.stat().st_size + 100, limits[1]))
    try:
        with pytest.raises(JournalError, match="disk has room"):
            journal.write_call(call)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    journal.write_call(call.model_copy(update={"id": "another", "index": 1}))
    journal.close()
    assert [call.index for call in read_journal(journal.path)] == [0, 1]


def test_no_secret_is_in_the_journal(harness, engine, make) -> None:
    key = harness.session.key
    escaped = "".join(f"\\u{ord(character):04x}" for character in key)
    echoed = make.completion()
    echoed["choices"][0]["message"]["content"] = f"{make.ENGINE_KEY} {key}"
    engine.answer = lambda body: make.Answer(
        [json.dumps(echoed).encode()], headers={"x-key": make.ENGINE_KEY, "content-type": "application/json"}
    )
    reply = harness.http.post(
        f"/v1/chat/completions?key={key}",
        content=f'{{"messages": [{{"role": "user", "content": "{key} {escaped}"}}]}}'.encode(),
        headers={"x-api-key": "other-secret", "cookie": "cookie-secret", "x-note": f"see {key}"},
    )
    assert make.ENGINE_KEY not in reply.text + str(reply.headers)
    assert reply.json()["choices"][0]["message"]["content"] == f"{REDACTED} {key}"
    engine.answer = lambda body: make.Answer([f"wrong key {make.ENGINE_KEY}".encode()], 401)
    assert make.ENGINE_KEY not in harness.ask().text
    harness.session.close()
    written = harness.session.journal.path.read_text()
    for secret in (key, make.ENGINE_KEY, "other-secret", "cookie-secret", escaped, json.dumps(escaped)[1:-1]):
        assert secret not in written
    assert written.count(REDACTED) > 10


@given(
    secret=st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp", "Cs"]), min_size=8, max_size=20),
    around=st.text(max_size=5),
    ascii_only=st.booleans(),
)
def test_a_secret_is_found_in_a_text_and_in_json(secret, around, ascii_only) -> None:
    redactor = Redactor([secret])
    once = json.dumps(around + secret + around, ensure_ascii=ascii_only)
    twice = json.dumps(once, ensure_ascii=ascii_only)
    for text in (secret, once, twice):
        assert REDACTED in redactor.text(text)


def test_a_placeholder_for_a_key_does_not_tear_texts_apart() -> None:
    assert Redactor(["EMPTY", None]).text("The list is EMPTY") == "The list is EMPTY"


CHILD = """
import sys
from pathlib import Path
from pytest_harness.capture import CaptureProxy, Upstream
from pytest_harness.serving import BackgroundServer
proxy = CaptureProxy()
with BackgroundServer(proxy) as server:
    session = proxy.open_session(Upstream(url=sys.argv[1], model="served"), journal=Path(sys.argv[2]))
    print(server.listen().url, session.key, flush=True)
    sys.stdin.read()
"""


def test_a_killed_proxy_has_written_down_every_delivered_call(engine, engine_url, make, tmp_path) -> None:
    def answer(body):
        text = body["messages"][0]["content"]
        if body.get("stream"):
            return make.Answer([make.event(make.chunk({"content": text}, [1], "stop")), make.event("[DONE]")], headers=make.SSE)
        document = make.completion()
        document["choices"][0]["message"]["content"] = text
        return make.whole(document)

    engine.answer = answer
    journal = tmp_path / "journal.ndjson"
    enough = threading.Event()
    delivered: list[str] = []

    with subprocess.Popen(
        [sys.executable, "-c", CHILD, engine_url, str(journal)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        url, key = child.stdout.readline().split()

        def work(worker: int) -> None:
            with httpx.Client(base_url=url, headers={"authorization": f"Bearer {key}"}, timeout=20, verify=False) as client:
                for number in range(10_000):
                    name = f"{worker}-{number}"
                    body = {"messages": [{"role": "user", "content": name}], "stream": number % 2 == 0}
                    try:
                        reply = client.post("/v1/chat/completions", json=body)
                    except httpx.TransportError:
                        return
                    assert f'"{name}"' in reply.text
                    delivered.append(name)
                    if len(delivered) > 100:
                        enough.set()

        with ThreadPoolExecutor() as pool:
            workers = [pool.submit(work, worker) for worker in range(4)]
            assert enough.wait(30)
            child.send_signal(signal.SIGKILL)
            for worker in workers:
                worker.result()

    recorded = {json.loads(call.received.body)["messages"][0]["content"]: call for call in read_journal(journal)}
    assert len(delivered) > 100
    assert set(delivered) <= set(recorded)
    assert all(recorded[name].outcome == "complete" for name in delivered)
