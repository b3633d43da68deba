"""A reply that a client echoes gives the engine the assistant turn it sampled, whatever Gemini's clients do on the way."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_harness.capture.dialects.base import QUERY
from pytest_harness.capture.dialects.gemini import GeminiDialect
from pytest_harness.engines.scripted.tokenizer import ChatTokenizer

GEMINI = GeminiDialect()

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
NAMES = st.sampled_from(["read", "write", "run_shell_command"])
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3)
)
SPACING = st.sampled_from([(", ", ": "), (",", ":"), (" ,", " :  ")])


@st.composite
def turns(draw: st.DrawFn) -> dict[str, Any]:
    """An assistant message as an engine samples it."""
    message: dict[str, Any] = {"role": "assistant", "content": draw(TEXT)}
    reasoning = draw(TEXT)
    if reasoning:
        message["reasoning_content"] = reasoning
    calls = []
    for number in range(draw(st.integers(0, 3))):
        arguments = json.dumps(draw(st.dictionaries(TEXT, VALUES, max_size=3)), ensure_ascii=draw(st.booleans()), separators=draw(SPACING))
        function = {"name": draw(NAMES), "arguments": arguments}
        calls.append({"id": f"call-{draw(st.integers(0, 10**6))}-{number}", "type": "function", "function": function})
    if calls:
        message["tool_calls"] = calls
        message["content"] = message["content"] or None
    return message


def replied(message: dict[str, Any], *, streamed: bool, framing: str = "sse") -> list[dict[str, Any]]:
    """The documents that a client gets of a turn."""
    query = {QUERY: "alt=sse"} if framing == "sse" else {}
    route = GEMINI.route("POST", f"/v1beta/models/m:{'streamGenerateContent' if streamed else 'generateContent'}", query)
    assert route is not None
    _, reply = GEMINI.prepare(b'{"contents": [{"parts": [{"text": "hi"}]}]}', route, created=0)
    head = {"id": "chatcmpl-1", "model": "served", "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
    if not streamed:
        return [json.loads(reply.whole(head | {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}))]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": char} for char in message.get("reasoning_content", "")]
    deltas += [{"content": char} for char in message["content"] or ""]
    for index, call in enumerate(message.get("tool_calls", [])):
        deltas.append({"tool_calls": [{"id": call["id"], "index": index, "function": {"name": call["function"]["name"]}}]})
        deltas += [{"tool_calls": [{"index": index, "function": {"arguments": char}}]} for char in call["function"]["arguments"]]
    chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    told = reply.opening() + b"".join(reply.chunk(head | {"usage": None} | chunk) for chunk in chunks)
    told += reply.chunk(head | {"choices": []}) + reply.closing()
    if framing == "json":
        return json.loads(told)
    return [json.loads(event.removeprefix("data: ")) for event in told.decode().removesuffix("\n\n").split("\n\n")]


def echo(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [document["candidates"][0]["content"] for document in documents]


def asked(contents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages that the engine is sent for contents."""
    route = GEMINI.route("POST", "/v1beta/models/m:generateContent", {})
    assert route is not None
    return GEMINI.prepare(json.dumps({"contents": contents}).encode(), route, created=0)[0].chat["messages"]


