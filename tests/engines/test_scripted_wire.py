"""Replies and streams have vLLM's shapes, agree with each other, and are what the official SDK reads."""

import json
import math
from typing import Any

import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_harness.engines.scripted import Script, ScriptedEngine, wire
from pytest_harness.engines.scripted.request import read_chat

from .conftest import BASH

WIDE = Script.for_seam([("Ü and 👩‍👩‍👧.", ["echo 'a \"b\"'", "echo ü {}"]), ("Done, 42.", [])], shell_tool="bash", extra={"n": 1})


def tool_calls(chunks: list[dict[str, Any]], choice: int = 0) -> list[dict[str, Any]]:
    calls: dict[int, dict[str, Any]] = {}
    for delta in deltas(chunks, choice):
        for part in delta.get("tool_calls", ()):
            if "id" in part:
                assert part["index"] == len(calls)
                calls[part["index"]] = {
                    "id": part["id"],
                    "type": part["type"],
                    "function": {"name": part["function"]["name"], "arguments": ""},
                }
            calls[part["index"]]["function"]["arguments"] += part["function"].get("arguments", "")
    return list(calls.values())


def deltas(chunks: list[dict[str, Any]], choice: int = 0) -> list[dict[str, Any]]:
    return [part["delta"] for chunk in chunks for part in chunk["choices"] if part["index"] == choice]


def choices(chunks: list[dict[str, Any]], index: int = 0) -> list[dict[str, Any]]:
    return [part for chunk in chunks for part in chunk["choices"] if part["index"] == index]


def test_a_call_is_told_in_vllms_shape(client):
    reply = client.chat().json()
    assert set(reply) == {
        "id", "object", "created", "model", "choices", "service_tier", "system_fingerprint", "usage", "prompt_logprobs",
        "prompt_token_ids", "prompt_text", "kv_transfer_params", "ec_transfer_params", "metrics",
    }  # fmt: skip
    (choice,) = reply["choices"]
    assert set(choice) == {"index", "message", "logprobs", "finish_reason", "stop_reason", "token_ids", "routed_experts"}
    message = choice["message"]
    assert message["content"] is None
    assert choice["finish_reason"] == "tool_calls"
    (call,) = message["tool_calls"]
    assert call["id"].startswith("chatcmpl-tool-")
    assert call["function"] == {"name": "bash", "arguments": '{"command": "echo 42 > answer.txt"}'}
    assert len(choice["token_ids"]) == len(choice["logprobs"]["content"]) == reply["usage"]["completion_tokens"]
    assert choice["token_ids"][-1] == client.engine.tokenizer.end_of_turn
    assert reply["usage"]["prompt_tokens"] == len(reply["prompt_token_ids"])
    assert reply["usage"]["total_tokens"] == reply["usage"]["prompt_tokens"] + reply["usage"]["completion_tokens"]


def test_a_message_without_calls_has_no_tool_calls_key(client):
    message = client.chat(messages=[{"role": "user", "content": "x"}, {"role": "assistant", "content": None}]).json()["choices"][0][
        "message"
    ]
    assert message == {
        "role": "assistant", "content": "Done.", "refusal": None, "annotations": None, "audio": None,
        "function_call": None, "reasoning": None,
    }  # fmt: skip


