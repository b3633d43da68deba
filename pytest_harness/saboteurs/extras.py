"""Whole calls that a saboteur adds to the evidence: side calls, which no log of the harness counts, and calls that failed.

A side call offers no tools, so it is none of the agent's turns. All are in chat completions and not streamed.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_harness.evidence.model import Call, Evidence, Message, Outcome, Sample, Times
from pytest_harness.saboteurs.registry import NothingToSabotage
from pytest_harness.saboteurs.surgery import Json, choices, edit_reply, edit_request, found, spoken, with_call

JSON = {"content-type": "application/json"}
CAPTURE: Mapping[str, Any] = {"logprobs": True, "top_logprobs": 0, "return_token_ids": True}
NEUTRAL: Mapping[str, Any] = {
    "top_p": 1.0,
    "top_k": -1,
    "min_p": 0.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
}
SAID: Json = {"id": "chatcmpl-tool-side", "type": "function", "function": {"name": "read", "arguments": '{"path": "a.txt"}'}}
"""A tool call that a side call's model may make."""
QUESTION: list[Json] = [{"role": "user", "content": "Name this conversation."}]


def side_call(
    evidence: Evidence,
    *,
    text: str | None = "A short title.",
    calls: list[Json] | None = None,
    messages: list[Json] | None = None,
    prompt: int = 6,
    sampled: int = 9,
    finish: str | None = "stop",
    edit: Callable[[Json], Any] = lambda _: None,
    constraints: tuple[str, ...] = (),
    delivered_logprobs: bool = False,
    choices: int = 1,
    streamed: bool = False,
    **fields: Any,
) -> Evidence:
    """The evidence with one more answered call. ``fields`` are more of its request; ``edit`` changes the reply, before it is delivered."""
    index = len(evidence.calls)
    chance = random.Random(f"{evidence.name} {index}")  # noqa: S311 - nothing secret is made of it
    prompt_ids = [chance.randrange(4, 2000) for _ in range(prompt)]
    told: list[Json] = []
    samples: list[Sample] = []
    for number in range(choices):
        ids = tuple(chance.randrange(4, 2000) for _ in range(sampled))
        samples.append(Sample(index=number, token_ids=ids, logprobs=tuple(-chance.random() - 0.001 for _ in ids), finish_reason=finish))
        message: Json = {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}
        told.append({"index": number, "message": message, "logprobs": None, "finish_reason": finish, "stop_reason": None})
    reply: Json = {"id": f"chatcmpl-side-{index}", "object": "chat.completion", "model": evidence.manifest.model, "choices": told}
    counted = sampled * choices
    reply["usage"] = {"prompt_tokens": prompt, "completion_tokens": counted, "total_tokens": prompt + counted}
    edit(reply)
    if delivered_logprobs:
        for choice, sample in zip(told, samples, strict=True):
            choice["logprobs"] = {"content": _entries(sample)}
    captured = [
        {**choice, "token_ids": list(sample.token_ids or ()), "logprobs": {"content": _entries(sample)}}
        for choice, sample in zip(told, samples, strict=True)
    ]
    replied = {**reply, "prompt_token_ids": prompt_ids, "choices": captured}
    options = {"stream": True, "stream_options": {"include_usage": True}} if streamed else {}
    request = {"model": "side", "messages": messages or QUESTION, **options, **fields}
    said = (_stream(replied), _stream(reply)) if streamed else (_reply(replied), _reply(reply))
    call = _call(evidence, index, request, "complete", said).model_copy(
        update={"constraints": constraints, "prompt_ids": tuple(prompt_ids), "samples": tuple(samples)}
    )
    return replace(evidence, calls=(*evidence.calls, call))


def failed_call(
    evidence: Evidence,
    position: int,
    *,
    status: int = 500,
    message: str = "The engine has run out of memory on device 0.",
    outcome: Outcome = "upstream_error",
    headers: Mapping[str, str] | None = None,
    edit: Callable[[Json], Any] = lambda _: None,
) -> Evidence:
    """The evidence in which the request of one call was sent once before, edited, and failed; at the end that of the last call again."""
    agent = _agent(evidence)
    request = json.loads(next((call for call in agent if call.index >= position), agent[-1]).received.body)
    edit(request)
    body = {"error": {"message": message, "type": "Error", "param": None, "code": status}}
    reply = _reply(body, status=status, headers={**JSON, **(headers or {})})
    call = _call(evidence, position, request, outcome, (reply, reply))
    later = tuple(one.model_copy(update={"index": one.index + 1}) for one in evidence.calls[position:])
    return replace(evidence, calls=(*evidence.calls[:position], call, *later))


def stopped_call(evidence: Evidence) -> Evidence:
    """The evidence with one more call of the agent, which the proxy answered by itself, as the budget was used up."""
    last = _agent(evidence)[-1]
    words = {"role": "assistant", "content": "The budget is used up."}
    choice = {"index": 0, "message": words, "logprobs": None, "finish_reason": "stop"}
    reply = _reply({"id": f"stop-{len(evidence.calls)}", "object": "chat.completion", "model": "none", "choices": [choice]})
    call = _call(evidence, len(evidence.calls), json.loads(last.received.body), "budget_stop", (None, reply))
    return replace(evidence, calls=(*evidence.calls, call.model_copy(update={"forwarded": None})))


