"""What Anthropic's own SDK reads of a reply: the same from a stream, however the engine cut it, as from a whole message.

And what goes back to the engine when the turn is echoed: what the engine said.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import anthropic
import httpx2
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pytest_harness.capture.dialects.base import MalformedReplyError, Reply, Route
from pytest_harness.capture.dialects.messages import MESSAGES
from pytest_harness.engines.scripted.answer import Answerer
from pytest_harness.engines.scripted.request import read_chat
from pytest_harness.engines.scripted.script import Script
from pytest_harness.engines.scripted.tokenizer import CALL, SPECIALS, TAGS, ChatTokenizer
from pytest_harness.engines.scripted.wire import chunks as engine_chunks
from pytest_harness.engines.scripted.wire import completion as engine_completion

Json = dict[str, Any]
TOKENIZER = ChatTokenizer.bundled()
USER = {"role": "user", "content": "Do it."}
TOOL = {"name": "bash", "description": "Run it.", "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}}}
USAGE = {"prompt_tokens": 20, "completion_tokens": 7, "total_tokens": 27, "prompt_tokens_details": None}

# --- the engine's side -------------------------------------------------------------------------------------------------------------------


def call(name: str, arguments: str | None, call_id: str | None) -> Json:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def completion(message: Json, finish: str = "stop", stop: str | int | None = None, usage: Json | None = USAGE) -> Json:
    choice = {"index": 0, "message": {"role": "assistant"} | message, "finish_reason": finish, "stop_reason": stop}
    return {"id": "chatcmpl-1", "object": "chat.completion", "model": "served", "choices": [choice], "usage": usage}


def chunk(delta: Json, finish: str | None = None, stop: str | int | None = None) -> Json:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish, "stop_reason": stop}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "served", "choices": [choice]}


def chunks(whole: Json, cut: Iterator[int] | None = None) -> Iterator[Json]:
    """The same reply as a stream, each of its texts cut into pieces of the given sizes."""
    choice, message = whole["choices"][0], whole["choices"][0]["message"]

    def pieces(text: str | None) -> Iterable[str]:
        at = 0
        while at < len(text or ""):
            size = 3 if cut is None else next(cut)
            if size == 0:
                yield ""
            else:
                yield (text or "")[at : at + size]
                at += size

    yield chunk({"role": "assistant", "content": ""})
    for name in ("reasoning", "content"):
        for piece in pieces(message.get(name)):
            yield chunk({name: piece, "tool_calls": []} if piece else {})
    for index, one in enumerate(message.get("tool_calls") or ()):
        yield chunk({"content": None, "tool_calls": [{"index": index} | one | {"function": {"name": one["function"]["name"]}}]})
        for piece in pieces(one["function"]["arguments"]):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]} if piece else {})
    yield chunk({}, choice["finish_reason"], choice["stop_reason"])
    yield {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "served", "choices": [], "usage": whole["usage"]}


# --- the harness's side ------------------------------------------------------------------------------------------------------------------


def reply(**fields: Any) -> Reply:
    body = {"model": "asked", "max_tokens": 100, "messages": [USER]} | fields
    return MESSAGES.prepare(json.dumps(body).encode(), Route("call"), created=0.0)[1]


def streamed(parts: Iterable[Json], turn: Reply | None = None) -> bytes:
    turn = turn or reply()
    return b"".join([turn.opening(), *[turn.chunk(part) for part in parts], turn.closing()])


def client(body: bytes, status: int = 200, content_type: str = "text/event-stream") -> anthropic.Anthropic:
    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(status, headers={"content-type": content_type}, content=body)

    transport = httpx2.MockTransport(answer)
    return anthropic.Anthropic(
        api_key="k", base_url="http://proxy", max_retries=0, http_client=anthropic.DefaultHttpxClient(transport=transport)
    )


def ask(**fields: Any) -> Json:
    return {"model": "asked", "max_tokens": 100, "messages": [USER]} | fields


def read_stream(body: bytes) -> Json:
    with client(body) as sdk, sdk.messages.stream(**ask()) as stream:
        return plain(stream.get_final_message())


def read_whole(body: bytes) -> Json:
    with client(body, content_type="application/json") as sdk:
        return plain(sdk.messages.create(**ask()))


def plain(message: anthropic.types.Message) -> Json:
    """What the SDK read; the id, and an id made for a call that had none, are others in every reply."""
    told: Json = message.to_dict()
    assert told.pop("id").startswith("msg_")
    for block in told["content"]:
        block.pop("parsed_output", None)
        if block["type"] == "tool_use" and block["id"].startswith("call_"):
            block["id"] = "made"
    return {name: value for name, value in told.items() if value is not None}


def events(body: bytes) -> list[tuple[str, Json]]:
    told = []
    for event in body.decode().split("\n\n")[:-1]:
        name, data = event.split("\n")
        told.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return told


# --- stream and whole are one ------------------------------------------------------------------------------------------------------------

texts = st.text(max_size=40)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(texts, json_values, max_size=3).map(lambda value: json.dumps(value, ensure_ascii=False))
broken = ["", " ", "{", "}", '{"command": "l', "[1, 2]", "null", "7", '"ls"', "ls", '{"a": NaN}', '{"a": 1e999}', '{"a": 1} {"b": 2}']
odd = ['{"a": "\\ud800"}', '{"INVALID_JSON": "x"}', '{"INVALID_JSON": 1}', '{ "a" :\n1.0 }', '{"a":1,"a":2}', "{} "]
awkward = st.sampled_from([*broken, *odd])
calls = st.lists(
    st.builds(
        call,
        st.sampled_from(["bash", "read", "ü b"]),
        objects | awkward | texts,
        st.none() | st.uuids().map(lambda id_: f"chatcmpl-tool-{id_}"),
    ),
    max_size=3,
)
usages = st.builds(
    lambda prompt, cached, sampled: {
        "prompt_tokens": prompt,
        "completion_tokens": sampled,
        "total_tokens": prompt + sampled,
        "prompt_tokens_details": None if cached is None else {"cached_tokens": min(cached, prompt)},
    },
    st.integers(1, 10**6),
    st.none() | st.integers(0, 10**6),
    st.integers(0, 10**6),
)


@st.composite
def turns(draw: st.DrawFn) -> Json:
    message: Json = {"content": draw(st.none() | texts), "reasoning": draw(st.none() | texts)}
    if said := draw(calls):
        message["tool_calls"] = said
    finish = draw(st.sampled_from(["stop", "length", "tool_calls", "content_filter"]))
    return completion(message, finish, draw(st.none() | st.integers() | st.just("STOP") | texts), draw(usages))


@settings(deadline=None)
@given(turns(), st.lists(st.integers(0, 9), min_size=1).filter(any))
def test_the_sdk_reads_the_same_message_from_a_stream_as_from_a_whole_reply(turn, sizes):
    def cut() -> Iterator[int]:
        while True:
            yield from sizes

    one, other = reply(stop_sequences=["STOP"]), reply(stop_sequences=["STOP"])
    assert read_stream(streamed(chunks(turn, cut()), one)) == read_whole(other.whole(turn))


@settings(deadline=None)
@given(turns())
def test_an_echoed_turn_goes_to_the_engine_as_the_engine_said_it(turn):
    for body in (reply().whole(turn), json.dumps(read_stream(streamed(chunks(turn)))).encode()):
        told = json.loads(body)
        echo = {"role": "assistant", "content": told["content"]}
        answers = [
            {"type": "tool_result", "tool_use_id": block["id"], "content": "ok"} for block in told["content"] if block["type"] == "tool_use"
        ]
        back = json.dumps(ask(messages=[USER, echo, {"role": "user", "content": answers or "Go on."}])).encode()
        assistant = MESSAGES.prepare(back, Route("call"), created=0.0)[0].chat["messages"][1]
        said = turn["choices"][0]["message"]
        assert (assistant["content"] or "") == (said["content"] or "")
        assert assistant.get("reasoning_content", "") == (said["reasoning"] or "")
        assert len(assistant.get("tool_calls", ())) == len(said.get("tool_calls", ()))
        for again, once in zip(assistant.get("tool_calls", ()), said.get("tool_calls", ()), strict=True):
            assert again["id"] == once["id"] or once["id"] is None
            assert again["function"]["name"] == once["function"]["name"]
            assert same_arguments(again["function"]["arguments"], once["function"]["arguments"])


def same_arguments(again: str, once: str) -> bool:
    """Whether two texts are the same arguments: the same JSON object (no text being an empty one), or else the same text."""
    try:
        value = json.loads(once)
    except ValueError:
        value = None
    if isinstance(value, dict):
        return json.loads(again) == value
    return again == once or (not once.strip() and again == "{}")


BEGINNINGS = tuple(CALL[:length] for length in range(1, len(CALL)))
words = st.text(max_size=20).filter(lambda text: not any(tag in text for tag in (*SPECIALS, *TAGS)))
steps = st.lists(
    st.tuples(words.filter(str.strip), st.just([])) | st.tuples(words, st.lists(words, min_size=1, max_size=3)), min_size=2, max_size=4
)


@settings(deadline=None)
@given(steps=steps, system=st.none() | words, streams=st.booleans())
def test_an_echoed_conversation_extends_the_sampled_ids(steps, system, streams):
    # As vLLM's, the engine's stream never tells the end of a text that may be the beginning of a call, if nothing follows it.
    assume(not streams or not any(text.endswith(BEGINNINGS) for text, calls in steps if not calls))
    answerer = Answerer(
        Script.for_seam(steps, shell_tool="bash", extra={"deep": {"b": [1, 2.5, None, True], "a": "ü"}}), TOKENIZER, 100_000
    )
    turns: list[Json] = [{"role": "user", "content": [{"type": "text", "text": "Do it."}]}]
    before: list[int] = []
    for number in range(len(steps)):
        body = ask(max_tokens=10_000, messages=turns, tools=[TOOL], **({} if system is None else {"system": system}))
        prepared, turn = MESSAGES.prepare(json.dumps(body).encode(), Route("call"), created=0.0)
        asked = read_chat(prepared.chat | {"return_token_ids": True, "stream": streams}, model="m", tokens_as_ids=True)
        answer = answerer.answer(asked, str(number))
        told = read_stream(streamed(engine_chunks(answer), turn)) if streams else read_whole(turn.whole(engine_completion(answer)))
        assert list(answer.prompt_ids[: len(before)]) == before
        before = [*answer.prompt_ids, *answer.choices[0].ids]
        turns.append({"role": "assistant", "content": told["content"]})
        results = [{"type": "tool_result", "tool_use_id": b["id"], "content": "ok\n"} for b in told["content"] if b["type"] == "tool_use"]
        turns.append({"role": "user", "content": results or "Go on."})


# --- the whole message -------------------------------------------------------------------------------------------------------------------


def test_a_whole_message():
    message = {"content": "I look.", "reasoning": "Hm.", "tool_calls": [call("bash", '{"command": "ls"}', "chatcmpl-tool-1")]}
    told = json.loads(reply().whole(completion(message, "tool_calls")))
    assert told.pop("id").startswith("msg_")
    thinking = told["content"].pop(0)
    assert (thinking["type"], thinking["thinking"]) == ("thinking", "Hm.")
    assert thinking["signature"]
    assert told == {
        "type": "message",
        "role": "assistant",
        "model": "asked",
        "content": [
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "chatcmpl-tool-1", "name": "bash", "input": {"command": "ls"}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 20, "output_tokens": 7},
    }


def test_message_ids_are_unique_for_every_call():
    ids = {json.loads(reply().whole(completion({"content": "x"})))["id"] for _ in range(100)}
    assert len(ids) == 100


def test_reasoning_is_read_under_both_of_its_names():
    for name in ("reasoning", "reasoning_content"):
        assert read_whole(reply().whole(completion({name: "Hm.", "content": "x"})))["content"][0]["thinking"] == "Hm."


@pytest.mark.parametrize(
    ("finish", "stop", "with_call", "told"),
    [
        ("stop", None, False, ("end_turn", None)),
        ("stop", 4089, False, ("end_turn", None)),
        ("stop", "STOP", False, ("stop_sequence", "STOP")),
        ("stop", "<|im_end|>", False, ("end_turn", None)),
        ("stop", None, True, ("tool_use", None)),
        ("tool_calls", None, True, ("tool_use", None)),
        ("length", None, False, ("max_tokens", None)),
        ("length", None, True, ("max_tokens", None)),
        ("content_filter", None, False, ("refusal", None)),
    ],
)
def test_how_a_turn_ended_is_the_engines_word(finish, stop, with_call, told):
    message: Json = {"content": "x"} | ({"tool_calls": [call("bash", "{}", "c")]} if with_call else {})
    whole = completion(message, finish, stop)
    for read in (
        json.loads(reply(stop_sequences=["STOP"]).whole(whole)),
        events(streamed(chunks(whole), reply(stop_sequences=["STOP"])))[-2][1]["delta"],
    ):
        assert (read["stop_reason"], read["stop_sequence"]) == told


@pytest.mark.parametrize("finish", ["abort", "error", None])
def test_an_end_that_anthropic_has_no_word_for_is_an_error_and_never_a_completed_turn(finish):
    whole = completion({"content": "x"}, finish)
    with pytest.raises(MalformedReplyError):
        reply().whole(whole)
    with pytest.raises(MalformedReplyError):
        streamed(chunks(whole))


def test_cached_tokens_are_not_counted_among_the_input():
    usage = USAGE | {"prompt_tokens_details": {"cached_tokens": 16}}
    told = read_whole(reply().whole(completion({"content": "x"}, usage=usage)))["usage"]
    assert told == {"input_tokens": 4, "cache_read_input_tokens": 16, "output_tokens": 7}


def test_what_the_engine_did_not_count_is_null_and_not_zero():
    told = json.loads(reply().whole(completion({"content": "x"}, usage=None)))["usage"]
    assert told == {"input_tokens": None, "output_tokens": None}


def test_counts_of_a_cache_that_the_engine_does_not_tell_are_left_out_because_strict_clients_refuse_null():
    start, ending = (events(streamed(chunks(completion({"content": "x"}))))[place][1] for place in (0, -2))
    assert start["message"]["usage"] == {"input_tokens": 0, "output_tokens": 0}
    assert ending["usage"] == {"input_tokens": 20, "output_tokens": 7}


@pytest.mark.parametrize("arguments", ["{", '{"command": "l', "[1]", "7", "null", "ls", '{"a": NaN}', '{"INVALID_JSON": "x"}'])
def test_arguments_that_are_no_object_reach_the_harness_as_the_model_wrote_them(arguments):
    whole = completion({"tool_calls": [call("bash", arguments, "c")]}, "tool_calls")
    assert read_whole(reply().whole(whole))["content"][0]["input"] == {"INVALID_JSON": arguments}
    assert read_stream(streamed(chunks(whole)))["content"][0]["input"] == {"INVALID_JSON": arguments}


def test_calls_without_an_id_get_one_each():
    whole = completion({"tool_calls": [call("bash", "{}", None), call("bash", "{}", ""), call("bash", "{}", "c"), call("bash", "{}", "c")]})
    for told in (
        json.loads(reply().whole(whole))["content"],
        [e["content_block"] for n, e in events(streamed(chunks(whole))) if n.endswith("_start") and "index" in e],
    ):
        ids = [block["id"] for block in told]
        assert all(ids)
        assert len(set(ids)) == 4
        assert ids[2] == "c"


@pytest.mark.parametrize(
    "document", [{}, {"choices": None}, {"choices": []}, {"choices": ["x"]}, {"choices": [{"message": None, "index": 0}]}]
)
def test_a_reply_that_is_none_is_an_error(document):
    with pytest.raises(MalformedReplyError):
        reply().whole(document)


# --- the stream --------------------------------------------------------------------------------------------------------------------------


def test_the_events_of_a_stream_come_in_the_vendors_order():
    message = {
        "reasoning": "Hm.",
        "content": "I look.",
        "tool_calls": [call("bash", '{"command": "ls"}', "c-1"), call("read", "{}", "c-2")],
    }
    told = events(streamed(chunks(completion(message, "tool_calls"))))
    assert [(name, data.get("index"), data.get("delta", {}).get("type")) for name, data in told] == [
        ("message_start", None, None),
        ("ping", None, None),
        ("content_block_start", 0, None),
        ("content_block_delta", 0, "thinking_delta"),
        ("content_block_delta", 0, "signature_delta"),
        ("content_block_stop", 0, None),
        ("content_block_start", 1, None),
        ("content_block_delta", 1, "text_delta"),
        ("content_block_delta", 1, "text_delta"),
        ("content_block_delta", 1, "text_delta"),
        ("content_block_stop", 1, None),
        ("content_block_start", 2, None),
        ("content_block_delta", 2, "input_json_delta"),
        ("content_block_stop", 2, None),
        ("content_block_start", 3, None),
        ("content_block_delta", 3, "input_json_delta"),
        ("content_block_stop", 3, None),
        ("message_delta", None, None),
        ("message_stop", None, None),
    ]
    assert all(name == data["type"] for name, data in told)


def test_each_piece_of_text_is_passed_on_when_it_comes():
    turn = reply()
    turn.opening()
    assert b'"text":"One"' in turn.chunk(chunk({"content": "One"}))
    assert b'"text":" two"' in turn.chunk(chunk({"content": " two"}))


def test_the_first_sign_of_a_call_is_passed_on_at_once():
    turn = reply()
    assert b'"name":"bash"' in turn.chunk(chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "bash"}}]}))


def test_pings_say_that_a_long_call_is_alive():
    turn = reply()
    turn.chunk(chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "bash"}}]}))
    told = b"".join(turn.chunk(chunk({"tool_calls": [{"index": 0, "function": {"arguments": "x"}}]})) for _ in range(100))
    assert {name for name, _ in events(told)} == {"ping"}


def test_nothing_that_ends_the_turn_or_lets_its_last_call_run_comes_before_the_closing():
    turn = reply()
    parts = chunks(completion({"tool_calls": [call("bash", '{"command": "ls"}', "c")]}, "tool_calls"))
    told = b"".join([turn.opening(), *[turn.chunk(part) for part in parts]])
    assert [name for name, _ in events(told)] == ["message_start", "ping", "content_block_start"]
    assert [name for name, _ in events(turn.closing())] == ["content_block_delta", "content_block_stop", "message_delta", "message_stop"]


def test_text_after_a_call_is_a_block_of_its_own():
    pieces = [{"content": "One."}, {"tool_calls": [{"index": 0, **call("bash", "{}", "c")}]}, {"content": "Two."}]
    told = read_stream(streamed([*map(chunk, pieces), chunk({}, "tool_calls")]))
    assert [block["type"] for block in told["content"]] == ["text", "tool_use", "text"]


def test_a_call_told_in_one_piece_with_everything_else_is_whole():
    delta = {"reasoning": "Hm.", "content": "I look.", "tool_calls": [{"index": 0, **call("bash", '{"command": "ls"}', "c")}]}
    told = read_stream(streamed([chunk(delta, "tool_calls")]))
    assert [block["type"] for block in told["content"]] == ["thinking", "text", "tool_use"]
    assert told["content"][2]["input"] == {"command": "ls"}


def test_an_id_told_again_makes_no_second_call():
    first, again = {"index": 0, **call("bash", '{"a"', "c")}, {"index": 0, **call("bash", ": 1}", "c")}
    told = read_stream(streamed([chunk({"tool_calls": [first]}), chunk({"tool_calls": [again]}, "tool_calls")]))
    assert [block["input"] for block in told["content"]] == [{"a": 1}]


def test_parallel_calls_that_an_engine_counts_all_zero_stay_apart():
    parts = [chunk({"tool_calls": [{"index": 0, **call("bash", f'{{"a": {n}}}', f"c-{n}")}]}) for n in range(2)]
    told = read_stream(streamed([*parts, chunk({}, "tool_calls")]))
    assert [(block["id"], block["input"]) for block in told["content"]] == [("c-0", {"a": 0}), ("c-1", {"a": 1})]


def test_a_call_that_goes_on_after_another_began_is_an_error_and_not_a_wrong_call():
    turn = reply()
    for index in (0, 1):
        turn.chunk(chunk({"tool_calls": [{"index": index, "id": f"c-{index}", "function": {"name": "bash", "arguments": "{"}}]}))
    with pytest.raises(MalformedReplyError):
        turn.chunk(chunk({"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]}))


def test_an_error_inside_a_stream_is_raised_by_the_sdk():
    turn = reply()
    body = turn.opening() + turn.chunk(chunk({"content": "One"})) + turn.error_event(502, "The engine broke off.")
    with client(body) as sdk, sdk.messages.stream(**ask()) as stream, pytest.raises(anthropic.APIStatusError, match="broke off"):
        stream.get_final_message()


def test_lone_surrogates_do_not_break_a_stream():
    told = streamed([chunk({"content": "\ud83d"}), chunk({"content": "x"}, "stop")])
    assert events(told)[3][1]["delta"]["text"] == "\ud83d"
