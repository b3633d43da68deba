"""The engine's reply as a response: whole and streamed say the same, by the vendor's grammar, and its SDK reads both."""

from __future__ import annotations

import json
import re
from collections import Counter

import httpx
import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_harness.capture.dialects.base import MalformedReplyError, Route
from pytest_harness.capture.dialects.responses import ResponsesDialect

CALL = Route("call")
TOOLS = [
    {"type": "function", "name": "bash", "parameters": {"type": "object"}, "strict": None},
    {"type": "custom", "name": "apply_patch"},
    {
        "type": "namespace",
        "name": "team",
        "description": "",
        "tools": [{"type": "function", "name": "ask", "parameters": {"type": "object"}}],
    },
]
NAMES = ["bash", "apply_patch", "team__ask", "unheard_of"]
texts = st.text(st.characters(codec="utf-8"), max_size=12)
arguments = texts | texts.map(lambda text: json.dumps({"input": text})) | st.just('{"command": "ls"}')
calls = st.lists(st.tuples(st.sampled_from(NAMES), arguments), max_size=3)
finishes = st.sampled_from(["stop", "tool_calls", "length", "content_filter"])
turns = st.fixed_dictionaries({"reasoning": texts, "content": texts, "calls": calls, "finish": finishes})


def prepare(**fields):
    body = json.dumps({"model": "m", "input": "hi", "tools": TOOLS, "stream": True, **fields}).encode()
    return ResponsesDialect().prepare(body, CALL, created=1700000000.9)


def completion(turn, **choice):
    message = {"role": "assistant", "content": turn["content"] or None, "reasoning": turn["reasoning"] or None}
    if turn["calls"]:
        message["tool_calls"] = [
            {"id": f"chatcmpl-tool-{number}", "type": "function", "function": {"name": name, "arguments": text}}
            for number, (name, text) in enumerate(turn["calls"])
        ]
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10, "prompt_tokens_details": {"cached_tokens": 5}}
    return {"choices": [{"index": 0, "message": message, "finish_reason": turn["finish"], **choice}], "usage": usage}


def pieces(text, cut):
    """The text in pieces; ``cut`` draws the sizes."""
    while text:
        size = cut()
        yield text[:size]
        text = text[size:]