def test_the_first_chunk_carries_the_prompt_and_each_next_one_token(client):
    whole = client.chat().json()
    first, *rest = client.chunks(stream_options={"include_usage": True})
    assert first["choices"] == [{"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}]
    assert first["prompt_token_ids"] == whole["prompt_token_ids"]
    *rest, usage = rest
    assert usage["choices"] == []
    assert usage["usage"] == {key: whole["usage"][key] for key in ("prompt_tokens", "total_tokens", "completion_tokens")}
    parts = choices(rest)
    assert [part["token_ids"] for part in parts] == [[token] for token in whole["choices"][0]["token_ids"]]
    assert [part["logprobs"]["content"] for part in parts] == [[entry] for entry in whole["choices"][0]["logprobs"]["content"]]
    assert [part["finish_reason"] for part in parts] == [None] * (len(parts) - 1) + ["tool_calls"]
    assert parts[-1]["delta"] == {}
    assert all("usage" not in chunk for chunk in rest)


def test_inside_a_call_chunks_without_text_still_carry_their_ids(client):
    parts = choices(client.chunks())[1:]
    told = [part["delta"] for part in parts if part["delta"]]
    assert told[0]["content"] is None
    assert set(told[0]["tool_calls"][0]) == {"id", "type", "index", "function"}
    assert told[0]["tool_calls"][0]["function"] == {"name": "bash"}
    assert any(part["delta"] == {} and part["token_ids"] and not part["finish_reason"] for part in parts)


def test_without_ids_and_logprobs_empty_chunks_are_not_sent(client):
    parts = choices(client.chunks(logprobs=None, return_token_ids=None))
    assert all(part["delta"] or part["finish_reason"] for part in parts)
    assert all(part.get("token_ids") is None for part in parts)


@settings(deadline=None, max_examples=60)
@given(
    turn=st.integers(0, 1),
    limit=st.none() | st.integers(1, 80),
    stop=st.sampled_from([None, "4", "👧", "echo", "\n", ["zz", ", "], "</tool_call>"]),
    include_stop=st.booleans(),
    tool_choice=st.sampled_from([None, "auto", "none"]),
    n=st.integers(1, 3),
    parallel=st.booleans(),
)
def test_a_stream_adds_up_to_the_reply_that_is_not_streamed(turn, limit, stop, include_stop, tool_choice, n, parallel):
    engine = ScriptedEngine(WIDE)
    history = [{"role": "assistant", "content": "x"}] * turn
    body = {
        "messages": [{"role": "user", "content": "x"}, *history], "tools": [BASH], "tool_choice": tool_choice, "n": n,
        "max_tokens": limit,
        "stop": stop, "include_stop_str_in_output": include_stop, "parallel_tool_calls": parallel,
        "logprobs": True, "return_token_ids": True,
    }  # fmt: skip
    reply = engine._answerer.answer(read_chat(body, model="m", tokens_as_ids=True), "0")
    whole, chunks = wire.completion(reply), list(wire.chunks(reply))
    for choice in whole["choices"]:
        parts = choices(chunks, choice["index"])
        assert "".join(delta.get("content") or "" for delta in deltas(chunks, choice["index"])) == (choice["message"]["content"] or "")
        assert tool_calls(chunks, choice["index"]) == choice["message"].get("tool_calls", [])
        assert [token for part in parts for token in part.get("token_ids", [])] == choice["token_ids"]
        assert [entry for part in parts[1:] for entry in part["logprobs"]["content"]] == choice["logprobs"]["content"]
        assert parts[-1]["finish_reason"] == choice["finish_reason"]
        assert limit is None or len(choice["token_ids"]) <= limit
        assert len(choice["token_ids"]) == len(choice["logprobs"]["content"])
    assert whole["usage"]["completion_tokens"] == sum(len(choice["token_ids"]) for choice in whole["choices"])


def test_logprobs_name_the_sampled_ids_and_are_finite_and_not_positive(client):
    choice = client.chat(top_logprobs=20).json()["choices"][0]
    for token, entry in zip(choice["token_ids"], choice["logprobs"]["content"], strict=True):
        assert entry["token"] == f"token_id:{token}"
        assert bytes(entry["bytes"]) == client.engine.tokenizer.token_bytes(token)
        top = [item["logprob"] for item in entry["top_logprobs"]]
        assert entry["top_logprobs"][0]["token"] == entry["token"]
        assert top == sorted(top, reverse=True)
        assert len({item["token"] for item in entry["top_logprobs"]}) == 20
        assert math.isfinite(entry["logprob"])
        assert entry["logprob"] <= 0
        assert sum(map(math.exp, top)) <= 1 + 1e-9


def test_a_temperature_of_two_halves_every_gap(client):
    one, two = (client.chat(temperature=t, top_logprobs=3).json()["choices"][0]["logprobs"]["content"] for t in (1.0, 2.0))
    for cold, hot in zip(one, two, strict=True):
        gaps = [[entry["logprob"] - item["logprob"] for item in entry["top_logprobs"]] for entry in (cold, hot)]
        assert gaps[1] == pytest.approx([gap / 2 for gap in gaps[0]])


def test_tokens_are_texts_where_ids_for_texts_are_switched_off(serve):
    client = serve(tokens_as_ids=False)
    content = client.chat().json()["choices"][0]["logprobs"]["content"]
    assert "".join(entry["token"] for entry in content).startswith("<tool_call>\n{")
    content = client.chat(return_tokens_as_token_ids=True).json()["choices"][0]["logprobs"]["content"]
    assert all(entry["token"].startswith("token_id:") for entry in content)


def test_the_same_request_gets_the_same_tokens_under_a_new_id(client):
    one, two = client.chat(seed=1).json(), client.chat(seed=1).json()
    assert one["id"] != two["id"]
    ids = [reply["choices"][0]["message"]["tool_calls"][0].pop("id") for reply in (one, two)]
    assert ids[0] != ids[1]
    for reply in (one, two):
        del reply["id"], reply["created"]
    assert one == two


def test_two_engines_with_different_salts_share_no_id(serve):
    one, two = (serve(salt=salt).chat().json() for salt in "ab")
    assert one["id"] != two["id"]
    assert one["choices"][0]["token_ids"] == two["choices"][0]["token_ids"]


def test_a_reply_that_is_too_long_is_cut_where_it_was_asked_to(client):
    choice = client.chat(max_tokens=5).json()["choices"][0]
    assert (len(choice["token_ids"]), choice["finish_reason"]) == (5, "length")
    assert "tool_calls" not in choice["message"]
    assert choice["message"]["content"].startswith("<tool_call>")
    assert len(client.chat(max_tokens=100, max_completion_tokens=3).json()["choices"][0]["token_ids"]) == 3


def test_a_limit_beyond_the_context_is_clamped(serve):
    length = len(serve().chat().json()["prompt_token_ids"]) + 4
    reply = serve(max_model_len=length).chat(max_tokens=length).json()
    assert reply["choices"][0]["finish_reason"] == "length"
    assert reply["usage"]["total_tokens"] == length


def test_a_stop_string_cuts_the_content_but_not_the_ids(serve):
    client = serve(("one two three", []), script=None)
    choice = client.chat(stop=["wo t"]).json()["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"], choice["stop_reason"]) == ("one t", "stop", "wo t")
    assert client.engine.tokenizer.decode(choice["token_ids"]).startswith("one two t")
    assert len(choice["logprobs"]["content"]) == len(choice["token_ids"])


def test_a_named_tool_ends_in_stop_and_a_required_one_in_tool_calls(client):
    named = {"type": "function", "function": {"name": "bash"}}
    assert client.chat(tool_choice=named).json()["choices"][0]["finish_reason"] == "stop"
    assert client.chat(tool_choice="required").json()["choices"][0]["finish_reason"] == "tool_calls"


def test_usage_in_every_chunk_counts_up(client):
    chunks = client.chunks(stream_options={"include_usage": True, "continuous_usage_stats": True})
    assert [chunk["usage"]["completion_tokens"] for chunk in chunks[:-1]] == list(range(len(chunks) - 1))


def test_the_other_routes_answer(client):
    (card,) = client.get("/v1/models").json()["data"]
    assert (card["id"], card["max_model_len"]) == ("scripted", 32768)
    assert (client.get("/health").status_code, client.get("/health").content) == (200, b"")
    assert "scripted" in client.get("/version").json()["version"]
    prompt = client.chat().json()["prompt_token_ids"]
    body = {"messages": [{"role": "user", "content": "Write 42 to answer.txt."}], "tools": [BASH], "return_token_strs": True}
    tokenized = client.post("/tokenize", json=body).json()
    assert (tokenized["tokens"], tokenized["count"], tokenized["max_model_len"]) == (prompt, len(prompt), 32768)
    assert len(tokenized["token_strs"]) == len(prompt)
    text = client.post("/detokenize", json={"tokens": prompt}).json()["prompt"]
    assert client.post("/tokenize", json={"prompt": text}).json()["tokens"] == prompt
    assert json.dumps(BASH, ensure_ascii=False) in text


def test_the_openai_sdk_reads_both_forms(client):
    sdk = openai.OpenAI(base_url=f"{client.base_url}/v1", api_key="any", max_retries=0)
    asked: dict[str, Any] = {"model": "scripted", "messages": [{"role": "user", "content": "x"}], "tools": [BASH]}
    whole = sdk.chat.completions.create(**asked, extra_body={"return_token_ids": True})
    with sdk.chat.completions.stream(**asked, extra_body={"return_token_ids": True}) as stream:
        streamed = stream.get_final_completion()
    for completion in (whole, streamed):
        message = completion.choices[0].message
        assert message.tool_calls[0].function.arguments == '{"command": "echo 42 > answer.txt"}'
        assert completion.choices[0].finish_reason == "tool_calls"
        assert not message.content
    assert whole.choices[0].model_extra["token_ids"]
    sdk.close()


def test_the_openai_sdk_raises_its_own_errors(serve):
    client = serve(api_key="secret", max_model_len=10)
    sdk = openai.OpenAI(base_url=f"{client.base_url}/v1", api_key="wrong", max_retries=0)
    messages: Any = [{"role": "user", "content": "a long question " * 20}]
    with pytest.raises(openai.AuthenticationError):
        sdk.chat.completions.create(model="scripted", messages=messages)
    sdk.api_key = "secret"
    with pytest.raises(openai.BadRequestError, match="maximum context length is 10 tokens"):
        sdk.chat.completions.create(model="scripted", messages=messages)
    sdk.close()


def test_a_call_that_is_cut_is_content_in_a_whole_reply_and_a_call_in_a_stream(client):
    whole = client.chat(stop=["answer"]).json()["choices"][0]
    assert "tool_calls" not in whole["message"]
    assert (whole["finish_reason"], whole["stop_reason"]) == ("stop", "answer")
    parts = [chunk["choices"][0] for chunk in client.chunks(stop=["answer"])]
    told = [call["function"] for part in parts for call in part["delta"].get("tool_calls") or ()]
    assert "".join(function.get("arguments", "") for function in told) == '{"command": "echo 42 >'
    assert (parts[-1]["finish_reason"], parts[-1]["stop_reason"]) == ("tool_calls", "answer")


def test_text_comes_late_beside_stop_strings_but_the_ids_do_not(serve):
    client = serve(("one two three", []), script=None)
    plain, late = (client.chunks(tools=None, **more) for more in ({}, {"stop": ["STOP!"]}))
    assert text_of(plain) == text_of(late) == "one two three"
    ids = [[chunk["choices"][0].get("token_ids") for chunk in chunks] for chunks in (plain, late)]
    assert ids[0] == ids[1]
    assert "content" not in late[1]["choices"][0]["delta"]


def test_null_for_a_choice_of_tools_means_that_no_call_is_told(client):
    body = {"messages": [{"role": "user", "content": "x"}], "tools": [BASH], "tool_choice": None}
    choice = client.post("/v1/chat/completions", json=body).json()["choices"][0]
    assert "tool_calls" not in choice["message"]


def text_of(chunks):
    return "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])
