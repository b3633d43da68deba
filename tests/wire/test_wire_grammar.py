"""The grammar of each dialect's stream, on the smallest streams there are."""

import json

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from pytest_harness.wire.encodings import brotli_stored, zstd_stored
from pytest_harness.wire.grammar import events_of, faults_of


def chunk(delta, finish=None):
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return None, {"id": "x", "object": "chat.completion.chunk", "choices": [choice]}


DONE = (None, "[DONE]")
CALL = {"index": 0, "id": "c", "function": {"name": "bash", "arguments": ""}}
MESSAGES = [
    {"type": "message_start", "message": {"content": [], "stop_reason": None}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta"},
    {"type": "message_stop"},
]
RESPONSES = [
    {"type": "response.created", "sequence_number": 0, "response": {"id": "r"}},
    {"type": "response.output_item.added", "sequence_number": 1, "output_index": 0, "item": {"id": "i"}},
    {"type": "response.output_text.delta", "sequence_number": 2, "output_index": 0, "item_id": "i"},
    {"type": "response.output_item.done", "sequence_number": 3, "output_index": 0, "item": {"id": "i"}},
    {"type": "response.completed", "sequence_number": 4, "response": {"id": "r", "output": [{"id": "i"}]}},
]
GEMINI = [{"candidates": [{}]}, {"candidates": [{"finishReason": "STOP"}], "usageMetadata": {}}]


def named(documents):
    return [(document["type"], document) for document in documents]


@pytest.mark.parametrize(
    ("dialect", "events"),
    [
        ("chat", [chunk({"content": "a"}), chunk({"tool_calls": [CALL]}), chunk({}, "stop"), DONE]),
        ("messages", named(MESSAGES)),
        ("responses", named(RESPONSES)),
        ("gemini", [(None, document) for document in GEMINI]),
    ],
)
def test_a_stream_as_the_vendor_writes_it_has_no_faults(dialect, events):
    assert faults_of(dialect, events) == []


@pytest.mark.parametrize("dialect", ["chat", "messages", "responses", "gemini"])
def test_no_events_are_a_fault(dialect):
    assert faults_of(dialect, []) == ["there are no events"]


@pytest.mark.parametrize(
    "events",
    [
        [chunk({}, "stop")],
        [chunk({"content": "a"}), DONE],
        [chunk({}, "stop"), chunk({"content": "late"}), DONE],
        [chunk({}, "stop"), DONE, DONE],
        [chunk({"tool_calls": [{**CALL, "index": 1}]}), chunk({}, "stop"), DONE],
        [chunk({"tool_calls": [{**CALL, "id": None}]}), chunk({}, "stop"), DONE],
        [chunk({"tool_calls": [CALL]}), chunk({"tool_calls": [CALL]}), chunk({}, "stop"), DONE],
    ],
    ids=["no_done", "no_finish", "late", "two_ends", "index", "no_id", "named_twice"],
)
def test_a_fault_in_a_chat_stream_is_found(events):
    assert faults_of("chat", events)


@pytest.mark.parametrize(("dialect", "documents"), [("messages", MESSAGES), ("responses", RESPONSES)])
@given(data=st.data())
def test_no_event_may_be_left_out_or_moved(dialect, documents, data):
    at = data.draw(st.sampled_from([number for number, each in enumerate(documents) if not each["type"].endswith("delta")]))
    without = documents[:at] + documents[at + 1 :]
    other = data.draw(st.sampled_from([number for number in range(len(documents)) if number != at]))
    moved = [*without[:other], documents[at], *without[other:]]
    if not (dialect == "messages" and documents[at]["type"] == "content_block_stop" and moved == documents):
        assert faults_of(dialect, named(moved))


def test_an_event_that_lacks_its_fields_is_a_fault_and_no_crash():
    assert faults_of("messages", [("message_start", {"type": "message_start"}), ("content_block_start", {"type": "content_block_start"})])
    assert faults_of("gemini", [(None, {"candidates": [1]})])


def test_events_are_read_in_every_legal_form():
    body = b': hello\r\n\r\nevent: a\r\ndata: {"x":\r\ndata: 1}\r\n\r\ndata:[DONE]\n\n'
    assert events_of(body) == [("a", {"x": 1}), (None, "[DONE]")]


@given(st.binary(min_size=1, max_size=5000))
def test_stored_bodies_are_what_the_libraries_read(data):
    assert zstandard.ZstdDecompressor().decompress(zstd_stored(data)) == data
    assert brotli.decompress(brotli_stored(data)) == data


def test_a_body_beyond_one_block_is_refused():
    for store in (zstd_stored, brotli_stored):
        with pytest.raises(ValueError, match="do not fit"):
            store(json.dumps("x" * 200_000).encode())
