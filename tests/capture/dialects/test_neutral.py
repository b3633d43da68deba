"""What the translating dialects share: calls put together from pieces, arguments read as objects, errors of engines read."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_harness.capture.dialects import neutral
from pytest_harness.capture.dialects.base import MalformedReplyError, RefusalError

names = st.text(min_size=1, max_size=8)
written = st.lists(st.tuples(names, st.text(max_size=30)), min_size=1, max_size=4)


def delta(index: int | None, call_id: str | None = None, name: str | None = None, arguments: Any = None) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"index": index, "id": call_id, "type": "function", "function": function}


@settings(deadline=None)
@given(written, st.integers(1, 7))
def test_calls_are_the_same_however_their_pieces_were_cut(calls, size):
    whole, pieces = neutral.ToolCallAssembler(), neutral.ToolCallAssembler()
    whole.feed([delta(n, f"id-{n}", name, arguments) for n, (name, arguments) in enumerate(calls)])
    told: Counter[int] = Counter()
    for n, (name, arguments) in enumerate(calls):
        parts = [delta(n, f"id-{n}", name, "")] + [delta(n, None, None, arguments[at : at + size]) for at in range(0, len(arguments), size)]
        for part in parts:
            told.update(piece.position for piece in pieces.feed([part]) if piece.begins)
    assert pieces.calls == whole.calls == tuple(neutral.ToolCall(f"id-{n}", *call) for n, call in enumerate(calls))
    assert told == Counter(range(len(calls)))


def test_a_call_begins_when_its_name_is_known_with_all_that_came_before():
    assembler = neutral.ToolCallAssembler()
    assert assembler.feed([delta(0, "c", None, '{"a"')]) == []
    assert assembler.calls == ()
    assert assembler.feed([delta(0, None, "bash", ": 1}")]) == [neutral.CallPiece(0, "c", "bash", '{"a": 1}', begins=True)]


def test_the_name_and_the_id_told_again_add_nothing():
    assembler = neutral.ToolCallAssembler()
    assembler.feed([delta(0, "c", "bash", "{")])
    assert assembler.feed([delta(0, "c", "bash", "}")]) == [neutral.CallPiece(0, "c", "bash", "}", begins=False)]
    assert assembler.calls == (neutral.ToolCall("c", "bash", "{}"),)


def test_an_id_that_an_engine_gave_to_two_calls_is_given_to_the_first_alone():
    assembler = neutral.ToolCallAssembler()
    first, second = (piece.id for piece in assembler.feed([delta(0, "c", "bash"), delta(1, "c", "bash")]))
    assert first == "c"
    assert second.startswith("call_")


def test_arguments_that_an_engine_sends_as_a_value_are_read_as_that_json():
    assembler = neutral.ToolCallAssembler()
    assembler.feed([delta(0, "c", "bash", {"command": "ls"})])
    assert assembler.calls[0].input == {"command": "ls"}


@pytest.mark.parametrize("deltas", [None, [], ""])
def test_no_calls_is_nothing(deltas):
    assert neutral.ToolCallAssembler().feed(deltas) == []


@pytest.mark.parametrize("deltas", ["x", {"index": 0}, [1]])
def test_calls_that_are_none_are_a_malformed_reply(deltas):
    with pytest.raises(MalformedReplyError):
        neutral.ToolCallAssembler().feed(deltas)


@pytest.mark.parametrize(("text", "value"), [("", {}), ("  ", {}), ("{}", {}), (' {"a": [1.5]} ', {"a": [1.5]})])
def test_arguments_that_are_an_object(text, value):
    assert neutral.object_of(text) == value


@pytest.mark.parametrize(
    "text",
    ["{", "[]", "1", "null", '"x"', '{"a": Infinity}', '{"a": 1e400}', '{"a": "\\ud800"}', "[" * 100_000, '{"a": ' + "1" * 5000 + "}"],
)
def test_arguments_that_not_every_reader_takes_for_an_object(text):
    assert neutral.object_of(text) is None


def test_a_value_of_the_wrong_type_is_refused_with_its_place():
    for value, kind in ((None, str), (1, str), (True, int), (1.5, int), ("1", float), ({}, list), (1, bool)):
        with pytest.raises(RefusalError, match=r"^tools\.0\.name is ") as caught:
            neutral.expect(value, kind, "tools.0.name")
        assert caught.value.param == "tools.0.name"
    assert neutral.expect(1, float, "temperature") == 1


@given(
    st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
)
def test_what_is_written_is_read_as_the_same(value):
    assert json.loads(neutral.dump(value)) == value
    assert neutral.event(value, "named").decode().startswith("event: named\ndata: ")


def test_content_says_the_same_prompt_in_the_same_words():
    assert neutral.content_of([]) == ""
    assert neutral.content_of([neutral.text_part("One.")]) == "One."
    assert neutral.content_of([neutral.image_part("http://x", "low")]) == [
        {"type": "image_url", "image_url": {"url": "http://x", "detail": "low"}}
    ]


def test_counts_that_an_engine_does_not_tell_are_none():
    assert neutral.usage_of({}) is None
    assert neutral.usage_of({"usage": {"prompt_tokens": 3, "completion_tokens": True, "prompt_tokens_details": None}}) == neutral.Usage(
        prompt=3
    )
