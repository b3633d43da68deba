"""How many tokens a request's prompt has: exactly by the engine's ``/tokenize`` where it has one, else by a stated estimate."""

from __future__ import annotations

from typing import Any

import msgspec

from pytest_harness.capture.dialects.chat import dump
from pytest_harness.capture.upstream import CutError, UnreachableError, Upstream, UpstreamClient

BYTES_PER_TOKEN = 4
"""The estimate: one token for so many bytes of the messages' and tools' JSON."""

_COUNTED = ("messages", "tools", "chat_template_kwargs")


class _Count(msgspec.Struct):
    count: int


async def count_tokens(client: UpstreamClient, upstream: Upstream, chat: dict[str, Any]) -> tuple[int, bool]:
    """The number of the prompt's tokens, and whether it is exact."""
    request = {name: chat[name] for name in _COUNTED if chat.get(name)}
    body = dump(request | {"model": upstream.model, "add_generation_prompt": True})
    try:
        reply = await client.post(upstream.tokenize, upstream.headers(), body)
        try:
            pieces = []
            while piece := await reply.next():
                pieces.append(piece)
        finally:
            reply.close()
        if reply.status == 200:
            return msgspec.json.decode(b"".join(pieces), type=_Count).count, True
    except (UnreachableError, CutError, msgspec.MsgspecError):
        pass  # then nobody knows better than the estimate
    size = sum(len(dump(value)) for value in request.values())
    return max(1, -(-size // BYTES_PER_TOKEN)), False
