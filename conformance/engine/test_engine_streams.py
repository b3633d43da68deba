"""STR: a stream says what the whole reply says, by the rules of its format, and piece by piece."""

import pytest

from pytest_harness.endpoint.abilities import deterministic
from pytest_harness.session.case_marks import requirement
from pytest_harness.wire.grammar import faults_of
from pytest_harness.wire.outcome import NotExercised, expect, same

NEAR = 0.02
"""By how much a logprob may differ from batch to batch on a GPU."""
STREAM = {"stream": True, "stream_options": {"include_usage": True}}


def fields_of(case, kind):
    return {"max_tokens": 24, "seed": 7} if kind == "sampled" else {**case.of(kind).fields, "seed": 7}


@requirement("STR-201")
@pytest.mark.parametrize("kind", ["text", "call", "sampled", "cut"])
def test_a_stream_says_what_the_whole_reply_says(case, kind):
    fields = fields_of(case, "text" if kind == "cut" else kind) | ({"max_tokens": 5} if kind == "cut" else {})
    whole, again = (case.ask(**fields) for _ in range(2))
    if not deterministic(whole, again):
        raise NotExercised("the same request does not give the same reply twice")
    streamed = case.ask(streamed=True, **fields)
    one, other = whole.only, streamed.only
    same(streamed.prompt_ids, whole.prompt_ids, "the ids of the prompt in the stream")
    same(other.ids, one.ids, "the sampled ids in the stream")
    same(other.said, one.said, "text, reasoning, calls and finish reason of the stream")
    same(len(other.logprobs), len(one.logprobs), "the logprobs in the stream")
    far = [pair for pair in zip(one.logprobs, other.logprobs, strict=True) if None not in pair and abs(pair[0] - pair[1]) > NEAR]
    same(far, [], "logprobs that differ between whole reply and stream")
    counts = ("prompt_tokens", "completion_tokens", "total_tokens")
    same([(streamed.usage or {}).get(name) for name in counts], [(whole.usage or {}).get(name) for name in counts], "usage of the stream")


@requirement("STR-202")
@pytest.mark.parametrize("kind", ["text", "call"])
def test_a_stream_follows_its_grammar(case, kind):
    reply = case.asking.post(**fields_of(case, kind), **STREAM)
    same(reply.status, 200, "the status")
    expect(reply.headers.get("content-type", "").startswith("text/event-stream"), "text/event-stream", reply.headers.get("content-type"))
    same(faults_of("chat", [(None, data) for data in reply.events]), [], "what is wrong with the stream")


@requirement("STR-203")
def test_a_stream_comes_in_pieces(case):
    choice = case.ask(case.can.text(), streamed=True).only
    count = len(choice.ids or choice.entries or ())
    if count < 6:
        raise NotExercised("the reply is too short to come in pieces")
    expect(choice.pieces > 1, f"several chunks with text for {count} tokens", f"{choice.pieces}")