def chunks(turn, cut):
    """The turn as an engine streams it."""
    deltas = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning": piece} for piece in pieces(turn["reasoning"], cut)]
    deltas += [{"content": piece} for piece in pieces(turn["content"], cut)]
    for number, (name, text) in enumerate(turn["calls"]):
        deltas.append({"tool_calls": [{"index": number, "id": f"chatcmpl-tool-{number}", "function": {"name": name}}]})
        deltas += [{"tool_calls": [{"index": number, "function": {"arguments": piece}}]} for piece in pieces(text, cut)]
    yield from ({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas)
    yield {"choices": [{"index": 0, "delta": {}, "finish_reason": turn["finish"]}]}
    yield {"choices": [], "usage": completion(turn)["usage"]}


def stream(reply, turn, cut=lambda: 3):
    return b"".join([reply.opening(), *[reply.chunk(chunk) for chunk in chunks(turn, cut)], reply.closing()])


def events(data):
    told = []
    for block in data.decode().split("\n\n")[:-1]:
        head, body = block.split("\n", 1)
        document = json.loads(body.removeprefix("data: "))
        assert head == f"event: {document['type']}"
        told.append(document)
    return told


def nameless(document):
    """The document without the turn's own number and the ids made from it."""
    return json.loads(re.sub(r"[0-9a-f]{32}", "TURN", json.dumps(document)))


class Grammar:
    """Reads a stream event by event and fails where it breaks the vendor's grammar; ``text`` is what its deltas add up to."""

    TEXTS = ("text", "refusal", "arguments", "input")

    def __init__(self, told):
        assert [event["sequence_number"] for event in told] == list(range(len(told)))
        assert [event["type"] for event in told[:2]] == ["response.created", "response.in_progress"]
        assert told[-1]["type"] in ("response.completed", "response.incomplete")
        self.items, self.text, self.done = {}, Counter(), {}
        self.parts = set()
        for event in told[2:-1]:
            self.read(event)
        assert self.items.keys() == self.done.keys()
        assert told[-1]["response"]["output"] == [self.done[index] for index in sorted(self.done)]
        assert sorted(self.done) == list(range(len(self.done)))

    def read(self, event):
        index, kind = event["output_index"], event["type"].removeprefix("response.")
        assert index not in self.done
        if kind == "output_item.added":
            assert index not in self.items
            self.items[index] = event["item"]
            assert event["item"]["status"] == "in_progress"
            self.text[index] = ""
            return
        item = self.items[index]
        if kind == "output_item.done":
            assert event["item"]["id"] == item["id"]
            assert event["item"]["type"] == item["type"]
            self.done[index] = event["item"]
            return
        assert event["item_id"] == item["id"]
        if item["type"] in ("message", "reasoning"):
            assert event["content_index"] == 0
            if kind == "content_part.added":
                assert index not in self.parts
                self.parts.add(index)
            assert index in self.parts
        if kind.endswith(".delta"):
            self.text[index] += event["delta"]
        elif kind.endswith(".done") and kind != "content_part.done":
            [whole] = [event[name] for name in self.TEXTS if name in event]
            assert whole == self.text[index]


@settings(deadline=None, max_examples=60)
@given(turn=turns, data=st.data(), sealed=st.booleans())
def test_a_stream_keeps_the_grammar_and_ends_in_the_whole_response(turn, data, sealed):
    include = ["reasoning.encrypted_content"] if sealed else None
    _, whole = prepare(include=include)
    _, streamed = prepare(include=include)
    response = json.loads(whole.whole(completion(turn)))
    told = events(stream(streamed, turn, lambda: data.draw(st.integers(1, 13))))
    Grammar(told)
    assert nameless(told[-1]["response"]) == nameless(response)
    assert told[-1]["type"] == f"response.{response['status']}"


@settings(deadline=None, max_examples=60)
@given(turn=turns, data=st.data())
def test_the_sdk_reads_a_stream_to_the_response_that_it_reads_whole(turn, data):
    replies = {}

    def serve(request):
        streamed = json.loads(request.content).get("stream")
        prepared, reply = ResponsesDialect().prepare(request.content, CALL, created=1)
        assert prepared.streamed is bool(streamed)
        if streamed:
            body = stream(reply, turn, lambda: data.draw(st.integers(1, 13)))
            return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=body)
        return httpx.Response(200, json=json.loads(reply.whole(completion(turn))))

    with openai.OpenAI(api_key="k", http_client=httpx.Client(transport=httpx.MockTransport(serve))) as client:
        replies["whole"] = client.responses.create(model="m", input="hi", tools=TOOLS)
        with client.responses.stream(model="m", input="hi", tools=TOOLS) as events_:
            final = [event for event in events_ if event.type in ("response.completed", "response.incomplete")]
        replies["streamed"] = final[0].response
    dumped = {name: nameless(reply.to_dict(exclude_unset=False, warnings=False)) for name, reply in replies.items()}
    for item in dumped["streamed"]["output"]:  # what the stream helper adds
        item.pop("parsed_arguments", None)
        for part in item.get("content") or ():
            part.pop("parsed", None)
    assert _plain(dumped["streamed"]) == _plain(dumped["whole"])
    assert replies["whole"].output_text == turn["content"]
    assert replies["whole"].usage.total_tokens == 10


def _plain(document):
    """Without nulls, which typed and untyped items show differently."""
    if isinstance(document, dict):
        return {name: _plain(value) for name, value in document.items() if value is not None}
    return [_plain(value) for value in document] if isinstance(document, list) else document


def turn(content="", reasoning="", calls=(), finish="stop"):
    return {"content": content, "reasoning": reasoning, "calls": list(calls), "finish": finish}


def whole(said, **fields):
    return json.loads(prepare(**fields)[1].whole(completion(said)))


def test_a_reply_becomes_reasoning_a_message_and_calls_in_this_order():
    said = turn("Let me look.", "hmm", [("bash", '{"command":  "ls"}'), ("bash", '{"command": "pwd"}')], "tool_calls")
    response = whole(said)
    assert [item["type"] for item in response["output"]] == ["reasoning", "message", "function_call", "function_call"]
    reasoning, message, first, second = response["output"]
    assert reasoning["content"] == [{"type": "reasoning_text", "text": "hmm"}]
    assert reasoning["summary"] == []
    assert reasoning["encrypted_content"] is None
    assert message["content"] == [{"type": "output_text", "text": "Let me look.", "annotations": [], "logprobs": []}]
    assert (first["call_id"], first["name"], first["arguments"]) == ("chatcmpl-tool-0", "bash", '{"command":  "ls"}')
    assert second["call_id"] == "chatcmpl-tool-1"
    assert [item["id"].split("_")[0] for item in response["output"]] == ["rs", "msg", "fc", "fc"]
    assert len({item["id"] for item in response["output"]}) == 4
    assert response["status"] == "completed"
    assert response["incomplete_details"] is None


