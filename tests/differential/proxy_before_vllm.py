"""The capture proxy in front of a real vLLM: the ids that it records are vLLM's, and a request that a client abandons is ended there.

`make differential` runs this; the name keeps it out of a plain run of the tests. The vendors' own SDKs are the clients.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest
from google import genai
from google.genai import types

from pytest_harness.capture import CaptureProxy, Session, Upstream
from pytest_harness.contract import judge_one
from pytest_harness.engines.scripted.tokenizer import ChatTokenizer
from pytest_harness.engines.vllm import Serving
from pytest_harness.evidence import Call
from pytest_harness.requirements import load_catalogue
from pytest_harness.rollouts.engines import steered_by
from pytest_harness.serving import BackgroundServer

from .corpus import COMMAND, MAX_MODEL_LEN, calls

SCRIPT = calls("I will look.", "ls -la", 'echo "ü 🙂"')
SAID = ("I will look.", [{"command": "ls -la"}, {"command": 'echo "ü 🙂"'}])
LONG = MAX_MODEL_LEN - 200
POLLS, PAUSE = 200, 0.1


@dataclass
class Harness:
    """One session of the proxy, and where it is."""

    url: str
    session: Session


@pytest.fixture
def open_harness(vllm: Serving, tmp_path: Path) -> Iterator[Callable[..., Harness]]:
    """Opens the session, steered by the script unless told otherwise."""
    proxy = CaptureProxy()
    with BackgroundServer(proxy) as server:
        upstream = Upstream(url=vllm.url, api_key=vllm.api_key, model=vllm.model)
        url = server.listen().url

        def start(*, steered: bool = True) -> Harness:
            return Harness(url, proxy.open_session(upstream, tmp_path / "journal", steer=steered_by(SCRIPT) if steered else None))

        yield start


@pytest.fixture
def engine(vllm: Serving) -> Iterator[httpx.Client]:
    """vLLM itself."""
    headers = {"authorization": f"Bearer {vllm.api_key}"}
    with httpx.Client(base_url=vllm.url.removesuffix("/v1"), headers=headers, timeout=60, trust_env=False) as client:
        yield client


def chat(harness: Harness, *, streams: bool) -> tuple[str, list[Any]]:
    """What OpenAI's SDK understands of a reply to chat completions: the text, and the arguments of the calls."""
    tool: Any = {"type": "function", "function": {"name": "bash", "description": "Run it.", "parameters": COMMAND}}
    asked: Any = {"model": "any", "messages": [{"role": "user", "content": "Look."}], "tools": [tool], "temperature": 0}
    with openai.OpenAI(base_url=f"{harness.url}/v1", api_key=harness.session.key, max_retries=0, timeout=60) as sdk:
        if streams:
            with sdk.chat.completions.stream(**asked) as stream:
                message = stream.get_final_completion().choices[0].message
        else:
            message = sdk.chat.completions.create(**asked).choices[0].message
    return message.content or "", [json.loads(call.function.arguments) for call in message.tool_calls or ()]


def responses(harness: Harness, *, streams: bool) -> tuple[str, list[Any]]:
    """The same of a reply to Responses."""
    tool: Any = {"type": "function", "name": "bash", "description": "Run it.", "parameters": COMMAND, "strict": False}
    asked: Any = {"model": "any", "input": "Look.", "tools": [tool], "temperature": 0, "store": False}
    with openai.OpenAI(base_url=f"{harness.url}/v1", api_key=harness.session.key, max_retries=0, timeout=60) as sdk:
        if streams:
            with sdk.responses.stream(**asked) as stream:
                reply = stream.get_final_response()
        else:
            reply = sdk.responses.create(**asked)
    return reply.output_text, [json.loads(item.arguments) for item in reply.output if item.type == "function_call"]


