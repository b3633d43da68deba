"""OpenAI's SDK talks Responses to the proxy, which asks a scripted engine: what it gets, and what is recorded."""

from __future__ import annotations

import json
from collections.abc import Iterator

import openai
import pytest

from pytest_harness.engines.scripted import Script, ScriptedEngine, ShellTool, Step
from pytest_harness.serving import BackgroundServer

TOOLS = [
    {"type": "function", "name": "bash", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}, "strict": False},
    {"type": "web_search"},
]


@pytest.fixture(scope="module")
def scripted_url() -> Iterator[str]:
    script = Script((Step("I look.", ("ls -la", "pwd")), Step("Done.")), shell=ShellTool("bash", "command"))
    with BackgroundServer(ScriptedEngine(script, model="served", max_model_len=2048)) as server:
        yield server.listen().url


def ask(sdk: openai.OpenAI, streamed: bool, **fields):
    request = {
        "model": "any",
        "instructions": "Be brief.",
        "tools": TOOLS,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        **fields,
    }
    if not streamed:
        return sdk.responses.create(**request)
    with sdk.responses.stream(**request) as events:
        return events.get_final_response()


@pytest.mark.parametrize("streamed", [False, True])
def test_an_agent_loop_runs_and_each_prompt_begins_with_all_that_was_said(open_harness, scripted_url, streamed) -> None:
    harness = open_harness(scripted_url)
    items = [{"role": "developer", "content": "No jokes."}, {"role": "user", "content": "Look around."}]
    first = ask(harness.sdk, streamed, input=items)
    assert [item.type for item in first.output] == ["message", "function_call", "function_call"]
    assert first.output_text.strip() == "I look."
    assert [json.loads(item.arguments) for item in first.output[1:]] == [{"command": "ls -la"}, {"command": "pwd"}]
    items += [item.to_dict(exclude_none=True) for item in first.output]
    items += [{"type": "function_call_output", "call_id": item.call_id, "output": "ok"} for item in first.output[1:]]
    second = ask(harness.sdk, streamed, input=items)
    assert second.status == "completed"
    assert second.output_text == "Done."
    harness.settle()
    calls = harness.recorded()
    assert [(call.dialect, call.outcome, call.streamed) for call in calls] == [("responses", "complete", streamed)] * 2
    said = [call.samples[0].token_ids for call in calls]
    assert calls[1].prompt_ids[: len(calls[0].prompt_ids) + len(said[0])] == (*calls[0].prompt_ids, *said[0])
    assert [response.usage.output_tokens for response in (first, second)] == [len(ids) for ids in said]
    assert [response.usage.input_tokens for response in (first, second)] == [len(call.prompt_ids) for call in calls]
    assert [call.notes for call in calls] == [
        ("tools[1] is of type web_search: only the vendor's server runs it, so the model is not offered it",)
    ] * 2


@pytest.mark.parametrize("streamed", [False, True])
def test_a_reply_cut_by_the_limit_is_incomplete(open_harness, scripted_url, streamed) -> None:
    harness = open_harness(scripted_url)
    request = {"model": "any", "input": "Look around.", "max_output_tokens": 2}
    response = (
        harness.sdk.responses.create(**request) if not streamed else list(harness.sdk.responses.create(**request, stream=True))[-1].response
    )
    assert response.status == "incomplete"
    assert response.incomplete_details.reason == "max_output_tokens"


@pytest.mark.parametrize("streamed", [False, True])
def test_an_overflow_reaches_the_harness_with_its_code(open_harness, scripted_url, streamed) -> None:
    harness = open_harness(scripted_url)
    with pytest.raises(openai.BadRequestError) as caught:
        harness.sdk.responses.create(model="any", input="word " * 4000, stream=streamed)
    assert caught.value.code == "context_length_exceeded"


def test_what_is_refused_never_reaches_the_engine(open_harness, scripted_url) -> None:
    harness = open_harness(scripted_url)
    with pytest.raises(openai.BadRequestError) as caught:
        harness.sdk.responses.create(model="any", input="hi", previous_response_id="resp_1")
    assert caught.value.param == "previous_response_id"
    harness.settle()
    [call] = harness.recorded()
    assert (call.dialect, call.outcome, call.forwarded) == ("responses", "refused", None)


def test_stored_responses_are_not_found_and_no_call(open_harness, scripted_url) -> None:
    harness = open_harness(scripted_url)
    for ask_ in (harness.sdk.responses.retrieve, harness.sdk.responses.cancel, harness.sdk.responses.delete):
        with pytest.raises(openai.NotFoundError):
            ask_("resp_1")
    with pytest.raises(openai.NotFoundError):
        harness.sdk.responses.input_items.list("resp_1")
    assert harness.recorded() == ()
