"""For every reply the contract reads what was delivered as what the engine said, streamed or not; and notices what is missing of it."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_harness.contract.chat_wire import identical
from pytest_harness.contract.dialects import gemini_events, messages_events, responses_events
from pytest_harness.contract.dialects.matching import cached_tokens
from pytest_harness.contract.dialects.neutral import events
from pytest_harness.contract.dialects.traces import traces

DIALECTS = ("messages", "responses", "gemini")
RULES = {"messages": messages_events, "responses": responses_events, "gemini": gemini_events}
BODIES = {
    "messages": {"model": "asked", "max_tokens": 9, "messages": [{"role": "user", "content": "Do it."}]},
    "responses": {"model": "asked", "input": "Do it.", "tools": [{"type": "custom", "name": "exec"}]},
    "gemini": {"contents": [{"role": "user", "parts": [{"text": "Do it."}]}]},
}
TEXT = st.text(st.characters(blacklist_categories=("Cs",)), max_size=12)
WRITTEN = st.sampled_from(["{}", "", '{"command": "ls"}', ' {"a":1.0} ', "[1]", '{"cut', "null", '{"INVALID_JSON": "x"}', '{"input": "x"}'])
MADE = st.lists(st.tuples(st.sampled_from(["bash", "exec"]), WRITTEN), max_size=3)
FINISH = st.sampled_from(["stop", "length", "content_filter"])
COUNTS = {"prompt_tokens": 20, "completion_tokens": 7, "total_tokens": 27, "prompt_tokens_details": {"cached_tokens": 4}}


def said(text, reasoning, made, finish):
    """A whole reply, and the chunks of a stream that says it."""
    calls = [
        {"id": f"call-{n}", "type": "function", "index": n, "function": {"name": name, "arguments": arguments}}
        for n, (name, arguments) in enumerate(made)
    ]
    finish = "tool_calls" if made and finish == "stop" else finish
    head = {"id": "chatcmpl-1", "model": "served"}
    message = {"role": "assistant", "content": text, "reasoning_content": reasoning, "tool_calls": calls}
    whole = head | {"choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": COUNTS}
    deltas = [{"reasoning_content": piece} for piece in (reasoning[:3], reasoning[3:]) if piece]
    deltas += [{"content": piece} for piece in (text[:3], text[3:]) if piece]
    for call in calls:
        deltas.append({"tool_calls": [call | {"function": {"name": call["function"]["name"]}}]})
        written = call["function"]["arguments"]
        pieces = [piece for piece in (written[:4], written[4:]) if piece]
        deltas += [{"tool_calls": [{"index": call["index"], "function": {"arguments": piece}}]} for piece in pieces]
    chunks = [head | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append(head | {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    return whole, [*chunks, head | {"choices": [], "usage": COUNTS}]


def answered(witnesses, dialect, text, reasoning, made, finish, streamed=True):
    body = BODIES[dialect] if dialect == "gemini" else BODIES[dialect] | {"stream": streamed}
    seen = witnesses(dialect, body, streamed=streamed)
    seen.answer(*said(text, reasoning, made, finish))
    return seen


def same(seen):
    """Whether the harness got what the engine said."""
    one, other = seen.said(), seen.got()
    if not other.choices:
        return False
    told, got = one.choices[0], other.choices[0]
    return all(getattr(told, name) == getattr(got, name) for name in ("text", "reasoning", "calls", "finish_reason")) and all(
        identical(one.usage[name], (other.usage or {}).get(name)) for name in ("prompt_tokens", "completion_tokens")
    )


def broken(seen):
    return list(RULES[seen.dialect].broken_rules(seen.call.delivered))


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(text=TEXT, reasoning=TEXT, made=MADE, finish=FINISH, streamed=st.booleans())
def test_for_every_reply_both_witnesses_read_the_same(witnesses, dialect, text, reasoning, made, finish, streamed):
    seen = answered(witnesses, dialect, text, reasoning, made, finish, streamed)
    assert same(seen)
    assert cached_tokens(seen.got().usage) == 4
    assert traces(seen.call) == set()
    if streamed or dialect == "gemini":
        assert broken(seen) == []


@pytest.mark.parametrize("dialect", DIALECTS)
@given(text=TEXT, reasoning=TEXT, kept=st.integers(0, 4))
def test_of_every_reply_that_breaks_off_both_witnesses_read_what_had_come(witnesses, dialect, text, reasoning, kept):
    _, chunks = said(text, reasoning, [], "stop")
    seen = witnesses(dialect, BODIES[dialect] | ({} if dialect == "gemini" else {"stream": True}))
    seen.break_off(chunks[: min(kept, len(chunks) - 2)])
    told, got = ([(each.reasoning, each.text) for each in reply.choices.values()] for reply in (seen.said(), seen.got()))
    assert (told or [("", "")]) == (got or [("", "")])


def test_a_call_that_breaks_off_is_read_as_far_as_it_had_come(witnesses):
    _, chunks = said("", "", [("bash", '{"command": "ls"}')], "stop")
    seen = witnesses("responses", BODIES["responses"] | {"stream": True})
    seen.break_off(chunks[:2])
    assert [(call.name, call.arguments) for call in seen.got().choices[0].calls] == [("bash", '{"co')]


NO_CONTENT = ("ping", "response.in_progress", "response.content_part.added", "response.content_part.done")


def blocks(seen):
    return [block + "\n\n" for block in seen.call.delivered.body.split("\n\n") if block]


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=60)
@given(data=st.data(), reasoning=st.sampled_from(["", "Hm, well."]))
def test_for_every_event_that_is_missing_something_is_noticed(witnesses, dialect, data, reasoning):
    seen = answered(witnesses, dialect, "I look.", reasoning, [("bash", '{"command": "ls"}'), ("bash", '{"a": 1}')], "stop")
    told = [event.kind for event in events(seen.call.delivered)]
    place = data.draw(st.sampled_from([place for place, kind in enumerate(told) if kind not in NO_CONTENT]))
    left = blocks(seen)
    lost = left.pop(place)
    seen.deliver("".join(left))
    assert broken(seen) or not same(seen) or "signature_delta" in lost


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=60)
@given(data=st.data())
def test_for_every_event_that_comes_twice_something_is_noticed(witnesses, dialect, data):
    seen = answered(witnesses, dialect, "I look.", "Hm.", [("bash", '{"command": "ls"}')], "stop")
    told = [event.kind for event in events(seen.call.delivered)]
    place = data.draw(st.sampled_from([place for place, kind in enumerate(told) if kind != "ping"]))
    twice = blocks(seen)
    twice.insert(place, twice[place])
    repeated = twice[place]
    seen.deliver("".join(twice))
    assert broken(seen) or not same(seen) or "signature_delta" in repeated


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=100)
@given(data=st.data(), other=st.sampled_from([None, 0, "", [], {}, [None], {"type": []}]))
def test_for_every_place_in_an_event_a_value_of_another_kind_raises_nothing(witnesses, dialect, data, other):
    seen = answered(witnesses, dialect, "I look.", "Hm.", [("bash", '{"command": "ls"}')], "stop")
    told = list(events(seen.call.delivered))
    place = data.draw(st.integers(0, len(told) - 1))
    changed = json.loads(told[place].text)
    changed[data.draw(st.sampled_from(sorted(changed)))] = other
    left = blocks(seen)
    left[place] = f"event: {told[place].name}\ndata: {json.dumps(changed)}\n\n"
    seen.deliver("".join(left))
    assert isinstance([seen.got(), *broken(seen), *traces(seen.call)], list)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "body", ["", "{}", "[]", "[1, null]", "null", "data: 3\n\n", "event: x\ndata: {\n\n", '{"output": 3, "content": 4}']
)
def test_bytes_that_are_no_reply_raise_nothing(witnesses, dialect, body):
    seen = answered(witnesses, dialect, "I look.", "", [], "stop")
    seen.deliver(body)
    assert isinstance([seen.got(), *broken(seen), *traces(seen.call)], list)


@pytest.mark.parametrize(
    ("dialect", "old", "new"),
    [
        ("messages", '"stop_reason":"end_turn"', '"stop_reason":"max_tokens"'),
        ("messages", '"stop_reason":"end_turn"', '"stop_reason":"tool_use"'),
        ("messages", '"input_tokens":16', '"input_tokens":20'),
        ("messages", '"cache_read_input_tokens":4', '"cache_read_input_tokens":0'),
        ("responses", '"status":"completed","max', '"status":"incomplete","max'),
        ("responses", '"input_tokens":20', '"input_tokens":16'),
        ("gemini", '"finishReason":"STOP"', '"finishReason":"MAX_TOKENS"'),
        ("gemini", '"finishReason":"STOP"', '"finishReason":"MALFORMED_FUNCTION_CALL"'),
        ("gemini", '"candidatesTokenCount":7', '"candidatesTokenCount":8'),
    ],
)
def test_a_word_that_means_something_else_is_noticed(witnesses, dialect, old, new):
    seen = answered(witnesses, dialect, "I look.", "", [], "stop")
    assert old in seen.call.delivered.body
    seen.deliver(seen.call.delivered.body.replace(old, new))
    assert not same(seen)


def test_the_tokens_of_thoughts_are_part_of_the_completion(witnesses):
    seen = answered(witnesses, "gemini", "I look.", "", [], "stop")
    counts = '"candidatesTokenCount":5,"thoughtsTokenCount":2'
    seen.deliver(seen.call.delivered.body.replace('"candidatesTokenCount":7', counts))
    assert same(seen)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_traces_of_the_capture_are_found_but_not_in_what_the_model_wrote(witnesses, dialect):
    seen = answered(witnesses, dialect, "I look.", "", [("bash", '{"token_ids": [1], "logprobs": {"content": [1]}}')], "stop")
    assert traces(seen.call) == set()
    seen.deliver(seen.call.delivered.body.replace("data: {", 'data: {"token_ids":[1],"logprobs":{"content":[1]},', 1))
    assert traces(seen.call) == {"token_ids", "logprobs"}


def test_a_growing_array_is_read_as_a_stream_of_events(witnesses):
    seen = answered(witnesses, "gemini", "I look.", "", [("bash", "{}")], "stop")
    parts = [event.text for event in events(seen.call.delivered)]
    seen.deliver(f"[{',\r\n'.join(parts)}]")
    assert same(seen)
    assert broken(seen) == []
