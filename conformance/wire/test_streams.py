"""STR: a stream says what the whole reply says, as it is generated, in the grammar of its dialect."""

import concurrent.futures
import json
import random
from itertools import pairwise

import pytest

from pytest_harness.engines.scripted import Fault
from pytest_harness.session.wire_marks import both_modes, each_dialect, requirement
from pytest_harness.wire.grammar import events_of, faults_of
from pytest_harness.wire.outcome import Broken, expect, same
from pytest_harness.wire.upstream import Answer

REPLIES = {
    "text": ("Some plain words, then ✓ and 完了 — and a\nnew line.", ()),
    "call": ("", ["ls -la /tmp"]),
    "text_and_calls": ("I look in two places.", ["cat 'é.txt'", 'grep -n "a\\b" *.py\necho done']),
}
LONG = "One two three four five six seven eight nine ten eleven twelve."


def expected_of(said, reply):
    """The engine's template puts a line end between text and calls, which is the engine's to tell or to keep."""
    text, commands = reply
    calls = tuple(("bash", {"command": command}) for command in commands)
    same((said.text.rstrip("\n"), *said.content[1:]), (text, calls, "tool_calls" if commands else "stop"), "the reply")


@requirement("STR-101")
@each_dialect
@pytest.mark.parametrize("shape", REPLIES)
def test_a_stream_says_what_the_whole_reply_says(case, dialect, shape):
    stage = case.stage(REPLIES[shape])
    said = []
    for streamed in (False, True):
        talk = case.talk(dialect, stage, tools=True)
        talk.strict = True
        said.append(talk.ask(streamed=streamed))
    expected_of(said[0], REPLIES[shape])
    same(said[1].content, said[0].content, "the streamed reply as the SDK puts it together")


def edges(data):
    """Cut where parsers are careless: after the first byte, inside the field name, before and inside the final line ends."""
    return pieces(data, {1, 3, len(data) - 2, len(data) - 1})


def letters(data):
    """Cut inside every character of more than one byte."""
    return pieces(data, {at for at in range(1, len(data)) if data[at] & 0xC0 == 0x80})


def anywhere(data):
    """Cut in ten places that have no meaning, the same ones each time."""
    drawn = random.Random(data)
    return pieces(data, {drawn.randrange(len(data)) for _ in range(10)})


def pieces(data, cuts):
    bounds = [0, *sorted(cut for cut in cuts if 0 < cut < len(data)), len(data)]
    return [data[start:end] for start, end in pairwise(bounds)]


@requirement("STR-102")
@each_dialect
@both_modes
@pytest.mark.parametrize("cut", [edges, letters, anywhere], ids=lambda cut: cut.__name__)
def test_how_the_engines_bytes_are_split_changes_nothing(case, dialect, streamed, cut):
    stage = case.stage(REPLIES["text_and_calls"], split=cut)
    session = case.session()
    said = case.talk(dialect, stage, session, tools=True).ask(streamed=streamed)
    expected_of(said, REPLIES["text_and_calls"])
    case.captured_as_served(case.calls(session, 1)[0], stage.answered[0])


def crlf(body):
    return body.replace(b"\n", b"\r\n")


def comments(body):
    return b": hello\n\n" + body.replace(b"\n\n", b"\n\n: ping\n\n", 3)


def no_space(body):
    return body.replace(b"data: ", b"data:")


def at_once(body):
    return body


@requirement("STR-103")
@pytest.mark.parametrize("form", [at_once, crlf, comments, no_space], ids=lambda form: form.__name__)
def test_every_legal_form_of_server_sent_events_is_read(case, form):
    model = case.stage(REPLIES["text"])
    case.talk("chat", model).ask(streamed=True)
    if not model.only.body.get("stream"):
        form = at_once  # a proxy that does not stream from the engine meets no such form
    kind = "text/event-stream" if model.only.body.get("stream") else "application/json"
    body = form(bytes(model.only.sent))
    stage = case.stage(answer=lambda _body: Answer(body, headers=(("content-type", kind),)))
    session = case.session()
    said = case.talk("chat", stage, session).ask(streamed=True)
    same(said.text, REPLIES["text"][0], "the reply")
    call = case.calls(session, 1)[0]
    case.ids_as_served(call, model.only)


@requirement("STR-104")
@each_dialect
def test_the_first_words_arrive_before_the_engine_goes_on(case, dialect):
    gate = case.gate()
    stage = case.stage((LONG, ()), faults=[Fault("slow", after=8, event=gate)])
    talk = case.talk(dialect, stage)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        deltas = talk.deltas()
        first = pool.submit(lambda: talk.guard(lambda: next(deltas)))
        try:
            expect(gate.reached.wait(10), "a request that streams from the engine", "none that came to its eighth chunk")
            words = first.result(timeout=5)
        except concurrent.futures.TimeoutError:
            raise Broken("the first words of the stream while the engine waits", "nothing within 5 s") from None
        finally:
            gate.open()
        rest = talk.guard(lambda: "".join(deltas))
    same(words + rest, LONG, "the whole text")


@requirement("STR-105")
@each_dialect
@both_modes
def test_the_harness_gets_nothing_of_the_capture(case, dialect, streamed):
    stage = case.stage(REPLIES["text_and_calls"])
    case.talk(dialect, stage, tools=True).ask(streamed=streamed)
    reply = case.log.last_reply
    for trace in (b'"token_ids"', b'"prompt_token_ids"', b'"logprob"', b"token_id:", b'"loss_mask"'):
        at = reply.find(trace)
        expect(at < 0, f"a reply without {trace.decode()}", reply[max(0, at - 80) : at + 80])


@requirement("STR-106")
@each_dialect
@pytest.mark.parametrize("shape", REPLIES)
def test_the_events_follow_the_dialects_grammar(case, dialect, shape):
    stage = case.stage(REPLIES[shape])
    case.talk(dialect, stage, tools=True).ask(streamed=True)
    faults = faults_of(dialect, events_of(case.log.last_reply))
    expect(not faults, f"events in the grammar of {dialect}", "; ".join(faults))


@requirement("STR-107")
def test_usage_is_streamed_only_to_a_client_that_asks(case):
    stage, session = case.stage(), case.session()
    told = [
        [
            event.get("usage")
            for event in case.ask(stage, session, stream=True, **options).events
            if event != "[DONE]" and event.get("usage")
        ]
        for options in ({}, {"stream_options": {"include_usage": True}})
    ]
    same(told[0], [], "usage where none was asked for")
    same(len(told[1]), 1, "events with usage where it was asked for")


@requirement("STR-108")
@both_modes
def test_a_connection_is_kept_for_the_next_request(case, streamed):
    stage, session = case.stage(), case.session()
    wire = case.wire(session)
    path = "/" + case.url("chat", session).split("/", 3)[3]
    for number in range(3):
        wire.post(path, case.body(stage, stream=streamed), session.key)
        reply = wire.reply()
        same((number, reply.status), (number, 200), "number and status of the reply")
    same(len(case.calls(session, 3)), 3, "captured calls")


@requirement("STR-109")
def test_a_stream_is_told_as_one(case):
    stage, session = case.stage(), case.session()
    reply = case.ask(stage, session, stream=True)
    same(reply.headers.get("content-type", "").split(";")[0].strip(), "text/event-stream", "the content type of a stream")
    whole = case.ask(stage, session)
    same(whole.headers.get("content-type", "").split(";")[0].strip(), "application/json", "the content type of a whole reply")
    json.loads(whole.body)
