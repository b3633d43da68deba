"""vLLM's shapes: a reply or the chunks of a stream, made from choices.

Reference: vLLM 0.32, ``/v1/chat/completions``. What a fault changes is changed in the choices or in the dictionaries made here; nothing in
this module knows of faults.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pytest_harness.engines.scripted.parser import Delta, message
from pytest_harness.engines.scripted.request import ChatRequest
from pytest_harness.engines.scripted.sampling import Likelihood
from pytest_harness.engines.scripted.tokenizer import ChatTokenizer

Json = dict[str, Any]


@dataclass(frozen=True)
class Choice:
    """One sampled choice, ready to be told. ``ids``, ``deltas`` and (if there are any) ``logprobs`` are parallel."""

    index: int
    ids: tuple[int, ...]
    deltas: tuple[Delta, ...]
    logprobs: tuple[Json, ...] | None
    finish_reason: str
    stop_reason: str | None
    call_ids: tuple[str, ...]


@dataclass(frozen=True)
class Reply:
    """All that is told of one request."""

    id: str
    created: int
    fingerprint: str
    request: ChatRequest
    prompt_ids: tuple[int, ...]
    choices: tuple[Choice, ...]

    def usage(self, completion_tokens: int | None = None) -> Json:
        """The tokens counted; of the whole reply unless told how many were sampled so far."""
        sampled = sum(len(choice.ids) for choice in self.choices) if completion_tokens is None else completion_tokens
        return {"prompt_tokens": len(self.prompt_ids), "total_tokens": len(self.prompt_ids) + sampled, "completion_tokens": sampled}

    @property
    def told_prompt_ids(self) -> list[int] | None:
        """The prompt's ids, if they were asked for."""
        return list(self.prompt_ids) if self.request.return_token_ids else None


def logprob_entry(tokenizer: ChatTokenizer, token: int, likelihood: Likelihood, *, top: int, as_ids: bool) -> Json:
    """One item of ``logprobs.content``. With ``as_ids`` a token is told as ``token_id:N``."""

    def told(token: int) -> str:
        return f"token_id:{token}" if as_ids else tokenizer.decode([token])

    # vLLM gives the bytes of the token here but, with ids for texts, those of the string "token_id:N" in top_logprobs.
    return {
        "token": told(token),
        "logprob": likelihood.logprob,
        "bytes": list(tokenizer.token_bytes(token)),
        "top_logprobs": [
            {"token": told(other), "logprob": logprob, "bytes": list(told(other).encode() if as_ids else tokenizer.token_bytes(other))}
            for other, logprob in likelihood.top[:top]
        ],
    }


def completion(reply: Reply) -> Json:
    """The body of a reply that is not streamed."""
    return {
        "id": reply.id,
        "object": "chat.completion",
        "created": reply.created,
        "model": reply.request.model,
        "choices": [_whole_choice(reply, choice) for choice in reply.choices],
        "service_tier": None,
        "system_fingerprint": reply.fingerprint,
        "usage": {**reply.usage(), "prompt_tokens_details": None, "completion_tokens_details": None},
        "prompt_logprobs": None,
        "prompt_token_ids": reply.told_prompt_ids,
        "prompt_text": None,
        "kv_transfer_params": None,
        "ec_transfer_params": None,
        "metrics": None,
    }


def _whole_choice(reply: Reply, choice: Choice) -> Json:
    content, calls = message(choice.deltas)
    told: Json = {
        "role": "assistant",
        "content": content,
        "refusal": None,
        "annotations": None,
        "audio": None,
        "function_call": None,
        "reasoning": "".join(part.reasoning or "" for part in choice.deltas) or None,
    }
    if calls:
        told["tool_calls"] = [
            {"id": id_, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for id_, call in zip(choice.call_ids, calls, strict=True)
        ]
    return {
        "index": choice.index,
        "message": told,
        "logprobs": None if choice.logprobs is None else {"content": list(choice.logprobs)},
        "finish_reason": choice.finish_reason,
        "stop_reason": choice.stop_reason,
        "token_ids": list(choice.ids) if reply.request.return_token_ids else None,
        "routed_experts": None,
    }


def chunks(reply: Reply) -> Iterator[Json]:
    """The chunks of a stream, one token a chunk, without the closing ``[DONE]``."""
    request = reply.request
    for choice in reply.choices:
        role = {"index": choice.index, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
        yield {**_chunk(reply, [role], 0), "prompt_token_ids": reply.told_prompt_ids, "prompt_text": None}
    sampled = 0
    for position in range(max(len(choice.ids) for choice in reply.choices)):
        for choice in reply.choices:
            if position >= len(choice.ids):
                continue
            sampled += 1
            part = _part(reply, choice, position)
            # vLLM sends a chunk with an empty delta only where it carries ids or logprobs.
            if part["delta"] or part["finish_reason"] or request.return_token_ids or request.logprobs:
                yield _chunk(reply, [part], sampled)
    if request.include_usage:
        yield {**_chunk(reply, [], sampled), "usage": reply.usage(), "system_fingerprint": reply.fingerprint}


def _chunk(reply: Reply, choices: list[Json], sampled: int) -> Json:
    chunk = {"id": reply.id, "object": "chat.completion.chunk", "created": reply.created, "model": reply.request.model, "choices": choices}
    return {**chunk, "usage": reply.usage(sampled)} if reply.request.continuous_usage else chunk


def _part(reply: Reply, choice: Choice, position: int) -> Json:
    entries = None if choice.logprobs is None else choice.logprobs[position : position + 1]
    last = position == len(choice.ids) - 1
    part: Json = {
        "index": choice.index,
        "delta": _delta(choice, choice.deltas[position]),
        "logprobs": {"content": list(entries)} if entries else None,
        "finish_reason": choice.finish_reason if last else None,
        "token_ids": [choice.ids[position]] if reply.request.return_token_ids else None,
    }
    if last:
        part["stop_reason"] = choice.stop_reason
    return part


def _delta(choice: Choice, delta: Delta) -> Json:
    if delta.reasoning is not None:
        return {"reasoning": delta.reasoning}
    if delta.call is None:
        return {} if delta.content is None else {"content": delta.content}
    function = {key: value for key, value in (("name", delta.name), ("arguments", delta.arguments)) if value is not None}
    told: Json = {"index": delta.call, "function": function}
    if delta.name is not None:
        told = {"id": choice.call_ids[delta.call], "type": "function", **told}
    return {"content": None, "tool_calls": [told]}


def dump(document: Any) -> bytes:
    """Compact JSON, as vLLM's server writes it."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def event(data: bytes) -> bytes:
    """One server-sent event."""
    return b"data: " + data + b"\n\n"
