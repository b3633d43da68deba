"""What the tests of the graph share."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from pytest_harness.evidence import Call, Message, Sample, Times

Make = Callable[..., Call]


def _call(
    index: int,
    prompt: list[int],
    *sampled: list[int],
    messages: list[dict[str, Any]] | None = None,
    tools: list[str] | None = None,
    headers: dict[str, str] | None = None,
    at: float | None = None,
    text: str = "",
    **more: Any,
) -> Call:
    """An answered call of a second's length in chat completions; several ``sampled`` are several choices."""
    begun = float(index * 10) if at is None else at
    offered = [{"type": "function", "function": {"name": name}} for name in (["bash"] if tools is None else tools)]
    body = json.dumps({"messages": messages or [], "tools": offered})
    reply = json.dumps({"choices": [{"index": 0, "message": {"role": "assistant", "content": text}}]})
    return Call(
        index=index,
        id=f"call-{index}",
        dialect=more.pop("dialect", "chat"),
        method=more.pop("method", "POST"),
        path=more.pop("path", "/v1/chat/completions"),
        streamed=False,
        received=Message(headers=headers or {}, body=body),
        forwarded=Message(headers={}, body=body),
        replied=Message(headers={}, body=reply, status=200),
        prompt_ids=tuple(prompt),
        samples=tuple(
            Sample(index=number, token_ids=tuple(ids), logprobs=tuple(-0.5 for _ in ids), finish_reason=more.pop("finish", "stop"))
            for number, ids in enumerate(sampled)
        ),
        outcome=more.pop("outcome", "complete"),
        delivery=more.pop("delivery", "delivered"),
        times=Times(received=begun, delivered=begun + 1),
        **more,
    )


@pytest.fixture(scope="session")
def made() -> Make:
    """Makes calls."""
    return _call
