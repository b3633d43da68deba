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
    prompt: str = ""

    def usage(self, completion_tokens: int | None = None) -> Json:
        """The tokens counted; of the whole reply unless told how many were sampled so far."""
        sampled = sum(len(choice.ids) for choice in self.choices) if completion_tokens is None else completion_tokens
        return {"prompt_tokens": len(self.prompt_ids), "total_tokens": len(self.prompt_ids) + sampled, "completion_tokens": sampled}

    @property
    def told_prompt_ids(self) -> list[int] | None:
        """The prompt's ids, if they were asked for."""
        return list(self.prompt_ids) if self.request.return_token_ids else None

    @property
    def told_prompt(self) -> str | None:
        """The prompt's text, if it was asked for."""
        return self.prompt if self.request.prompt_text else None

    @property
    def tells_ids(self) -> bool:
        """Whether the sampled ids are told."""
        return self.request.return_token_ids and not self.request.hides


def logprob_entry(tokenizer: ChatTokenizer, token: int, piece: str, likelihood: Likelihood, *, top: int, as_ids: bool) -> Json:
    """One item of ``logprobs.content``. With ``as_ids`` a token is told as ``token_id:N``; ``piece`` is the text that it completed."""

    def told(token: int, text: str) -> str:
        return f"token_id:{token}" if as_ids else text

    # vLLM gives the bytes of the text here but, with ids for texts, those of the string "token_id:N" in top_logprobs.
    others = [(told(other, piece if other == token else tokenizer.lone_text(other)), logprob) for other, logprob in likelihood.top[:top]]
    return {
        "token": told(token, piece),
        "logprob": likelihood.logprob,
        "bytes": list(piece.encode()),
        "top_logprobs": [{"token": text, "logprob": logprob, "bytes": list(text.encode())} for text, logprob in others],
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
        "prompt_text": reply.told_prompt,
        "kv_transfer_params": None,
        "ec_transfer_params": None,
        "metrics": None,
    }


def _whole_choice(reply: Reply, choice: Choice) -> Json:
    content, calls = message(choice.deltas)
    told: Json = {
        "role": "assistant",
        "content": content or "" if reply.request.must_call else content,
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
        "token_ids": list(choice.ids) if reply.tells_ids else None,
        "routed_experts": None,
    }


def chunks(reply: Reply) -> Iterator[Json]:
    """The chunks of a stream, one token a chunk, without the closing ``[DONE]``."""
    request = reply.request
    for choice in reply.choices:
        role = {"index": choice.index, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
        yield {**_chunk(reply, [role], 0), "prompt_token_ids": reply.told_prompt_ids, "prompt_text": reply.told_prompt}
    for position in range(max(len(choice.ids) for choice in reply.choices)):
        for choice in reply.choices:
            if position >= len(choice.ids):
                continue
            part = _part(reply, choice, position)
            # vLLM sends a chunk with an empty delta only where it carries ids or logprobs.
            if part["delta"] or part["finish_reason"] or reply.tells_ids or part["logprobs"]:
                chunk = _chunk(reply, [part], position + 1)
                last = part["finish_reason"] and not request.include_usage
                yield {**chunk, "system_fingerprint": reply.fingerprint} if last else chunk
    if request.include_usage:
        yield {**_chunk(reply, []), "usage": reply.usage(), "system_fingerprint": reply.fingerprint}


def _chunk(reply: Reply, choices: list[Json], sampled: int | None = None) -> Json:
    """A chunk; with the tokens ``sampled`` of its choice so far where the usage is told all along."""
    chunk = {"id": reply.id, "object": "chat.completion.chunk", "created": reply.created, "model": reply.request.model, "choices": choices}
    if sampled is None or not reply.request.continuous_usage:
        return chunk
    return {**chunk, "usage": {**reply.usage(sampled), "completion_tokens_details": None}}


def _part(reply: Reply, choice: Choice, position: int) -> Json:
    entries = None if choice.logprobs is None else choice.logprobs[position : position + 1]
    last = position == len(choice.ids) - 1
    delta = _delta(choice, choice.deltas[position])
    part: Json = {
        "index": choice.index,
        "delta": {**delta, "reasoning": None} if delta and reply.request.hides else delta,
        "logprobs": {"content": list(entries)} if entries else None,
        "finish_reason": choice.finish_reason if last else None,
        "token_ids": [choice.ids[position]] if reply.tells_ids else None,
    }
    if last:
        part["stop_reason"] = choice.stop_reason
    return part


def _delta(choice: Choice, delta: Delta) -> Json:
    if delta.reasoning is not None:
        return {"reasoning": delta.reasoning}
    if delta.withheld:
        return {"content": None}
    if delta.call is None:
        return {"content": delta.content} if delta.content else {}
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