def test_usage_is_told_in_the_dialects_words():
    assert whole(turn("hi"))["usage"] == {
        "input_tokens": 7,
        "input_tokens_details": {"cached_tokens": 5, "cache_write_tokens": 0},
        "output_tokens": 3,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 10,
    }


def test_a_reply_without_usage_has_none():
    document = completion(turn("hi"))
    del document["usage"]
    assert json.loads(prepare()[1].whole(document))["usage"] is None


def test_a_reply_cut_by_the_limit_is_incomplete_and_so_is_its_last_item():
    response = whole(turn("Hello", "hm", finish="length"))
    assert response["status"] == "incomplete"
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert [item["status"] for item in response["output"]] == ["completed", "incomplete"]


def test_a_reason_that_the_dialect_does_not_know_survives():
    assert whole(turn("Hello", finish="repetition"))["incomplete_details"] == {"reason": "repetition"}


def test_an_empty_reply_is_an_empty_message():
    [item] = whole(turn())["output"]
    assert item["content"][0]["text"] == ""


def test_a_namespaced_call_names_its_namespace_and_a_custom_call_gives_its_input():
    response = whole(turn(calls=[("team__ask", "{}"), ("apply_patch", '{"input": "*** Begin Patch"}')], finish="tool_calls"))
    ask, patch = response["output"]
    assert (ask["type"], ask["name"], ask["namespace"]) == ("function_call", "ask", "team")
    assert (patch["type"], patch["name"], patch["input"]) == ("custom_tool_call", "apply_patch", "*** Begin Patch")


@pytest.mark.parametrize("text", ["not json", '{"input": 1}', '{"input": "a", "b": 2}', '["input"]', ""])
def test_malformed_arguments_of_a_custom_call_are_its_input_as_they_are(text):
    [patch] = whole(turn(calls=[("apply_patch", text)]))["output"]
    assert patch["input"] == text


def test_no_call_is_done_before_the_reply_ends_as_the_harness_may_run_it():
    _, reply = prepare()
    said = turn("Look.", "hm", [("bash", "{}"), ("apply_patch", "x"), ("bash", "{}")], "tool_calls")
    before = reply.opening() + b"".join(reply.chunk(chunk) for chunk in chunks(said, lambda: 2))
    done = [event["item"]["type"] for event in events(before) if event["type"] == "response.output_item.done"]
    assert done == ["reasoning", "message"]
    done = [event["item"]["type"] for event in events(reply.closing()) if event["type"] == "response.output_item.done"]
    assert done == ["function_call", "custom_tool_call", "function_call"]


