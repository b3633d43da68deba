"""The stop reply of a used-up budget, to each vendor's own SDK: a finished text without a tool call, streamed or not, and never a turn."""

from __future__ import annotations

import anthropic
import openai
import pytest
from google import genai
from google.genai import types

from pytest_harness.capture import CaptureProxy, Upstream
from pytest_harness.capture.budget import Budget
from pytest_harness.capture.sessions import Sessions
from pytest_harness.graph import build
from pytest_harness.serving import BackgroundServer

ASKED = [{"role": "user", "content": "Hello"}]


def chat(url: str, key: str, *, stream: bool) -> tuple[str, str]:
    with openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, timeout=60) as sdk:
        if stream:
            with sdk.chat.completions.stream(model="any", messages=ASKED) as events:
                reply = events.get_final_completion()
        else:
            reply = sdk.chat.completions.create(model="any", messages=ASKED)
    assert not reply.choices[0].message.tool_calls
    return reply.choices[0].message.content, reply.choices[0].finish_reason


def responses(url: str, key: str, *, stream: bool) -> tuple[str, str]:
    with openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, timeout=60) as sdk:
        if stream:
            with sdk.responses.stream(model="any", input="Hello") as events:
                reply = events.get_final_response()
        else:
            reply = sdk.responses.create(model="any", input="Hello")
    assert [item.type for item in reply.output] == ["message"]
    return reply.output_text, reply.status


def messages(url: str, key: str, *, stream: bool) -> tuple[str, str]:
    with anthropic.Anthropic(base_url=url, api_key=key, max_retries=0, timeout=60) as sdk:
        if stream:
            with sdk.messages.stream(model="any", max_tokens=50, messages=ASKED) as events:
                reply = events.get_final_message()
        else:
            reply = sdk.messages.create(model="any", max_tokens=50, messages=ASKED)
    assert [block.type for block in reply.content] == ["text"]
    return reply.content[0].text, reply.stop_reason


def gemini(url: str, key: str, *, stream: bool) -> tuple[str, str]:
    with genai.Client(api_key=key, http_options=types.HttpOptions(base_url=url)) as client:
        if stream:
            replies = list(client.models.generate_content_stream(model="any", contents="Hello"))
        else:
            replies = [client.models.generate_content(model="any", contents="Hello")]
    parts = [part for reply in replies for part in reply.candidates[0].content.parts or ()]
    assert all(part.function_call is None for part in parts)
    return "".join(part.text or "" for part in parts), replies[-1].candidates[0].finish_reason.value


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("speak", "finish"),
    [(chat, "stop"), (responses, "completed"), (messages, "end_turn"), (gemini, "STOP")],
    ids=["chat", "responses", "messages", "gemini"],
)
def test_a_used_up_budget_ends_the_conversation_in_every_dialect(tmp_path, engine, engine_url, speak, finish, stream) -> None:
    sessions = Sessions()
    session = sessions.open(Upstream(url=engine_url, model="served"), tmp_path / "calls", budget=Budget(calls=0))
    with BackgroundServer(CaptureProxy(sessions=sessions)) as server:
        text, reason = speak(server.listen().url, session.key, stream=stream)
        (call,) = session.close()
    assert "budget" in text
    assert reason == finish
    assert engine.requests == []
    assert (call.outcome, call.delivery, call.streamed) == ("budget_stop", "delivered", stream)
    assert build([call]).turns == ()
