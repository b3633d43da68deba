"""The journal: what is on disk, when, and how it is read again."""

from __future__ import annotations

import errno
import json
import resource
import stat
import struct
import tempfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_harness.capture import JournalError, read_journal
from pytest_harness.capture.files import FILES, OPEN_FILES
from pytest_harness.capture.journal import _DECODER, MAGIC, CallRecord, Journal, Moments, Written, _CallFrame, _DeliveryFrame
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
    frames = [_DECODER.decode(payload) for _, payload in frames_of(harness.session.journal.path.read_bytes())]
    assert [(type(frame), frame.index) for frame in frames] == [(_CallFrame, 1), (_DeliveryFrame, 1), (_CallFrame, 0), (_DeliveryFrame, 0)]
    assert harness.session.call_count == 2


def test_a_journal_is_for_its_owner_only(harness) -> None:
    assert stat.S_IMODE(harness.session.journal.path.stat().st_mode) == 0o600


def frames_of(data: bytes) -> list[tuple[int, bytes]]:
    """Where each frame ends, and its payload; a torn one is left out."""
    frames = []
    at = len(MAGIC)
    while at + 8 <= len(data):
        size = struct.unpack_from("<I", data, at)[0]
        if at + 8 + size > len(data):
            break
        frames.append((at + 8 + size, data[at + 8 : at + 8 + size]))
        at += 8 + size
    return frames


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=200)
def test_a_journal_torn_at_any_byte_gives_every_call_before_the_tear(harness, data) -> None:
    if not harness.recorded():
        for stream in (False, True, False):
            harness.ask(stream=stream)
        harness.settle()
    path = harness.session.journal.path
    whole = path.read_bytes()
    cut = data.draw(st.integers(0, len(whole)))
    torn = path.with_name("torn.ndjson")
    torn.write_bytes(whole[:cut])
    written = [_DECODER.decode(payload) for end, payload in frames_of(whole) if end <= cut]
    calls = read_journal(torn)
    assert [call.id for call in calls] == [frame.id for frame in written if isinstance(frame, _CallFrame)]
    assert [call.delivery for call in calls].count("delivered") == sum(isinstance(frame, _DeliveryFrame) for frame in written)
    assert calls[: len(calls) - 1] == harness.recorded()[: max(0, len(calls) - 1)]


@pytest.mark.parametrize("at", [0, 4, 8, -1])
def test_a_damaged_frame_is_named(harness, at) -> None:
    harness.ask()
    harness.ask()
    harness.settle()
    path = harness.session.journal.path
    data = bytearray(path.read_bytes())
    first, second = (end for end, _ in frames_of(bytes(data))[:2])
    data[(first if at >= 0 else second) + at] ^= 1
    damaged = path.with_name("damaged.ndjson")
    damaged.write_bytes(data)
    with pytest.raises(JournalError, match=rf"damaged\.ndjson, byte {first}"):
        read_journal(damaged)


@pytest.mark.parametrize("payload", [b"\x90", b"\xc1", b"\x93\x02\x07\x01", msgspec.msgpack.encode([2, 7, "delivered", 1.0])])
def test_a_frame_that_is_none_is_named(harness, payload) -> None:
    harness.ask()
    harness.settle()
    path = harness.session.journal.path
    data = path.read_bytes()
    frame = struct.pack("<II", len(payload), zlib.crc32(payload)) + payload
    damaged = path.with_name("damaged.ndjson")
    damaged.write_bytes(data + frame + frame)
    with pytest.raises(JournalError, match=rf"damaged\.ndjson, byte {len(data)}"):
        read_journal(damaged)


def test_a_file_that_is_no_journal_is_a_sentence(tmp_path) -> None:
    other = tmp_path / "other.ndjson"
    other.write_text('{"record": "call"}\n')
    with pytest.raises(JournalError, match="not a journal"):
        read_journal(other)


def test_a_missing_journal_is_a_sentence(tmp_path) -> None:
    with pytest.raises(JournalError, match="cannot be read"):
        read_journal(tmp_path / "none")


