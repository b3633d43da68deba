"""Streams: passed on as they come, less what the harness did not ask for; the last words only when the call is written down."""

from __future__ import annotations

import json

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_harness.capture.dialects.chat import read_request
from pytest_harness.capture.dialects.chat_reply import read_ids
from pytest_harness.capture.relays import ChatRelay
from pytest_harness.capture.sse import EventSplitter, ServerSentEvent


def stream(harness, **fields):
    body = {"model": "any", "stream": True, "messages": [{"role": "user", "content": "Hello"}], **fields}
    return harness.http.stream("POST", "/v1/chat/completions", json=body)


def read(harness, **fields) -> str:
    with stream(harness, **fields) as reply:
        assert reply.status_code == 200
        return reply.read().decode()


def documents(text: str):
    return [json.loads(data.removeprefix("data: ")) for data in text.split("\n\n") if data.startswith("data: {")]


def test_the_harness_gets_the_stream_an_engine_sends_to_one_that_asked_for_no_ids(harness) -> None:
    text = read(harness)
    chunks = documents(text)
    assert [chunk["choices"][0]["delta"] for chunk in chunks] == [
        {"role": "assistant", "content": ""},
        {"content": "Hi"},
        {"content": " ✓"},
        {},
    ]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None, None, None, "stop"]
    assert all(chunk["choices"][0]["logprobs"] is None for chunk in chunks)
    assert "token_ids" not in text
    assert text.endswith("data: [DONE]\n\n")


def test_a_streamed_call_is_recorded_in_all_four_forms(harness, make) -> None:
    text = read(harness)
    [call] = harness.session.close()
    assert (call.outcome, call.delivery, call.streamed) == ("complete", "delivered", True)
    assert call.replied.body == b"".join(make.events()).decode()
    assert call.delivered.body == text
    assert call.prompt_ids == (1, 2, 3)
    [sample] = call.samples
    assert (sample.token_ids, sample.logprobs, sample.finish_reason) == ((7, 8, 9, 4), (-0.875, -1.0, -1.125, -0.5), "stop")


def test_a_harness_gets_the_usage_and_the_logprobs_it_asked_for(harness) -> None:
    chunks = documents(read(harness, logprobs=True, stream_options={"include_usage": True}))
    assert len(chunks) == 6
    assert chunks[-1]["usage"]["total_tokens"] == 7
    assert [entry["logprob"] for chunk in chunks[1:5] for entry in chunk["choices"][0]["logprobs"]["content"]] == [
        -0.875,
        -1.0,
        -1.125,
        -0.5,
    ]


def test_the_sdk_reads_the_stream(harness) -> None:
    with harness.sdk.chat.completions.create(model="any", messages=[], stream=True) as chunks:
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Hi ✓"


def test_an_event_is_passed_on_when_it_comes(harness, engine, make) -> None:
    gate = make.Gate()
    first, *others = make.events()
    engine.answer = lambda body: make.Answer([first, gate, *others], headers=make.SSE)
    with stream(harness) as reply:
        pieces = reply.iter_raw()
        assert b'"role": "assistant"' in next(pieces)
        gate.open()
        assert b"".join(pieces).endswith(b"[DONE]\n\n")


def test_the_last_words_wait_for_the_journal_and_heartbeats_wait_for_nothing(harness, engine, make) -> None:
    gate = make.Gate()
    engine.answer = lambda body: make.Answer([*make.events()[:5], b": ping\n\n", gate, *make.events()[5:]], headers=make.SSE)
    with stream(harness) as reply:
        pieces = reply.iter_raw()
        seen = b""
        while b": ping" not in seen:
            seen += next(pieces)
        assert b"Hi" in seen
        assert b'"finish_reason": "stop"' not in seen
        assert harness.recorded() == ()
        gate.open()
        while b"[DONE]" not in seen:
            seen += next(pieces)
        assert len(harness.recorded()) == 1
    assert seen.count(b'"finish_reason": "stop"') == 1


