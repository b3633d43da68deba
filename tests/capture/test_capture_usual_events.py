"""The regular expression for the usual event gives the same as the plain way, or does not answer."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_harness.capture.dialects.base import MalformedReplyError
from pytest_harness.capture.dialects.call_ids import CallIds, Fragment
from pytest_harness.capture.dialects.chat_reply import StreamReader
from pytest_harness.capture.dialects.usual_events import cut_token
from pytest_harness.capture.sse import ServerSentEvent


class Wishes:
    wants_usage = False

    def __init__(self, wants_logprobs: bool) -> None:
        self.wants_logprobs = wants_logprobs


TEXT = st.text(max_size=8) | st.sampled_from(['","token_ids":[1]', "\\", '"', "}]}\n\n", "\ud800", "é\u2028\x00"])
DELTA = st.one_of(
    st.just({}),
    st.dictionaries(st.sampled_from(["content", "reasoning", "reasoning_content", "refusal"]), TEXT | st.none(), max_size=2),
    st.builds(lambda index, text: {"tool_calls": [{"index": index, "function": {"arguments": text}}]}, st.sampled_from([0, 1, 7]), TEXT),
)
ENTRY = st.builds(
    lambda token, logprob, text: {"token": token, "logprob": logprob, "bytes": text, "top_logprobs": []},
    TEXT | st.just("token_id:5"),
    st.floats(-1e6, 0) | st.just(-9999.0) | st.integers(-3, 0),
    st.none() | st.lists(st.integers(0, 255), max_size=3),
)
LOGPROBS = st.none() | st.builds(lambda entries: {"content": entries}, st.lists(ENTRY, min_size=1, max_size=2))
IDS = st.lists(st.integers(-1, 200_000) | st.just(1.0) | st.none(), min_size=1, max_size=3) | st.just([])


@st.composite
def events(draw) -> bytes:
    choice = {"index": 0, "delta": draw(DELTA), "logprobs": draw(LOGPROBS), "finish_reason": None}
    choice |= draw(st.sampled_from([{}, {"stop_reason": None}])) | {"token_ids": draw(IDS)}
    chunk = {"id": draw(TEXT), "object": "chat.completion.chunk", "created": 1, "model": "tiny", "choices": [choice]}
    try:
        text = json.dumps(chunk, separators=(",", ":"), ensure_ascii=draw(st.booleans())).encode()
    except UnicodeEncodeError:
        text = json.dumps(chunk, separators=(",", ":")).encode()
    return b"data: " + text + b"\n\n"


def agree(event: bytes, wants_logprobs: bool) -> bool:
    """Whether the expression answered; if so, as the plain way does."""
    calls = CallIds()
    calls.begin(0, [Fragment(0, True)])
    token = cut_token(event, Wishes(wants_logprobs), calls)
    if token is None:
        return False
    reader = StreamReader(Wishes(wants_logprobs))
    seen = reader.read(ServerSentEvent(event))
    assert token.sampled == reader.sampled
    assert token.data == b"".join(span if isinstance(span, bytes) else event[slice(*span)] for span in token.spans)
    if seen is None:
        assert token.data == b""
        return True
    assert not seen.last_words
    assert token.data.endswith(b"\n\n")
    assert json.loads(token.data.removeprefix(b"data: ")) == seen.document
    return True


@given(event=events(), wants_logprobs=st.booleans())
def test_an_event_is_cut_as_if_it_had_been_parsed(event, wants_logprobs) -> None:
    agree(event, wants_logprobs)


@given(event=events(), wants_logprobs=st.booleans(), data=st.data())
def test_a_damaged_event_is_never_cut_into_something_else(event, wants_logprobs, data) -> None:
    damaged = bytearray(event)
    damaged[data.draw(st.integers(0, len(event) - 1))] = data.draw(st.integers(0, 255))
    try:
        agree(bytes(damaged), wants_logprobs)
    except MalformedReplyError:
        pytest.fail("it was cut, and is malformed")


def event_of(delta: dict[str, object]) -> bytes:
    """What vLLM sends for a token."""
    entry = {"token": "token_id:654", "logprob": -8.38, "bytes": [], "top_logprobs": []}
    choice = {"index": 0, "delta": delta, "logprobs": {"content": [entry]}, "finish_reason": None, "token_ids": [654]}
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "tiny", "choices": [choice]}
    return b"data: " + json.dumps(chunk, separators=(",", ":"), ensure_ascii=False).encode() + b"\n\n"


@pytest.mark.parametrize(
    "delta",
    [
        {},
        {"content": "w é"},
        {"reasoning": "h\\m"},
        {"content": None, "reasoning_content": "x"},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"'}}]},
    ],
)
def test_what_vllm_sends_for_a_token_is_answered(delta) -> None:
    assert agree(event_of(delta), False)


def test_the_arguments_of_a_call_whose_id_has_not_come_are_left_to_the_plain_way() -> None:
    assert not agree(event_of({"tool_calls": [{"index": 3, "function": {"arguments": '{"'}}]}), False)