@pytest.mark.parametrize("stream", [False, True])
def test_what_cannot_be_recorded_is_not_delivered(harness, stream, monkeypatch) -> None:
    def full(path, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(FILES, "append", full)
    text = harness.ask(stream=stream).text
    assert "could not record the call" in text
    assert "[DONE]" not in text
    assert '"stop"' not in text
    with pytest.raises(JournalError, match="disk has room"):
        harness.session.close()
    harness.session._failure = None
    assert harness.recorded() == ()


def record(index: int, text: str = "hello") -> CallRecord:
    return CallRecord(
        index=index,
        id=f"call-{index}",
        dialect="chat",
        method="POST",
        path="/",
        streamed=False,
        received=Written({}, text.encode()),
        outcome="refused",
        times=Moments(received=float(index)),
    )


def test_half_a_frame_is_taken_back_when_the_disk_is_full(tmp_path) -> None:
    journal = Journal(tmp_path / "full.ndjson")
    journal.write_call(record(0))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (journal.path.stat().st_size + 50, limits[1]))
    try:
        with pytest.raises(JournalError, match="disk has room"):
            journal.write_call(record(1, "x" * 1000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    journal.write_call(record(2))
    journal.close()
    assert [(call.index, call.received.body) for call in read_journal(journal.path)] == [(0, "hello"), (2, "hello")]


@given(bodies=st.lists(st.lists(st.sampled_from([b"alpha", b"beta", b"\xff", b"gamma" * 9]), max_size=6).map(b"".join), max_size=6))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_bodies_are_had_back_byte_for_byte_whatever_they_share(tmp_path, bodies) -> None:
    path = Path(tempfile.mkdtemp(dir=tmp_path)) / "journal"
    journal = Journal(path)
    for index, body in enumerate(bodies):
        one = record(index)
        one.received = Written({"n": str(index)}, body)
        one.forwarded = Written({"a": "b"}, body[::-1])
        one.replied = Written({}, b"<" + body + b">", 200)
        one.ids = (1, 1 + len(body))
        journal.write_call(one)
    journal.close()
    for index, (call, body) in enumerate(zip(read_journal(path), bodies, strict=True)):
        forms = (call.received.body, call.forwarded.body, call.replied.body)
        assert forms == tuple(data.decode("utf-8", "backslashreplace") for data in (body, body[::-1], b"<" + body + b">"))
        assert call.received.headers == {"n": str(index)}


def test_a_long_session_is_written_once_and_read_back_whole(tmp_path) -> None:
    journal = Journal(tmp_path / "long")
    ids = b"[1]"
    for index in range(50):
        ids = ids[:-1] + b"".join(b",%d" % (100_000 + number) for number in range(500)) + b"]"
        one = record(index, "m" * 2_600 * (index + 1))
        replied = b'{"choices":[],"prompt_token_ids":' + ids + b"}"
        one.replied = Written({"date": str(index)}, replied, 200)
        one.ids = (len(b'{"choices":[],"prompt_token_ids":'), len(replied) - 1)
        one.delivered = Written({}, status=200, recipe=[0, 13, b"}"])
        journal.write_call(one)
    assert journal.path.stat().st_size < 400_000
    calls = read_journal(journal.path)
    assert calls[-1].replied.body == replied.decode()
    assert calls[-1].delivered.body == '{"choices":[]}'
    assert len(calls[-1].received.body) == 130_000
    journal.close()


def test_a_thousand_sessions_at_rest_hold_few_descriptors(tmp_path) -> None:
    journals = [Journal(tmp_path / f"{number}") for number in range(1_000)]
    before = len(list(Path("/proc/self/fd").iterdir()))
    for journal in journals:
        journal.write_call(record(0))
    assert len(list(Path("/proc/self/fd").iterdir())) - before <= OPEN_FILES
    for journal in journals:
        journal.close()
    assert all(len(read_journal(journal.path)) == 1 for journal in journals[::100])


def test_a_closed_journal_takes_nothing_more(tmp_path) -> None:
    journal = Journal(tmp_path / "closed")
    journal.close()
    journal.close()
    with pytest.raises(JournalError, match="is closed"):
        journal.write_call(record(0))


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
    written = harness.session.journal.path.read_bytes().decode("utf-8", "backslashreplace")
    written += "".join(call.model_dump_json() for call in harness.recorded())
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
