"""The engine without a script: what is left to chance, and what is not."""

from __future__ import annotations

import httpx
import pytest

from pytest_harness.engines.scripted import ScriptedEngine
from pytest_harness.serving import BackgroundServer

TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}}}
    for name in ("bash", "look")
]


@pytest.fixture(scope="module")
def ask():
    with BackgroundServer(ScriptedEngine(None, reasons=True)) as server, httpx.Client(base_url=server.listen().url) as client:

        def asked(**fields):
            body = {"messages": [{"role": "user", "content": "Hi"}], "return_token_ids": True, "logprobs": True, "max_tokens": 12, **fields}
            reply = client.post("/v1/chat/completions", json=body)
            assert reply.status_code == 200, reply.text
            return reply.json()["choices"]

        yield asked


def test_a_seed_decides_and_another_one_otherwise(ask):
    one, same, other = (ask(seed=seed)[0]["token_ids"] for seed in (1, 1, 2))
    assert one == same != other


def test_without_a_seed_every_request_and_every_choice_is_a_sample_of_its_own(ask):
    found = [choice["token_ids"] for _ in range(3) for choice in ask(n=2)]
    assert len({tuple(ids) for ids in found}) == len(found)


def test_at_temperature_zero_the_likeliest_token_is_taken(ask):
    entries = ask(temperature=0.0, top_logprobs=3)[0]["logprobs"]["content"]
    assert [entry["token"] for entry in entries] == [entry["top_logprobs"][0]["token"] for entry in entries]


def test_a_forced_text_is_said(ask):
    choice = ask(structured_outputs={"choice": ["The pear is ripe."]})[0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("The pear is ripe.", "stop")


def test_reasoning_is_told_apart(ask):
    choice = ask(structured_outputs={"choice": ["<think>\nA pear.\n</think>\nRipe."]}, max_tokens=64)[0]
    assert (choice["message"]["reasoning"].strip(), choice["message"]["content"].strip()) == ("A pear.", "Ripe.")


@pytest.mark.parametrize(("choice", "name"), [("required", "bash"), ({"type": "function", "function": {"name": "look"}}, "look")])
def test_a_call_that_must_be_is_made(ask, choice, name):
    message = ask(tools=TOOLS, tool_choice=choice, max_tokens=100)[0]["message"]
    assert [(call["function"]["name"], call["function"]["arguments"]) for call in message["tool_calls"]] == [(name, '{"command": "pear"}')]