def plant(evidence: Evidence, *messages: Json) -> Evidence:
    """The evidence in which every request of the agent has these messages, right after the first one of the user."""

    def put(body: Json) -> None:
        place = next((number for number, message in enumerate(body["messages"], 1) if message["role"] == "user"), 0)
        body["messages"][place:place] = [dict(message) for message in messages]

    for call in _agent(evidence):
        evidence = with_call(evidence, edit_request(call, put))
    return evidence


def last_call(evidence: Evidence, change: Callable[[Call], Call]) -> Evidence:
    """The evidence with its last call changed."""
    return with_call(evidence, change(evidence.calls[-1]))


def _agent(evidence: Evidence) -> list[Call]:
    """The calls that were sent to the engine for the agent: they offer tools."""
    sent = [call for call in _in_chat(evidence).calls if call.forwarded is not None and json.loads(call.received.body).get("tools")]
    return found(sent or None, "request of the agent")


def _in_chat(evidence: Evidence) -> Evidence:
    if not evidence.calls or any(call.dialect != "chat" for call in evidence.calls):
        raise NothingToSabotage("the harness does not speak chat completions")
    return evidence


def _call(evidence: Evidence, index: int, request: Json, outcome: Outcome, replies: tuple[Message | None, Message]) -> Call:
    """``replies`` are what the engine said and what was delivered."""
    replied, delivered = replies
    base = _in_chat(evidence).calls[min(index, len(evidence.calls) - 1)]
    times = base.times
    at = times.received - 0.05 if index < len(evidence.calls) else (times.delivered or times.received) + 0.01
    forwarded = {**CAPTURE, **request, **_pinned(_agent(evidence)[-1]), "model": evidence.manifest.model}
    return Call(
        index=index,
        id=f"added-{index}",
        dialect="chat",
        method="POST",
        path="/v1/chat/completions",
        streamed=bool(request.get("stream")),
        received=Message(headers={**JSON, "authorization": "<redacted>"}, body=json.dumps(request)),
        forwarded=Message(headers=dict(JSON), body=json.dumps(forwarded)),
        replied=replied,
        delivered=delivered,
        outcome=outcome,
        error=None if outcome in ("complete", "budget_stop") else "the engine failed",
        delivery="delivered",
        times=Times(received=at, forwarded=at + 0.001, first_byte=at + 0.002, replied=at + 0.003, delivered=at + 0.004),
    )


def _pinned(call: Call) -> Json:
    """The fields by which the session makes the sampling neutral, whatever was asked."""
    sent = json.loads(found(call.forwarded, "forwarded request").body)
    asked = json.loads(call.received.body)
    return {name: sent[name] for name in (*NEUTRAL, "temperature") if name in sent and sent[name] != asked.get(name)}


def _entries(sample: Sample) -> list[Json]:
    """The entries that tell the logprobs of a sample, each with itself as the only alternative."""
    pairs = zip(sample.token_ids or (), sample.logprobs or (), strict=True)
    named = [{"token": f"token_id:{token}", "logprob": logprob} for token, logprob in pairs]
    return [{**entry, "bytes": [], "top_logprobs": [entry]} for entry in named]


def _stream(reply: Json) -> Message:
    """A whole reply as a stream: a chunk with all that each choice says, one with the finish reasons, and one with the usage."""
    head = {"id": reply["id"], "object": "chat.completion.chunk", "model": reply["model"]}
    first, last = [], []
    for choice in reply["choices"]:
        delta = dict(choice["message"])
        if calls := delta.get("tool_calls"):
            delta["tool_calls"] = [{"index": number, **call} for number, call in enumerate(calls)]
        first.append({**choice, "delta": delta, "finish_reason": None})
        del first[-1]["message"]
        last.append({"index": choice["index"], "delta": {}, "logprobs": None, "finish_reason": choice["finish_reason"]})
    ids = {"prompt_token_ids": reply["prompt_token_ids"]} if "prompt_token_ids" in reply else {}
    chunks = [{**head, **ids, "choices": first}, {**head, "choices": last}, {**head, "choices": [], "usage": reply["usage"]}]
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
    return Message(headers={"content-type": "text/event-stream"}, body=body, status=200)


def _reply(document: Json, *, status: int = 200, headers: Mapping[str, str] = JSON) -> Message:
    return Message(headers=dict(headers), body=json.dumps(document), status=status)


def thinking(evidence: Evidence, thought: str, sent_back: Sequence[str | None]) -> Evidence:
    """The evidence in which the model thought this in as many of the first turns as the harness sent something back of."""
    agent = _agent(evidence)
    answered = [call.index for call in agent if call.outcome == "complete"]
    kept = sum(message["role"] == "assistant" for message in json.loads(agent[-1].received.body)["messages"])
    if kept < len(sent_back):
        raise NothingToSabotage(f"no history has {len(sent_back)} turns")

    def think(parts: list[Json]) -> None:
        spoken(next(choices(parts)))["reasoning"] = thought

    def echo(body: Json) -> None:
        said = [message for message in body["messages"] if message["role"] == "assistant"]
        for message, text in zip(said, sent_back, strict=False):
            message.pop("reasoning_content", None)
            if text is not None:
                message["reasoning_content"] = text

    for call in agent:
        changed = edit_request(call, echo)
        evidence = with_call(evidence, edit_reply(changed, think) if call.index in answered[: len(sent_back)] else changed)
    return evidence