def test_calls_whose_pieces_alternate_keep_their_own_arguments():
    _, reply = prepare()
    told = reply.opening()
    for index, text in [(0, '{"a"'), (1, '{"b"'), (0, ": 1}"), (1, ": 2}")]:
        call = {"index": index, "id": f"c{index}", "function": {"name": "bash", "arguments": text}}
        told += reply.chunk({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})
    told += reply.chunk({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    told = events(told + reply.closing())
    Grammar(told)
    assert [item["arguments"] for item in told[-1]["response"]["output"]] == ['{"a": 1}', '{"b": 2}']


def test_text_after_a_call_is_a_second_message():
    _, reply = prepare()
    deltas = [
        {"content": "a"},
        {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "bash", "arguments": "{}"}}]},
        {"content": "b"},
    ]
    told = reply.opening() + b"".join(reply.chunk({"choices": [{"index": 0, "delta": delta}]}) for delta in deltas)
    told += reply.chunk({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    told = events(told + reply.closing())
    Grammar(told)
    assert [item["type"] for item in told[-1]["response"]["output"]] == ["message", "function_call", "message"]


def test_a_call_without_an_id_gets_one():
    document = completion(turn(calls=[("bash", "{}"), ("bash", "{}")]))
    for call in document["choices"][0]["message"]["tool_calls"]:
        call["id"] = None
    identities = [item["call_id"] for item in json.loads(prepare()[1].whole(document))["output"]]
    assert all(identities)
    assert len(set(identities)) == 2


def test_a_refusal_is_told_as_one():
    document = completion(turn())
    document["choices"][0]["message"]["refusal"] = "No."
    [item] = json.loads(prepare()[1].whole(document))["output"]
    assert item["content"] == [{"type": "refusal", "refusal": "No."}]


def test_the_response_repeats_what_was_asked():
    response = whole(
        turn("hi"),
        instructions="Be kind.",
        metadata={"a": "b"},
        temperature=0.5,
        max_output_tokens=64,
        parallel_tool_calls=False,
        prompt_cache_key="key",
        tool_choice="required",
        reasoning={"effort": "low"},
        tools=[*TOOLS, {"type": "web_search"}],
    )
    assert response["model"] == "m"
    assert response["created_at"] == 1700000000
    assert response["instructions"] == "Be kind."
    assert response["metadata"] == {"a": "b"}
    assert response["temperature"] == 0.5
    assert response["max_output_tokens"] == 64
    assert response["parallel_tool_calls"] is False
    assert response["prompt_cache_key"] == "key"
    assert response["tool_choice"] == "required"
    assert response["reasoning"] == {"effort": "low", "summary": None}
    assert response["store"] is False
    assert response["tools"] == TOOLS  # what is withheld from the model is not said to be on offer


def entry(text, logprob=-0.5):
    return {"token": text, "logprob": logprob, "bytes": list(text.encode()), "top_logprobs": []}


LOGPROBS = {"include": ["message.output_text.logprobs"], "top_logprobs": 0}


def test_logprobs_come_with_the_text_they_belong_to():
    prepared, reply = prepare(**LOGPROBS)
    assert prepared.chat["logprobs"] is True
    sampled = [entry(token) for token in ("<think>", "Yes", "</think>", "Yes", "!", "<|im_end|>")]
    response = json.loads(reply.whole(completion(turn("Yes!", "Yes"), logprobs={"content": sampled})))
    [part] = response["output"][1]["content"]
    assert [logprob["token"] for logprob in part["logprobs"]] == ["Yes", "!"]


def test_logprobs_of_a_stream_come_with_each_piece_and_end_as_in_the_whole():
    _, reply = prepare(**LOGPROBS)
    told = reply.opening()
    for token in ("Yes", "!"):
        told += reply.chunk({"choices": [{"index": 0, "delta": {"content": token}, "logprobs": {"content": [entry(token)]}}]})
    told += reply.chunk({"choices": [{"index": 0, "delta": {}, "logprobs": {"content": [entry("<|im_end|>")]}, "finish_reason": "stop"}]})
    told = events(told + reply.closing())
    deltas = [event["logprobs"] for event in told if event["type"] == "response.output_text.delta"]
    assert [[logprob["token"] for logprob in logprobs] for logprobs in deltas] == [["Yes"], ["!"]]
    [part] = told[-1]["response"]["output"][0]["content"]
    assert [logprob["token"] for logprob in part["logprobs"]] == ["Yes", "!"]


def test_logprobs_stay_away_from_who_did_not_ask():
    document = completion(turn("Yes"), logprobs={"content": [entry("Yes")]})
    [item] = json.loads(prepare()[1].whole(document))["output"]
    assert item["content"][0]["logprobs"] == []


@pytest.mark.parametrize("document", [{}, {"choices": None}, {"choices": []}, {"choices": ["x"]}])
def test_a_reply_that_is_none_is_said_to_be_malformed(document):
    with pytest.raises(MalformedReplyError):
        prepare()[1].whole(document)


def test_an_error_in_a_stream_is_raised_by_the_sdk_and_followed_by_a_failed_response():
    def serve(request):
        _, reply = ResponsesDialect().prepare(request.content, CALL, created=1)
        body = reply.opening() + reply.error_event(502, "The engine broke off.")
        told = events(body)
        assert [event["type"] for event in told[2:]] == ["error", "response.failed"]
        assert told[-1]["response"]["error"] == {"code": "server_error", "message": "The engine broke off."}
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=body)

    with (
        openai.OpenAI(api_key="k", http_client=httpx.Client(transport=httpx.MockTransport(serve))) as client,
        client.responses.create(model="m", input="hi", stream=True) as told,
        pytest.raises(openai.APIError, match="broke off"),
    ):
        list(told)