def test_what_follows_a_choice_s_finish_is_not_delayed_by_it(harness, engine, make) -> None:
    gate = make.Gate()
    done = make.chunk({}, [4], "stop")
    other = make.chunk({"content": "second"}, [5])
    other["choices"][0]["index"] = 1
    last = make.chunk({}, [6], "length")
    last["choices"][0]["index"] = 1
    parts = [make.event(done), make.event(other), gate, make.event(last), make.event("[DONE]")]
    engine.answer = lambda body: make.Answer(parts, headers=make.SSE)
    with stream(harness, n=2) as reply:
        pieces = reply.iter_raw()
        seen = b""
        while b"second" not in seen:
            seen += next(pieces)
        assert seen.index(b'"stop"') < seen.index(b"second")
        gate.open()
        b"".join(pieces)
    [call] = harness.session.close()
    assert [(sample.index, sample.token_ids, sample.finish_reason) for sample in call.samples] == [(0, (4,), "stop"), (1, (5, 6), "length")]


def test_the_headers_are_those_of_a_stream(harness) -> None:
    with stream(harness) as reply:
        reply.read()
    assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert reply.headers["cache-control"] == "no-cache"


def outcome_of(pieces: list[bytes]) -> tuple[bytes, object]:
    """What a stream in these pieces comes to, without a network."""
    relay, splitter = ChatRelay(read_request(b'{"stream":true}')), EventSplitter()
    told = b""
    for piece in pieces:
        for event in splitter.feed(piece):
            for span in relay.event(event).spans:
                told += span if isinstance(span, bytes) else event.raw[slice(*span)]
    assert splitter.rest() is None
    return told, read_ids(b"".join(pieces), streamed=True)


@given(data=st.data(), end=st.sampled_from(["\n", "\r\n"]))
def test_any_split_of_the_bytes_gives_the_same_result(make, data, end) -> None:
    raw = b"".join([b": ping\n\n", *make.events()]).replace(b"\n", end.encode())
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=40)))
    pieces = [raw[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    assert outcome_of(pieces) == outcome_of([raw])


@given(
    lines=st.lists(st.sampled_from([b"data: a", b"data:b", b"event: x", b": c", b"data", b"\xff"]), max_size=8),
    ends=st.lists(st.sampled_from([b"\n", b"\r\n", b"\r", b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\r\n"]), min_size=8, max_size=8),
    data=st.data(),
)
def test_the_splitter_loses_no_byte_and_cuts_the_same_events_whatever_the_pieces(lines, ends, data) -> None:
    raw = b"".join(line + end for line, end in zip(lines, ends, strict=False))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=10)))

    def split(pieces: list[bytes]) -> list[bytes]:
        splitter = EventSplitter()
        found = [event.raw for piece in pieces for event in splitter.feed(piece)]
        rest = splitter.rest()
        return found if rest is None else [*found, rest.raw]

    pieces = [raw[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    assert split(pieces) == split([raw])
    assert b"".join(split([raw])).strip() == raw.strip()


def test_replacing_the_data_of_an_event_keeps_its_other_fields() -> None:
    event = ServerSentEvent(b"event: x\r\nid: 1\r\ndata: a\r\ndata:b\r\n\r\n")
    assert event.data == b"a\nb"
    assert event.with_data(b"c") == b"event: x\nid: 1\ndata: c\n\n"


@pytest.mark.parametrize("size", [1, 7])
def test_small_pieces_over_the_wire_give_the_same_record(open_harness, engine, make, size) -> None:
    raw = b"".join(make.events())
    one, other = open_harness(), open_harness()
    text = read(one)
    engine.answer = lambda body: make.Answer([raw[at : at + size] for at in range(0, len(raw), size)], headers=make.SSE)
    assert read(other) == text
    [first], [second] = one.session.close(), other.session.close()
    assert (first.prompt_ids, first.samples, first.replied.body) == (second.prompt_ids, second.samples, second.replied.body)


def test_a_stream_without_its_last_blank_line_is_whole(harness, engine, make) -> None:
    engine.answer = lambda body: make.Answer([b"".join(make.events()).rstrip(b"\n")], headers=make.SSE)
    assert "data: [DONE]" in read(harness)
    assert harness.session.close()[0].outcome == "complete"


def test_a_whole_reply_to_a_request_for_a_stream_is_passed_on(harness, engine, make) -> None:
    engine.answer = lambda body: make.whole()
    reply = httpx.Response(200, text=read(harness))
    assert reply.json()["choices"][0]["message"]["content"] == "Hi ✓"
