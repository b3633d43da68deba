"""Pairs of calls and results are told right, and messages survive the way to chat and back."""

import json
import string

import hypothesis
import pytest
from hypothesis import strategies as st

from pytest_harness.runtimes.adapter import Message, ToolCall
from pytest_harness.runtimes.chat import message_of, to_message
from pytest_harness.runtimes.pairing import answers, paired
from pytest_harness.runtimes.script import BEGINNING, call
from pytest_harness.wire import Broken


def turn(*ids):
    return [Message("assistant", "", tuple(call(each, each) for each in ids)), *(result(each) for each in ids)]


def result(id_):
    return Message("tool", f"of {id_}", call_id=id_)


WHOLE = [*BEGINNING, *turn("a", "b"), *turn("c"), Message("assistant", "Done.")]


@hypothesis.given(st.lists(st.lists(st.sampled_from(string.ascii_letters), max_size=4), max_size=4))
def test_a_conversation_whose_calls_are_answered_in_order_is_paired(ids):
    paired([*BEGINNING, *(message for each in ids for message in turn(*each))], "in the record")


@pytest.mark.parametrize("messages", [WHOLE[:-1], WHOLE[:2], []], ids=["ends with a result", "only the beginning", "nothing"])
def test_where_it_ends_does_not_matter(messages):
    paired(messages, "in the record")


@pytest.mark.parametrize(
    "messages",
    [
        WHOLE[:4],
        [*WHOLE[:4], *WHOLE[5:]],
        [*WHOLE[:3], WHOLE[4], WHOLE[3], *WHOLE[5:]],
        [*WHOLE[:5], result("b"), *WHOLE[5:]],
        [*WHOLE[:4], Message("user", "Go on."), *WHOLE[4:]],
        [*WHOLE, result("c")],
        [result("a"), *WHOLE],
    ],
    ids=["cut", "lost", "swapped", "twice", "torn apart", "at the end", "at the beginning"],
)
def test_what_is_not_paired_is_refused(messages):
    with pytest.raises(Broken, match="in the record: behind message"):
        paired(messages, "in the record")


def test_the_results_of_a_step_are_found_and_a_step_that_is_not_there_is_said():
    assert [message.text for message in answers(WHOLE, 0)] == ["of a", "of b"]
    assert answers(WHOLE, 2) == ()
    with pytest.raises(Broken, match="a conversation with 4 messages of the model, seen 3"):
        answers(WHOLE, 3)


TEXT = st.text(max_size=20)
CALLS = st.lists(st.builds(ToolCall, st.none() | TEXT, TEXT, TEXT), max_size=3).map(tuple)
MESSAGES = st.builds(Message, st.sampled_from(["system", "user"]), TEXT) | st.builds(Message, st.just("assistant"), TEXT, CALLS)


@hypothesis.given(MESSAGES | st.builds(Message, st.just("tool"), TEXT, st.just(()), TEXT))
def test_a_message_survives_the_way_to_chat_and_back(message):
    assert message_of(json.loads(json.dumps(to_message(message)))) == message