def messages(harness: Harness, *, streams: bool) -> tuple[str, list[Any]]:
    """The same of a reply to Messages."""
    tool: Any = {"name": "bash", "description": "Run it.", "input_schema": COMMAND}
    asked: Any = {"model": "any", "max_tokens": 500, "messages": [{"role": "user", "content": "Look."}], "tools": [tool]}
    asked["extra_body"] = {"temperature": 0}
    with anthropic.Anthropic(base_url=harness.url, api_key=harness.session.key, max_retries=0, timeout=60) as sdk:
        if streams:
            with sdk.messages.stream(**asked) as stream:
                message = stream.get_final_message()
        else:
            message = sdk.messages.create(**asked)
    texts = [block.text for block in message.content if block.type == "text"]
    return "".join(texts), [block.input for block in message.content if block.type == "tool_use"]


def gemini(harness: Harness, *, streams: bool) -> tuple[str, list[Any]]:
    """The same of a reply to Gemini's API."""
    declared: Any = {"name": "bash", "description": "Run it.", "parameters_json_schema": COMMAND}
    config = types.GenerateContentConfig(temperature=0, tools=[types.Tool(function_declarations=[declared])])
    config.automatic_function_calling = types.AutomaticFunctionCallingConfig(disable=True)
    options = types.HttpOptions(base_url=harness.url, timeout=60_000)
    with genai.Client(api_key=harness.session.key, http_options=options) as sdk:
        ask = sdk.models.generate_content_stream if streams else sdk.models.generate_content
        replies: Any = ask(model="any", contents="Look.", config=config)
        parts = [part for reply in (replies if streams else [replies]) for part in reply.candidates[0].content.parts or ()]
    return "".join(part.text or "" for part in parts), [part.function_call.args for part in parts if part.function_call]


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("ask", [chat, responses, messages, gemini])
def test_the_recorded_ids_are_those_that_vllm_samples(ask, streams, open_harness, engine) -> None:
    harness = open_harness()
    said, made = ask(harness, streams=streams)
    [call] = harness.session.close()
    assert (said.strip(), made) == SAID
    assert (call.outcome, call.streamed) == ("complete", streams)
    again = engine.post("/v1/chat/completions", json=direct(call)).json()
    [sample], [choice] = call.samples, again["choices"]
    assert list(call.prompt_ids) == again["prompt_token_ids"]
    assert list(sample.token_ids) == choice["token_ids"]
    assert list(sample.logprobs) == [entry["logprob"] for entry in choice["logprobs"]["content"]]


@pytest.mark.parametrize("ask", [chat, responses, messages, gemini])
def test_a_stream_and_a_whole_reply_have_the_same_ids(ask, open_harness) -> None:
    harness = open_harness()
    for streams in (False, True):
        ask(harness, streams=streams)
    whole, streamed = harness.session.close()
    assert whole.prompt_ids == streamed.prompt_ids
    assert whole.samples[0].token_ids == streamed.samples[0].token_ids
    assert whole.samples[0].logprobs == streamed.samples[0].logprobs


def test_a_forced_turn_encoded_again_is_other_ids_and_the_suite_says_so(open_harness, healthy) -> None:
    harness, tokenizer = open_harness(), ChatTokenizer.bundled()
    tool: Any = {"type": "function", "function": {"name": "bash", "description": "Run it.", "parameters": COMMAND}}
    messages: list[Any] = [{"role": "user", "content": "Look."}]
    with openai.OpenAI(base_url=f"{harness.url}/v1", api_key=harness.session.key, max_retries=0, timeout=60) as sdk:
        for _ in range(2):
            message = sdk.chat.completions.create(model="any", messages=messages, tools=[tool], temperature=0).choices[0].message
            results = [{"role": "tool", "tool_call_id": call.id, "content": "done"} for call in message.tool_calls or ()]
            messages += [message.model_dump(exclude_none=True), *results]
    first, second = harness.session.close()
    sampled = list(first.samples[0].token_ids)
    again = tokenizer.encode(tokenizer.decode(sampled))
    assert tokenizer.decode(again) == tokenizer.decode(sampled)
    assert again != sampled
    so_far = [*first.prompt_ids, *sampled]
    assert list(second.prompt_ids[: len(so_far)]) != so_far
    judged = judge_one(replace(healthy.mini(), calls=(first, second)), load_catalogue()["GRF-001"])
    assert judged.result == "failed"
    assert "another id at position" in judged.findings[0].seen


