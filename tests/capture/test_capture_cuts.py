"""The fast way to cut a reply gives the same as the plain one, or does not answer."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_harness.capture.dialects.base import MalformedReplyError
from pytest_harness.capture.dialects.call_ids import CallIds
from pytest_harness.capture.dialects.chat_reply import StreamReader, read_whole
from pytest_harness.capture.dialects.cuts import cut_event, cut_whole
from pytest_harness.capture.sse import ServerSentEvent

IDS = st.none() | st.lists(st.integers(0, 200_000), max_size=6) | st.just("absent") | st.just([[1]]) | st.just(["a]", 1])
TEXT = st.text(max_size=8) | st.sampled_from(
    ['"prompt_token_ids":[1],', '\\"token_ids":[1]', '"logprobs":null', ',"prompt_token_ids":0', "]", "}", "\\", "\ud800", "é\u2028"]
)
ENTRY = st.fixed_dictionaries({"token": TEXT, "logprob": st.floats(-9, 0), "top_logprobs": st.just([])})
LOGPROBS = st.none() | st.just("absent") | st.fixed_dictionaries({"content": st.none() | st.lists(ENTRY, max_size=3)})
MORE = st.dictionaries(st.sampled_from(["x", "token_ids", "prompt_token_ids", "logprobs", "usage", 'a"b']), TEXT | IDS, max_size=2)
CALL = st.dictionaries(
    st.sampled_from(["id", "index", "function", "type"]),
    st.sampled_from([None, "", "call_engine", 0, 1, -1, True, 1.0, {"name": "n", "id": None}, {"arguments": '{"id":null}'}]),
    max_size=4,
)
CALLS = st.lists(CALL, max_size=3) | st.none() | st.lists(CALL | st.none() | st.just("x"), max_size=2)
DUMPS = st.sampled_from([{"separators": (",", ":")}, {}, {"separators": (",", ":"), "ensure_ascii": False}, {"indent": 1}])


class Wishes:
    def __init__(self, wants_logprobs: bool, wants_usage: bool) -> None:
        self.wants_logprobs, self.wants_usage = wants_logprobs, wants_usage


WISHES = st.builds(Wishes, st.booleans(), st.booleans())


def numbered() -> CallIds:
    """Call ids that are the same in both ways."""
    numbers = itertools.count()
    return CallIds(lambda: f"call_filled_{next(numbers)}")


def present(**fields):
    return {name: value for name, value in fields.items() if value != "absent"}


@st.composite
def documents(draw, part: str):
    choices = []
    for index in range(draw(st.sampled_from([0, 1, 1, 1, 1, 2]))):
        with_calls = st.builds(lambda text, calls, more: {"content": text, "tool_calls": calls, **more}, TEXT, CALLS, MORE)
        said = draw(st.just({}) | st.none() | st.builds(lambda text, more: {"content": text, **more}, TEXT, MORE) | with_calls)
        fields = present(
            index=draw(st.sampled_from([index, index, index, "absent", 3, True, None])),
            logprobs=draw(LOGPROBS),
            finish_reason=draw(st.sampled_from([None, "stop", "absent"])),
            token_ids=draw(IDS),
            prompt_token_ids=draw(st.sampled_from(["absent", "absent", [1]])),
        )
        items = [(part, said), *fields.items(), *draw(MORE).items()]
        choices.append(dict(draw(st.permutations(items))))
    fields = present(
        id="x",
        choices=draw(st.sampled_from([choices, choices, choices, None])),
        prompt_token_ids=draw(IDS),
        prompt_logprobs=draw(st.sampled_from(["absent", None, [1]])),
        usage=draw(st.sampled_from(["absent", None, {"total_tokens": 1}])),
        error=draw(st.sampled_from(["absent", "absent", None, {"message": "m"}])),
    )
    return dict(draw(st.permutations([*fields.items(), *((name, value) for name, value in draw(MORE).items() if name == "x")])))


def encoded(document, how) -> bytes:
    try:
        return json.dumps(document, **how).encode()
    except UnicodeEncodeError:
        return json.dumps(document).encode()


def told(spans, data: bytes) -> bytes:
    return b"".join(span if isinstance(span, bytes) else data[slice(*span)] for span in spans)


@example(
    document={"choices": [{"message": {"prompt_token_ids": ""}}], "prompt_token_ids": [[1]]}, how={}, wishes=Wishes(False, False), known=b""
)
@given(document=documents("message"), how=DUMPS, wishes=WISHES, known=st.sampled_from([b"", b"[1,2", b"[1]"]))
def test_a_whole_reply_is_cut_as_if_it_had_been_parsed(document, how, wishes, known) -> None:
    data = encoded(document, how)
    fast, plain = numbered(), numbered()
    cut = cut_whole(data, wishes, fast, known)
    if cut is None:
        assert fast.notes == []
        return
    parts = read_whole(data, wishes)  # raises for what is malformed, and then it must not have been cut
    plain.fill(parts.document, "message")
    assert fast.notes == plain.notes
    assert json.loads(told(cut.spans, data)) == parts.document
    assert cut.sampled == parts.sampled
    assert parts.prompt_ids == (None if cut.ids is None else tuple(json.loads(data[slice(*cut.ids)])))


@given(stream=st.lists(documents("delta"), min_size=1, max_size=3), how=DUMPS, wishes=WISHES)
def test_events_are_cut_as_if_they_had_been_parsed(stream, how, wishes) -> None:
    fast, plain = numbered(), numbered()
    for document in stream:
        agree_on_event(b"data: " + encoded(document, how) + b"\n\n", wishes, fast, plain)


def agree_on_event(data: bytes, wishes, fast: CallIds, plain: CallIds) -> None:
    """The fast way takes the event as the plain one does, or leaves it to the plain one."""
    cut = cut_event(data, wishes, fast)
    reader = StreamReader(wishes)
    try:
        seen = reader.read(ServerSentEvent(data))
    except MalformedReplyError:
        assert cut is None
        return
    if seen is not None and seen.document is not None:
        plain.fill(seen.document, "delta")
        if cut is None:
            fast.fill(reader_document(data, wishes), "delta")
    assert fast.notes == plain.notes
    if cut is None:
        return
    assert (cut.spans is None) == (seen is None)
    assert cut.choices == reader.begun
    if seen is not None:
        out = told(cut.spans, data)
        assert out.startswith(b"data: ")
        assert out.endswith(b"\n\n")
        assert json.loads(out[6:]) == seen.document
        assert cut.last_words == seen.last_words
        assert cut.sampled == reader.sampled


def reader_document(data: bytes, wishes):
    return StreamReader(wishes).read(ServerSentEvent(data)).document


@given(data=st.data(), document=documents("message"), wishes=WISHES)
def test_a_damaged_reply_is_never_cut_into_something_else(data, document, wishes) -> None:
    whole = bytearray(encoded(document, {"separators": (",", ":")}))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] = data.draw(st.integers(0, 255))
    fast, plain = numbered(), numbered()
    cut = cut_whole(bytes(whole), wishes, fast)
    if cut is None:
        return
    try:
        parts = read_whole(bytes(whole), wishes)
    except MalformedReplyError:
        start, stop = cut.ids  # only inside the ids, which are not parsed, may it be malformed unseen
        assert start < at < stop
    else:
        plain.fill(parts.document, "message")
        assert json.loads(told(cut.spans, bytes(whole))) == parts.document


@pytest.mark.parametrize("spaced", [False, True])
def test_what_engines_usually_send_takes_the_fast_way(make, spaced) -> None:
    how = {} if spaced else {"separators": (",", ":")}
    body = json.dumps(make.completion(), **how).encode()
    assert cut_whole(body, Wishes(False, False), CallIds()) is not None
    for event in make.events()[:-1]:
        document = json.loads(event[6:])
        assert cut_event(b"data: " + json.dumps(document, **how).encode() + b"\n\n", Wishes(False, False), CallIds()) is not None


@pytest.mark.parametrize(
    ("given", "filled"),
    [
        (b'{"id":null,"type":"function"}', b'{"id":"call_filled_0","type":"function"}'),
        (b'{ "type":"function", "id": "" }', b'{ "type":"function", "id": "call_filled_0" }'),
        (b'{ "x":1.50}', b'{"id":"call_filled_0", "x":1.50}'),
        (b"{ }", b'{"id":"call_filled_0" }'),
        (b'{"id":"call_own","x":{"id":null}}', b'{"id":"call_own","x":{"id":null}}'),
    ],
)
def test_only_the_missing_id_is_put_in_and_every_other_byte_stays(given, filled) -> None:
    ids = b'"prompt_token_ids":[1,2,3]'
    for head, tail in ((b"{" + ids + b',"x":1.0,', b"}"), (b'{"x":1.0,', b"," + ids + b"}")):
        for part, cut_of, frame in (
            (b"message", cut_whole, (b"", b"")),
            (b"delta", cut_event, (b"data: ", b"\n\n")),
        ):
            around = [frame[0] + head + b'"choices":[{"' + part + b'": {"tool_calls":[ ', b" ]}}]" + tail + frame[1]]
            data = given.join(around)
            cut = cut_of(data, Wishes(False, False), numbered())
            assert told(cut.spans, data) == filled.join(around).replace(ids + b",", b"").replace(b"," + ids, b"")
