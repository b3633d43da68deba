"""The same request straight to the scripted engine and through the proxy: the same reply, less the capture-only fields."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest

from pytest_harness.engines.scripted import Script, ScriptedEngine, ShellTool, Step
from pytest_harness.serving import BackgroundServer

TOOLS = [
    {"type": "function", "function": {"name": "bash", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}}}
]
CAPTURE_ONLY = {"prompt_token_ids", "token_ids"}
LATE = {"system_fingerprint"}
"""An engine tells it in the last chunk of a stream: that of the usage, which the capture asks for and which the harness may not want."""
PER_REQUEST = {"id", "created"}


@pytest.fixture(scope="module")
def scripted_url() -> Iterator[str]:
    script = Script((Step("I look.", ("ls -la", "pwd")), Step("Done.")), shell=ShellTool("bash", "command"))
    with BackgroundServer(ScriptedEngine(script, model="served")) as server:
        yield server.listen().url


def comparable(value):
    """Without what the capture adds and what differs from request to request."""
    if isinstance(value, dict):
        return {name: comparable(part) for name, part in value.items() if name not in CAPTURE_ONLY | PER_REQUEST}
    return [comparable(part) for part in value] if isinstance(value, list) else value


def parsed(reply: httpx.Response):
    if reply.headers["content-type"].startswith("text/event-stream"):
        data = [block.removeprefix("data: ") for block in reply.text.split("\n\n") if block]
        chunks = [{} if part == "[DONE]" else comparable(json.loads(part)) for part in data]
        return [{name: value for name, value in chunk.items() if name not in LATE} for chunk in chunks]
    return comparable(reply.json())


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"stream": True},
        {"stream": True, "stream_options": {"include_usage": True}},
        {"stream": True, "logprobs": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}},
        {"logprobs": True, "top_logprobs": 2},
        {"n": 2},
        {"n": 2, "stream": True},
        {"max_tokens": 5},
        {"max_tokens": 5, "stream": True},
        {"tools": []},
        {"temperature": -1},
        {"messages": []},
        {"stream_options": {"include_usage": True}},
    ],
)
def test_the_harness_gets_what_it_would_get_from_the_engine(open_harness, scripted_url, fields) -> None:
    harness = open_harness(url=scripted_url)
    request = {"model": "served", "messages": [{"role": "user", "content": "Look around."}], "tools": TOOLS} | fields
    direct = httpx.post(f"{scripted_url}/v1/chat/completions", json=request, timeout=20)
    through = harness.http.post("/v1/chat/completions", json=request)
    assert through.status_code == direct.status_code
    assert through.headers["content-type"] == direct.headers["content-type"]
    if fields.get("logprobs") and fields.get("stream"):
        # Having asked for logprobs, both get the events that carry nothing else.
        assert "logprobs" in direct.text
    assert parsed(through) == parsed(direct)


@pytest.mark.parametrize("stream", [False, True])
def test_both_modes_capture_the_same_ids(open_harness, scripted_url, stream) -> None:
    harness = open_harness(url=scripted_url)
    for mode in (stream, not stream):
        harness.ask(stream=mode, tools=TOOLS)
    first, second = harness.session.close()
    assert first.prompt_ids == second.prompt_ids
    assert len(first.samples[0].token_ids) == len(first.samples[0].logprobs) > 0
    assert first.samples[0].token_ids == second.samples[0].token_ids
