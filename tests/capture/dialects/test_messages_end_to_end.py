"""Anthropic's SDK through the proxy to the scripted engine: conversations, captured ids, errors, and what is no call."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import anthropic
import httpx
import pytest

from pytest_harness.engines.scripted import Script, ScriptedEngine, ShellTool, Step
from pytest_harness.serving import BackgroundServer

TOOL = {
    "name": "bash",
    "description": "Run a command.",
    "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
}
STEPS = (Step("I look.", ("ls -la", "pwd")), Step("", ("cat a.txt",)), Step("Done."))
USER = {"role": "user", "content": "Look around."}


@pytest.fixture(scope="module")
def scripted_url() -> Iterator[str]:
    with BackgroundServer(ScriptedEngine(Script(STEPS, shell=ShellTool("bash", "command")), model="served", max_model_len=2000)) as server:
        yield server.listen().url


@pytest.fixture
def attempt(open_harness: Callable[..., Any], scripted_url: str) -> Any:
    return open_harness(url=scripted_url)


@contextmanager
def client(attempt: Any, **auth: str) -> Iterator[anthropic.Anthropic]:
    auth = auth or {"api_key": attempt.session.key}
    with anthropic.Anthropic(base_url=attempt.url, max_retries=0, timeout=20, **({"api_key": None, "auth_token": None} | auth)) as sdk:
        yield sdk


def say(sdk: anthropic.Anthropic, turns: list[Any], *, streams: bool) -> anthropic.types.Message:
    request: dict[str, Any] = {"model": "claude-any", "max_tokens": 500, "system": "Be brief.", "tools": [TOOL], "messages": turns}
    if not streams:
        return sdk.messages.create(**request)
    with sdk.messages.stream(**request) as stream:
        return stream.get_final_message()


def converse(attempt: Any, *, streams: bool) -> list[anthropic.types.Message]:
    """The whole script, each reply sent back exactly as the SDK gave it."""
    turns: list[Any] = [USER]
    told = []
    with client(attempt) as sdk:
        while not told or told[-1].stop_reason == "tool_use":
            told.append(say(sdk, turns, streams=streams))
            results = [{"type": "tool_result", "tool_use_id": b.id, "content": "a.txt"} for b in told[-1].content if b.type == "tool_use"]
            turns += [{"role": "assistant", "content": told[-1].content}, {"role": "user", "content": results}]
    return told


@pytest.mark.parametrize("streams", [False, True])
def test_a_conversation_runs_to_its_end_and_each_prompt_extends_the_sampled_ids(attempt, streams):
    told = converse(attempt, streams=streams)
    assert [[(b.type, getattr(b, "input", None)) for b in message.content if b.type == "tool_use"] for message in told] == [
        [("tool_use", {"command": "ls -la"}), ("tool_use", {"command": "pwd"})],
        [("tool_use", {"command": "cat a.txt"})],
        [],
    ]
    assert [message.stop_reason for message in told] == ["tool_use", "tool_use", "end_turn"]
    calls = attempt.session.close()
    assert [(call.dialect, call.streamed, call.outcome) for call in calls] == [("messages", streams, "complete")] * 3
    before: tuple[Any, ...] = ()
    for call, message in zip(calls, told, strict=True):
        assert call.prompt_ids[: len(before)] == before
        (sample,) = call.samples
        before = (*call.prompt_ids, *sample.token_ids)
        assert len(sample.logprobs) == len(sample.token_ids) == message.usage.output_tokens
        assert len(call.prompt_ids) == message.usage.input_tokens


def test_a_stream_tells_what_a_whole_reply_tells(attempt):
    one, other = ([m.content for m in converse(attempt, streams=streams)] for streams in (True, False))
    for streamed, whole in zip(one, other, strict=True):
        assert [b.to_dict() | {"id": None, "parsed_output": None} for b in streamed] == [
            b.to_dict() | {"id": None, "parsed_output": None} for b in whole
        ]


def test_the_engine_is_asked_in_chat_and_the_harness_told_in_messages(attempt):
    converse(attempt, streams=False)
    call = attempt.session.close()[1]
    forwarded, delivered = json.loads(call.forwarded.body), json.loads(call.delivered.body)
    assert [message["role"] for message in forwarded["messages"]] == ["system", "user", "assistant", "tool", "tool"]
    assert (forwarded["model"], forwarded["return_token_ids"]) == ("served", True)
    assert delivered["type"] == "message"
    assert "token_ids" not in str(delivered)


@pytest.mark.parametrize("header", ["api_key", "auth_token"])
def test_both_forms_of_the_key_open_the_session(attempt, header):
    with client(attempt, **{header: attempt.session.key}) as sdk:
        assert say(sdk, [USER], streams=False).content


def test_an_unknown_key_is_an_authentication_error_of_anthropics(attempt):
    with client(attempt, api_key="sk-nobody") as sdk, pytest.raises(anthropic.AuthenticationError) as caught:
        say(sdk, [USER], streams=False)
    assert caught.value.body["error"]["type"] == "authentication_error"
    assert attempt.session.close() == ()


@pytest.mark.parametrize("streams", [False, True])
def test_a_context_overflow_reaches_the_harness_in_the_vendors_words(attempt, streams):
    with client(attempt) as sdk, pytest.raises(anthropic.BadRequestError, match=r"prompt is too long: \d+ tokens > 2000 maximum"):
        say(sdk, [{"role": "user", "content": "word " * 3000}], streams=streams)
    (call,) = attempt.session.close()
    assert (call.outcome, call.delivered.status) == ("upstream_error", 400)


def test_what_cannot_be_said_to_the_engine_is_refused_before_it_gets_there(attempt):
    document = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="}}
    with client(attempt) as sdk, pytest.raises(anthropic.BadRequestError, match=r"messages\.0\.content\.0: a block of type 'document'"):
        say(sdk, [{"role": "user", "content": [document]}], streams=True)
    (call,) = attempt.session.close()
    assert (call.outcome, call.forwarded) == ("refused", None)


def test_routes_that_are_no_calls_are_answered_and_never_recorded(attempt):
    with client(attempt) as sdk:
        count = sdk.messages.count_tokens(model="any", system="Be brief.", tools=[TOOL], messages=[USER]).input_tokens
        assert [model.id for model in sdk.models.list()] == ["served"]
        assert sdk.models.retrieve("served").id == "served"
        with pytest.raises(anthropic.NotFoundError):
            sdk.models.retrieve("claude-any")
        assert say(sdk, [USER], streams=False).usage.input_tokens == count
    assert httpx.head(f"{attempt.url}/api/hello", headers={"x-api-key": attempt.session.key}).status_code == 200
    assert len(attempt.session.close()) == 1


def test_other_routes_of_the_vendor_are_not_found_in_its_shape(attempt):
    reply = httpx.post(
        f"{attempt.url}/v1/messages/batches", json={}, headers={"x-api-key": attempt.session.key, "anthropic-version": "2023-06-01"}
    )
    assert (reply.status_code, reply.json()["error"]["type"]) == (404, "not_found_error")
    assert attempt.session.close() == ()
