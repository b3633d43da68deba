"""Tool calls to which the engine gave no id reach the harness with one."""

from __future__ import annotations

import json
import re

import pytest

from pytest_harness.capture.dialects.chat import read_request
from pytest_harness.capture.dialects.chat_reply import event_of
from pytest_harness.capture.relays import ChatRelay
from pytest_harness.capture.sse import EventSplitter

NO_ID = [{"id": None}, {"id": ""}, {}]
GIVEN = re.compile(r"call_[0-9a-f]{24}")


def call(fields, **more):
    return {**fields, "type": "function", "function": {"name": "bash", "arguments": "{}"}, **more}


def notes_of(*ids: str) -> tuple[str, ...]:
    return tuple(f"the engine gave call {place} no id; {id_} was filled in" for place, id_ in enumerate(ids))


@pytest.mark.parametrize("fields", NO_ID)
@pytest.mark.parametrize("buffered", [False, True])
def test_calls_without_ids_get_different_ones_that_the_record_names(harness, engine, make, fields, buffered) -> None:
    document = make.completion()
    document["choices"][0]["message"]["tool_calls"] = [call(fields), call(fields), call({"id": "call_own"})]
    engine.answer = lambda body: make.whole(document)
    if buffered:
        relay = ChatRelay(read_request(b'{"stream":true}'))
        body, _ = relay.as_stream(json.dumps(document).encode())
        deltas = [json.loads(line[6:])["choices"][0]["delta"] for line in body.decode().split("\n\n") if line.startswith("data: {")]
        ids = [made["id"] for delta in deltas for made in delta.get("tool_calls", ())]
        notes = relay.notes
    else:
        ids = [made["id"] for made in harness.ask().json()["choices"][0]["message"]["tool_calls"]]
        [recorded] = harness.recorded()
        notes = recorded.notes
        assert json.loads(recorded.replied.body) == document
        assert ids[0] in recorded.delivered.body
    assert ids[2] == "call_own"
    assert len(set(ids)) == 3
    assert all(map(GIVEN.fullmatch, ids[:2]))
    assert notes == notes_of(*ids[:2])


@pytest.mark.parametrize("fields", NO_ID)
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"], ids=["fast", "plain"])
def test_a_streamed_call_gets_its_id_in_its_first_fragment_alone(make, fields, newline) -> None:
    deltas = [
        {"role": "assistant", "content": ""},
        {"tool_calls": [{"index": 0, **call(fields)}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": "a"}}]},
        {"tool_calls": [{"index": 0, "id": None, "function": {"arguments": "b"}}, {"index": 1, **call(fields)}]},
        {"tool_calls": [{"index": 2, **call({"id": "call_own"})}]},
        {"tool_calls": [{"index": 2, **fields, "function": {"arguments": "c"}}]},
    ]
    stream = b"".join(event_of({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}) for delta in deltas)
    relay, splitter = ChatRelay(read_request(b'{"stream":true}')), EventSplitter()
    told = []
    for event in splitter.feed(stream.replace(b"\n", newline)):
        out = b"".join(span if isinstance(span, bytes) else event.raw[slice(*span)] for span in relay.event(event).spans)
        told.append(json.loads(out[6:])["choices"][0]["delta"])
    first, second = told[1]["tool_calls"][0]["id"], told[3]["tool_calls"][1]["id"]
    assert GIVEN.fullmatch(first)
    assert GIVEN.fullmatch(second)
    assert first != second
    assert relay.notes == notes_of(first, second)
    deltas[1]["tool_calls"][0]["id"], deltas[3]["tool_calls"][1]["id"] = first, second
    assert told == deltas


def test_the_first_calls_of_two_choices_are_two_calls() -> None:
    choice = {"index": 0, "message": {"tool_calls": [call({})]}}
    relay = ChatRelay(read_request(b'{"n":2}'))
    [body] = relay.whole(json.dumps({"choices": [choice, choice]}).encode(), b"").spans
    ids = [choice["message"]["tool_calls"][0]["id"] for choice in json.loads(body)["choices"]]
    assert len(set(ids)) == 2
    assert relay.notes[1] == f"the engine gave call 0 of choice 1 no id; {ids[1]} was filled in"