def test_a_stream_reaches_the_harness_while_vllm_still_samples(open_harness, engine) -> None:
    harness = open_harness(steered=False)
    with long_stream(harness) as reply:
        events = reply.iter_lines()
        told = [next(events) for _ in range(6)]
        running = running_requests(engine)
        rest = [line for line in events if line.startswith("data: {")]
    assert sum('"content"' in line for line in told) >= 2
    assert running == 1
    assert len(rest) > 10
    [call] = harness.session.close()
    assert (call.outcome, len(call.samples[0].token_ids)) == ("complete", LONG)


def test_a_stream_that_the_harness_abandons_is_ended_in_vllm(open_harness, engine) -> None:
    harness, before = open_harness(steered=False), sampled(engine)
    with long_stream(harness) as reply:
        events = reply.iter_lines()
        assert [next(events) for _ in range(6)]
        assert running_requests(engine) == 1
    assert soon(lambda: running_requests(engine) == 0)
    assert sampled(engine) - before < LONG
    assert soon(lambda: harness.session.running_count == 0)
    [call] = harness.session.close()
    assert call.outcome == "cancelled"
    assert 0 < len(call.samples[0].token_ids) < LONG


def test_a_reply_that_the_harness_does_not_wait_for_is_ended_in_vllm(open_harness, engine) -> None:
    harness, before = open_harness(steered=False), sampled(engine)
    with httpx.Client(trust_env=False) as client, pytest.raises(httpx.ReadTimeout):
        client.post(**long_request(harness, stream=False), timeout=httpx.Timeout(10, read=0.5))
    assert soon(lambda: sampled(engine) > before and running_requests(engine) == 0)
    assert sampled(engine) - before < LONG
    assert soon(lambda: harness.session.running_count == 0)
    [call] = harness.session.close()
    assert call.outcome == "cancelled"


def direct(call: Call) -> dict[str, Any]:
    """The request that the proxy sent on, but not as a stream."""
    assert call.forwarded is not None
    body = json.loads(call.forwarded.body)
    return {name: value for name, value in body.items() if name not in ("stream", "stream_options")}


def long_request(harness: Harness, *, stream: bool) -> dict[str, Any]:
    """A request, as httpx takes it, for far more than vLLM samples in a moment."""
    body = {"messages": [{"role": "user", "content": "Talk."}], "max_tokens": LONG, "ignore_eos": True, "stream": stream}
    headers = {"authorization": f"Bearer {harness.session.key}"}
    return {"url": f"{harness.url}/v1/chat/completions", "json": {"model": "any", **body}, "headers": headers}


@contextmanager
def long_stream(harness: Harness) -> Iterator[httpx.Response]:
    """Such a request, streamed; it is abandoned where the context is left before its end."""
    with httpx.Client(trust_env=False, timeout=60) as client, client.stream("POST", **long_request(harness, stream=True)) as reply:
        yield reply


def metric(engine: httpx.Client, name: str) -> float:
    """A number that vLLM tells of itself."""
    lines = [line for line in engine.get("/metrics").text.splitlines() if line.startswith(f"{name}{{")]
    assert lines, f"vLLM tells no {name}"
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def running_requests(engine: httpx.Client) -> float:
    """How many requests vLLM samples for."""
    return metric(engine, "vllm:num_requests_running")


def sampled(engine: httpx.Client) -> float:
    """How many tokens vLLM has sampled since it was started."""
    return metric(engine, "vllm:generation_tokens_total")


def soon(holds: Callable[[], bool]) -> bool:
    """Whether something comes to hold; vLLM does what it does on a thread and a process of its own, so it is asked again."""
    return any(holds() or threading.Event().wait(PAUSE) for _ in range(POLLS))
