"""Each fault spoils what it says, in the calls that it says, and nothing else."""

import asyncio
import math
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from pytest_harness.engines.scripted import Fault


@pytest.mark.parametrize(
    ("fault", "seen"),
    [
        (Fault("null_ids"), lambda reply: reply["prompt_token_ids"] is reply["choices"][0]["token_ids"] is None),
        (Fault("missing_logprobs"), lambda reply: reply["choices"][0]["logprobs"] is None),
        (
            Fault("misaligned_logprobs"),
            lambda reply: len(reply["choices"][0]["logprobs"]["content"]) == len(reply["choices"][0]["token_ids"]) - 1,
        ),
        (Fault("nan_logprob", after=2), lambda reply: math.isnan(reply["choices"][0]["logprobs"]["content"][2]["logprob"])),
        (Fault("positive_logprob"), lambda reply: reply["choices"][0]["logprobs"]["content"][0]["logprob"] > 0),
        (Fault("wrong_usage"), lambda reply: reply["usage"]["completion_tokens"] == len(reply["choices"][0]["token_ids"]) + 1),
        (Fault("empty_choices"), lambda reply: reply["choices"] == []),
        (Fault("null_call_id"), lambda reply: reply["choices"][0]["message"]["tool_calls"][0]["id"] is None),
    ],
    ids=lambda value: value.kind if isinstance(value, Fault) else "",
)
def test_a_fault_spoils_what_it_says(client, monkeypatch, fault, seen):
    assert not seen(client.chat().json())
    monkeypatch.setattr(client.engine, "faults", [fault])
    assert seen(client.chat().json())


@pytest.mark.parametrize(
    ("kind", "seen"),
    [
        ("null_ids", lambda parts, chunks: not any(part.get("token_ids") for part in parts) and chunks[0]["prompt_token_ids"] is None),
        ("missing_logprobs", lambda parts, chunks: not any(part["logprobs"] for part in parts)),
        ("misaligned_logprobs", lambda parts, chunks: parts[-1]["logprobs"] is None and parts[-2]["logprobs"] is not None),
        ("nan_logprob", lambda parts, chunks: math.isnan(parts[1]["logprobs"]["content"][0]["logprob"])),
        ("positive_logprob", lambda parts, chunks: parts[1]["logprobs"]["content"][0]["logprob"] > 0),
        ("wrong_usage", lambda parts, chunks: chunks[-1]["usage"]["completion_tokens"] == len(parts)),
        ("empty_choices", lambda parts, chunks: not parts),
        (
            "null_call_id",
            lambda parts, chunks: [c["id"] for p in parts for c in p["delta"].get("tool_calls", ()) if "id" in c] == [None],
        ),
    ],
)
def test_a_fault_spoils_a_stream_too(client, monkeypatch, kind, seen):
    def seen_in(chunks):
        return seen([part for chunk in chunks for part in chunk["choices"]], chunks)

    assert not seen_in(client.chunks(stream_options={"include_usage": True}))
    monkeypatch.setattr(client.engine, "faults", [Fault(kind)])
    assert seen_in(client.chunks(stream_options={"include_usage": True}))


def test_a_fault_spoils_its_calls_only(serve):
    client = serve(faults=[Fault("null_ids", calls={1})])
    assert [client.chat().json()["prompt_token_ids"] is None for _ in range(3)] == [False, True, False]


@pytest.mark.parametrize(("status", "kind"), [(500, "InternalServerError"), (429, "RateLimitError"), (400, "BadRequestError")])
def test_a_status_comes_with_its_headers_and_body(serve, status, kind):
    client = serve(faults=[Fault("status", calls={0}, status=status, message="Not now.", headers={"Retry-After": "0"})])
    reply = client.chat()
    assert (reply.status_code, reply.headers["retry-after"]) == (status, "0")
    assert reply.json() == {"error": {"message": "Not now.", "type": kind, "param": None, "code": status}}
    assert client.chat().status_code == 200


def test_an_html_page_is_no_json(serve):
    reply = serve(faults=[Fault("html", status=502, message="Bad Gateway")]).chat()
    assert (reply.status_code, reply.headers["content-type"]) == (502, "text/html")
    assert "<h1>Bad Gateway</h1>" in reply.text


def test_a_cut_stream_ends_after_its_chunks(serve):
    client = serve(faults=[Fault("cut", after=3)])
    lines = []
    body = {"messages": [{"role": "user", "content": "x"}], "stream": True}
    with (
        client.stream("POST", "/v1/chat/completions", json=body) as reply,
        pytest.raises(httpx.RemoteProtocolError),
    ):
        lines.extend(line for line in reply.iter_lines() if line)
    assert len(lines) == 3


def test_a_cut_reply_ends_in_the_middle(serve):
    with pytest.raises(httpx.RemoteProtocolError):
        serve(faults=[Fault("cut")]).chat()


class Gate(asyncio.Event):
    """An event that tells other threads when the engine waits for it and when it has given up."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.left = threading.Event(), threading.Event()

    async def wait(self):
        self.reached.set()
        try:
            return await super().wait()
        finally:
            self.left.set()


async def release(gate: Gate) -> None:
    gate.set()


@pytest.mark.parametrize(("stream", "after"), [(False, 0), (True, 0), (True, 4)])
def test_a_slow_reply_comes_when_it_is_let_go_and_holds_up_no_other(serve, stream, after):
    gate = Gate()
    client = serve(faults=[Fault("slow", calls={0}, after=after, event=gate)])
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(client.chat, stream=stream)
        assert gate.reached.wait(10)
        assert client.chat().status_code == 200
        assert not slow.done()
        client.server.submit(release(gate)).result(10)
        assert slow.result(10).status_code == 200


def test_a_slow_call_ends_when_its_client_goes(serve):
    gate = Gate()
    client = serve(faults=[Fault("slow", calls={0}, after=2, event=gate)])
    body = {"messages": [{"role": "user", "content": "x"}], "stream": True}
    with client.stream("POST", "/v1/chat/completions", json=body) as reply:
        assert next(reply.iter_lines()).startswith("data: ")
        assert gate.reached.wait(10)
    assert gate.left.wait(10)
    assert not gate.is_set()


def test_a_slow_fault_without_an_event_is_a_mistake():
    with pytest.raises(ValueError, match="'slow' needs an event"):
        Fault("slow")
