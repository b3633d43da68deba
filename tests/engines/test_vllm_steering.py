"""A script told to an engine that samples from weights: what is added to a request, and what becomes of it on the wire."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest

from pytest_harness.capture import CaptureProxy, Upstream
from pytest_harness.capture.admission import Refuse
from pytest_harness.engines.scripted import Script
from pytest_harness.engines.scripted.script import ScriptMismatchError
from pytest_harness.engines.vllm import Steering
from pytest_harness.graph import build
from pytest_harness.serving import BackgroundServer

SHELL = {"type": "function", "function": {"name": "bash", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}}}
USER = {"role": "user", "content": "Do it."}
SCRIPT = Script.for_seam([("I look.", ["ls", "pwd"]), ("Done.", [])], shell_tool="bash")


def asked(*messages: object, **more: object) -> dict[str, object]:
    return {"messages": [USER, *messages], "tools": [SHELL], **more}


def test_the_answer_of_the_script_is_the_only_choice() -> None:
    [said] = Steering(SCRIPT).fields(asked())["structured_outputs"]["choice"]
    calls = [json.loads(part.partition("</tool_call>")[0]) for part in said.split("<tool_call>")[1:]]
    assert said.startswith("I look.")
    assert [call["arguments"] for call in calls] == [{"command": "ls"}, {"command": "pwd"}]
    done = Steering(SCRIPT).fields(asked({"role": "assistant", "content": "I look."}))
    assert done == {"structured_outputs": {"choice": ["Done."]}}


def test_what_the_engine_will_refuse_is_not_steered() -> None:
    assert Steering(SCRIPT).fields({"messages": "none"}) == {}


def test_a_request_without_the_tool_of_the_script_has_no_answer() -> None:
    other = {"type": "function", "function": {"name": "browse", "parameters": {}}}
    with pytest.raises(ScriptMismatchError, match="bash"):
        Steering(SCRIPT).fields(asked() | {"tools": [other]})


class Echo:
    """An engine that says what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, object]] = []

    async def __call__(self, scope, receive, send) -> None:
        body = b""
        while (event := await receive())["type"] == "http.request":
            body += event["body"]
            if not event["more_body"]:
                break
        self.asked.append(json.loads(body))
        message = {"role": "assistant", "content": "I look."}
        entries = [{"token": "token_id:7", "logprob": -0.5, "bytes": None, "top_logprobs": []}]
        choice = {"index": 0, "message": message, "finish_reason": "stop", "token_ids": [7], "logprobs": {"content": entries}}
        reply = {"id": "1", "object": "chat.completion", "model": "tiny", "choices": [choice], "prompt_token_ids": [1, 2]}
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": json.dumps(reply).encode()})


@pytest.fixture
def engine() -> Iterator[tuple[Echo, str]]:
    engine = Echo()
    with BackgroundServer(engine) as server:
        yield engine, server.listen().url


def test_a_steered_call_says_so_and_is_never_trained(engine, tmp_path) -> None:
    echo, url = engine
    proxy = CaptureProxy()
    with BackgroundServer(proxy) as server:
        session = proxy.open_session(Upstream(url=url, model="tiny"), tmp_path / "journal", steer=Steering(SCRIPT).fields)
        headers = {"authorization": f"Bearer {session.key}"}
        reply = httpx.post(f"{server.listen().url}/v1/chat/completions", json=asked(), headers=headers)
        [call] = session.close()
    assert reply.status_code == 200
    assert echo.asked[0]["structured_outputs"]["choice"][0].startswith("I look.")
    assert call.constraints == ("structured_outputs",)
    [turn] = build([call]).turns
    assert turn.constrained
    assert not turn.trainable


def test_a_request_to_which_the_script_has_no_answer_is_refused_to_the_harness(engine, tmp_path) -> None:
    echo, url = engine
    proxy = CaptureProxy()
    with BackgroundServer(proxy) as server:
        upstream = Upstream(url=url, model="tiny")
        session = proxy.open_session(upstream, tmp_path / "journal", steer=lambda _: Refuse("The script calls `bash`.", "tools"))
        headers = {"authorization": f"Bearer {session.key}"}
        reply = httpx.post(f"{server.listen().url}/v1/chat/completions", json=asked(), headers=headers)
        [call] = session.close()
    assert (reply.status_code, reply.json()["error"]["message"]) == (400, "The script calls `bash`.")
    assert call.outcome == "refused"
    assert echo.asked == []
