"""Reading the wire: a stream and a whole reply of the same content are the same, however it was cut; bad bytes raise nothing."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_harness.contract.chat_wire import (
    call_objects,
    chunks,
    conversation,
    events,
    identical,
    is_stream,
    parse_reply,
    same_json,
    steps,
    turns,
)
from pytest_harness.evidence import Message
from pytest_harness.graph import is_model_call
from pytest_harness.saboteurs.surgery import edit_request, with_call


def message(body):
    return Message(headers={}, body=body)


def cut(text, places):
    edges = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[start:end] for start, end in pairwise(edges)]


@given(st.text(), st.lists(st.text(), max_size=3), st.lists(st.integers(0, 99), max_size=5))
def test_for_every_cut_a_stream_is_the_whole_reply(text, arguments, places):
    made = [
        {"id": f"call-{number}", "type": "function", "function": {"name": "bash", "arguments": one}} for number, one in enumerate(arguments)
    ]
    ids = list(range(len(text)))
    entries = [{"token": f"token_id:{one}", "logprob": -0.5} for one in ids]
    choice = {
        "index": 0,
        "message": {"content": text, "tool_calls": made},
        "finish_reason": "stop",
        "token_ids": ids,
        "logprobs": {"content": entries},
    }
    whole = {"id": "one", "choices": [choice], "usage": {"prompt_tokens": 1}, "prompt_token_ids": [7]}
    parts = [
        {
            "id": "one",
            "choices": [{"index": 0, "delta": {"content": ""}, "token_ids": [], "logprobs": {"content": []}}],
            "prompt_token_ids": [7],
        }
    ]
    parts += [{"id": "one", "choices": [{"index": 0, "delta": {"content": piece}}]} for piece in cut(text, places)]
    for one, entry in zip(ids, entries, strict=True):
        parts.append({"id": "one", "choices": [{"index": 0, "delta": {}, "token_ids": [one], "logprobs": {"content": [entry]}}]})
    for number, one in enumerate(arguments):
        parts.append(
            {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": number, "id": f"call-{number}", "function": {"name": "bash"}}]}}]}
        )
        fragments = [{"index": number, "function": {"arguments": piece}} for piece in cut(one, places)]
        parts += [{"choices": [{"index": 0, "delta": {"tool_calls": [fragment]}}]} for fragment in fragments]
    parts += [{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}, {"choices": [], "usage": {"prompt_tokens": 1}}]
    stream = "".join(f"data: {json.dumps(part)}\n\n" for part in parts) + "data: [DONE]\n\n"
    assert parse_reply(message(stream)) == parse_reply(message(json.dumps(whole)))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_events_are_read_with_every_line_end_and_comments_are_none(end):
    body = end.join([": keep-alive", "", "event: x", "data: {}", "", "data:[DONE]", "", ""])
    assert list(events(message(body))) == ["{}", "[DONE]"]
    assert list(chunks(message(body))) == [{}]


@pytest.mark.parametrize(
    "body",
    [
        "",
        "null",
        "[]",
        "<html>",
        "data: {\n\n",
        '{"choices": null}',
        '{"choices": [null, {"message": null}, {"index": 0, "message": {"tool_calls": [1]}}]}',
    ],
)
def test_bytes_that_are_no_reply_are_read_as_nothing(body):
    reply = parse_reply(message(body))
    assert (reply.calls, reply.usage, reply.prompt_ids) == ([], None, None)


def test_no_message_is_an_empty_reply():
    assert parse_reply(None).choices == {}
    assert not is_stream(None)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, 1, True),
        (1, 1.0, False),
        (1, True, False),
        (float("nan"), float("nan"), True),
        ((1, 2), [1, 2], True),
        ([1], [1, 2], False),
        ({"a": [1]}, {"a": [1]}, True),
        ({"a": 1}, {"a": 1.0}, False),
        ({"a": 1}, {"b": 1}, False),
        (None, [], False),
    ],
)
def test_identical_tells_kinds_apart(one, other, same):
    assert identical(one, other) is same


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ('{"a": 1}', '{"a":1}', True),
        ('{"a": 1}', '{"a": 1.0}', False),
        ("{broken", "{broken", True),
        ("{broken", '{"a": 1}', False),
        ("", "null", False),
    ],
)
def test_arguments_are_compared_as_json_values_and_broken_ones_as_text(one, other, same):
    assert same_json(one, other) is same


def test_a_side_call_without_tools_is_a_turn_but_not_of_the_conversation(healthy):
    evidence = healthy.pi()
    title = edit_request(evidence.calls[0], lambda body: body.pop("tools"))
    evidence = with_call(evidence, title)
    assert [turn.call.index for turn in turns(evidence)] == [0, 1, 2]
    assert [turn.call.index for turn in conversation(evidence)] == [1, 2]


def test_a_retry_of_the_same_prompt_is_the_same_step(healthy):
    evidence = healthy.pi()
    retried = evidence.calls[2].model_copy(update={"index": 1})
    assert [len(group) for group in steps(with_call(evidence, retried))] == [1, 2]


@pytest.mark.parametrize(
    ("change", "expected"), [({"outcome": "cut_upstream"}, 2), ({"delivery": "client_gone"}, 2), ({"method": "GET"}, 2), ({}, 3)]
)
def test_only_answered_model_calls_to_a_client_that_stayed_are_turns(healthy, change, expected):
    evidence = healthy.pi()
    assert len(turns(with_call(evidence, evidence.calls[0].model_copy(update=change)))) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [("/v1/chat/completions", True), ("/chat/completions/?x=1", True), ("/v1/models", False), ("/v1/responses", False)],
)
def test_a_model_call_is_told_by_its_route(healthy, path, expected):
    assert is_model_call(healthy.pi().calls[0].model_copy(update={"path": path})) is expected


def test_calls_of_a_message_with_arguments_that_are_no_text_have_none():
    assert call_objects({"tool_calls": [{"id": "a", "function": {"name": "bash", "arguments": {"x": 1}}}]})[0].arguments == ""
