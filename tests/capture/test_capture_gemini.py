"""Gemini end to end: google-genai to the proxy to the scripted engine, whole and streamed; what is recorded is what was sampled."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator

import httpx
import pytest
from google import genai
from google.genai import errors, types

from pytest_harness.capture import CaptureProxy, Upstream, read_journal
from pytest_harness.engines.scripted import Script, ScriptedEngine, ShellTool, Step
from pytest_harness.engines.scripted.tokenizer import ChatTokenizer
from pytest_harness.serving import BackgroundServer

SHELL = types.Tool(
    function_declarations=[
        types.FunctionDeclaration(name="bash", parameters=types.Schema(type="OBJECT", properties={"command": types.Schema(type="STRING")}))
    ]
)


@pytest.fixture(scope="module")
def scripted_url() -> Iterator[str]:
    script = Script((Step("I look.", ("ls -la", "pwd")), Step("Again.", ("id",)), Step("Done.")), shell=ShellTool("bash", "command"))
    with BackgroundServer(ScriptedEngine(script, model="served")) as server:
        yield server.listen().url


@pytest.fixture
def session(proxy: CaptureProxy, scripted_url: str, tmp_path):
    session = proxy.open_session(Upstream(url=scripted_url, api_key=None, model="served"), journal=tmp_path / "calls.ndjson")
    yield session
    session.close()


@pytest.fixture
def client(session, proxy_url: str):
    with genai.Client(api_key=session.key, http_options=types.HttpOptions(base_url=proxy_url)) as client:
        yield client


def converse(client: genai.Client, *, streamed: bool) -> list[str]:
    """Talk until the model calls no function; what it said in each turn."""
    chat = client.chats.create(model="gemini-any", config={"system_instruction": "Be brief.", "tools": [SHELL]})
    message: str | list[types.Part] = "Go."
    said = []
    while message:
        responses = list(chat.send_message_stream(message)) if streamed else [chat.send_message(message)]
        parts = [part for response in responses for part in response.candidates[0].content.parts]
        said.append("".join(part.text or "" for part in parts))
        assert responses[-1].candidates[0].finish_reason == types.FinishReason.STOP
        assert responses[-1].usage_metadata.total_token_count
        message = []
        for part in parts:
            if part.function_call:
                result = types.FunctionResponse(
                    id=part.function_call.id, name="bash", response={"output": part.function_call.args["command"]}
                )
                message.append(types.Part(function_response=result))
    return said


@pytest.mark.parametrize("streamed", [False, True])
def test_a_conversation_is_recorded_as_it_was_sampled(client, session, streamed):
    assert converse(client, streamed=streamed) == ["I look.\n", "Again.\n", "Done."]
    session.close()
    calls = read_journal(session.journal.path)
    tokenizer = ChatTokenizer.bundled()
    assert [(call.dialect, call.outcome, call.streamed, call.delivery) for call in calls] == [
        ("gemini", "complete", streamed, "delivered")
    ] * 3
    for call in calls:
        sample = call.samples[0]
        assert len(sample.token_ids) == len(sample.logprobs) > 0
        assert "token_ids" not in call.delivered.body
        assert session.key not in call.model_dump_json()
    for before, after in itertools.pairwise(calls):
        sampled = (*before.prompt_ids, *before.samples[0].token_ids)
        assert after.prompt_ids[: len(sampled)] == sampled
    forwarded = json.loads(calls[-1].forwarded.body)
    made = [call["id"] for message in forwarded["messages"] for call in message.get("tool_calls") or ()]
    answered = [message["tool_call_id"] for message in forwarded["messages"] if message["role"] == "tool"]
    replied = [call for reply in calls for call in made if call in reply.replied.body]
    assert made == answered
    assert sorted(replied) == sorted(made)
    assert tokenizer.decode(calls[0].samples[0].token_ids).startswith("I look.")


def test_a_stream_without_alt_is_one_json_array(session, proxy_url):
    body = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
    url = f"{proxy_url}/v1beta/models/served:streamGenerateContent"
    reply = httpx.post(url, json=body, headers={"x-goog-api-key": session.key}, timeout=20)
    assert reply.headers["content-type"].startswith("application/json")
    documents = reply.json()
    assert isinstance(documents, list)
    assert documents[-1]["candidates"][0]["finishReason"] == "STOP"
    assert "usageMetadata" in documents[-1]


def test_refusals_unknown_keys_and_the_engines_errors_are_raised_by_the_sdk(client, session, proxy_url):
    with pytest.raises(errors.ClientError) as refused:
        client.models.generate_content(model="m", contents="hi", config={"tools": [types.Tool(google_search=types.GoogleSearch())]})
    assert (refused.value.code, refused.value.status) == (400, "INVALID_ARGUMENT")
    assert "googleSearch" in refused.value.message
    with pytest.raises(errors.ClientError) as hot:
        client.models.generate_content(model="m", contents="hi", config={"temperature": 7})
    assert (hot.value.code, hot.value.message) == (400, "temperature must be in [0, 2], got 7.0.")
    stranger = genai.Client(api_key="x" * 40, http_options=types.HttpOptions(base_url=proxy_url))
    with pytest.raises(errors.ClientError) as unknown, stranger:
        stranger.models.generate_content(model="m", contents="hi")
    assert (unknown.value.code, unknown.value.status) == (401, "UNAUTHENTICATED")


def test_models_and_counts_are_answered_and_no_calls(client, session):
    assert [model.name for model in client.models.list()] == ["models/served"]
    assert client.models.get(model="served").name == "models/served"
    assert client.models.count_tokens(model="served", contents="hi").total_tokens > 0
    session.close()
    assert read_journal(session.journal.path) == ()