def results(contents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a client sends after a turn: a result for each of its calls, or the next question."""
    parts = []
    for content in contents:
        for part in content["parts"]:
            if "functionCall" in part:
                response = {key: part["functionCall"][key] for key in ("id", "name") if key in part["functionCall"]}
                parts.append({"functionResponse": response | {"response": {"output": f"result {len(parts)}"}}})
    return [{"role": "user", "parts": parts or [{"text": "next"}]}]


def conversation(turn: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"role": "user", "parts": [{"text": "hi"}]}, *turn, *results(turn)]


def as_javascript(value: Any) -> Any:
    """A value as a client with doubles only writes it down."""
    if isinstance(value, dict):
        return {name: as_javascript(item) for name, item in value.items()}
    if isinstance(value, list):
        return [as_javascript(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 2**53:
        return int(float(value)) if abs(value) < 10**300 else value
    return int(value) if isinstance(value, float) and value.is_integer() else value


def as_a_client(contents: list[dict[str, Any]], *, ids: bool) -> list[dict[str, Any]]:
    """One content for the turn, thoughts dropped, signatures kept; ids of its own or none (pi, kimi-code)."""
    parts = [part for content in as_javascript(contents) for part in content["parts"] if not part.get("thought")]
    for number, part in enumerate(parts):
        if "functionCall" in part:
            del part["functionCall"]["id"]
            if ids:
                part["functionCall"]["id"] = f"{part['functionCall']['name']}_1764435000000_{number}"
    return [{"role": "model", "parts": parts}]


@settings(max_examples=150, deadline=None)
@given(turns(), st.booleans(), st.sampled_from(["sse", "json"]))
def test_an_exact_echo_is_the_turn_that_was_sampled(message, streamed, framing):
    messages = asked(conversation(echo(replied(message, streamed=streamed, framing=framing))))
    assert messages[1] == message
    assert [m.get("tool_call_id") for m in messages[2:]] == [call["id"] for call in message.get("tool_calls", [])] or [None]


@settings(max_examples=150, deadline=None)
@given(turns(), st.booleans(), st.booleans())
def test_an_echo_with_other_ids_or_none_with_rounded_numbers_and_no_thoughts_is_the_turn_that_was_sampled(message, streamed, ids):
    messages = asked(conversation(as_a_client(echo(replied(message, streamed=streamed)), ids=ids)))
    assert messages[1] == message
    assert [m.get("tool_call_id") for m in messages[2:]] == [call["id"] for call in message.get("tool_calls", [])] or [None]


@settings(max_examples=100, deadline=None)
@given(turns(), st.booleans(), st.booleans())
def test_an_echo_without_ids_and_signatures_says_the_same_under_ids_of_ours(message, streamed, with_ids):
    turn = echo(replied(message, streamed=streamed))
    for content in turn:
        for part in content["parts"]:
            part.pop("thoughtSignature", None)
            if not with_ids and "functionCall" in part:
                del part["functionCall"]["id"]
    messages = asked(conversation(turn))
    told = messages[1]
    calls = message.get("tool_calls", [])
    assert (told["content"], told.get("reasoning_content")) == (message["content"], message.get("reasoning_content"))
    assert [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in told.get("tool_calls", [])] == [
        (call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls
    ]
    ids = [call["id"] for call in calls] if with_ids else [f"gemini-call-{number}" for number in range(len(calls))]
    assert [call["id"] for call in told.get("tool_calls", [])] == ids
    assert [m.get("tool_call_id") for m in messages[2:]] == ids or [None]


@settings(max_examples=100, deadline=None)
@given(st.lists(turns(), min_size=1, max_size=3), st.sampled_from(["exact", "ids", "no ids"]))
def test_each_prompt_begins_with_the_one_before_and_what_was_sampled(conversation_turns, way):
    tokenizer = ChatTokenizer.bundled()
    contents = [{"role": "user", "parts": [{"text": "hi"}]}]
    for message in conversation_turns:
        before = tokenizer.render(asked(contents))
        sampled = tokenizer.render([message], add_generation_prompt=False).removeprefix(tokenizer.render([]))
        turn = echo(replied(message, streamed=True))
        turn = turn if way == "exact" else as_a_client(turn, ids=way == "ids")
        contents = [*contents, *turn, *results(turn)]
        assert tokenizer.render(asked(contents)).startswith(before + sampled)


@settings(max_examples=60, deadline=None)
@given(turns())
def test_a_stream_of_events_and_one_array_say_the_same(message):
    assert replied(message, streamed=True, framing="json") == replied(message, streamed=True, framing="sse")


def test_a_name_that_the_client_changed_is_not_put_right_by_the_signature():
    message = {"role": "assistant", "content": None, "tool_calls": [_call("engine-1", "read", '{"a":  1}')]}
    turn = echo(replied(message, streamed=False))
    turn[0]["parts"][0]["functionCall"] |= {"name": "write", "id": "mine"}
    assert asked(conversation(turn))[1]["tool_calls"] == [_call("mine", "write", '{"a": 1}')]


def test_arguments_that_the_client_changed_are_the_clients():
    message = {"role": "assistant", "content": None, "tool_calls": [_call("engine-1", "read", '{"a":  1}')]}
    for args in ({"a": 2}, {"a": True}, {"a": "1"}, {}):
        turn = echo(replied(message, streamed=False))
        turn[0]["parts"][0]["functionCall"]["args"] = args
        assert asked(conversation(turn))[1]["tool_calls"] == [_call("engine-1", "read", json.dumps(args))]


def test_a_signature_copied_to_a_second_call_gives_it_no_second_claim_to_the_id():
    message = {"role": "assistant", "content": None, "tool_calls": [_call("engine-1", "read", "{}"), _call("engine-2", "read", "{}")]}
    turn = echo(replied(message, streamed=False))
    turn[0]["parts"][1]["thoughtSignature"] = turn[0]["parts"][0]["thoughtSignature"]
    assert [call["id"] for call in asked(conversation(turn))[1]["tool_calls"]] == ["engine-1", "engine-2"]


@pytest.mark.parametrize("engine_id", [None, ""])
def test_an_id_that_the_engine_did_not_give_is_made_and_comes_back(engine_id):
    message = {"role": "assistant", "content": None, "tool_calls": [_call(engine_id, "read", "{}"), _call(engine_id, "read", "{}")]}
    turn = echo(replied(message, streamed=False))
    made = [part["functionCall"]["id"] for part in turn[0]["parts"]]
    assert len(set(made)) == 2
    assert all(made)
    assert [call["id"] for call in asked(conversation(turn))[1]["tool_calls"]] == made


def _call(call_id: str | None, name: str, arguments: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
