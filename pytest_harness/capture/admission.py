"""What a session says to a call before it is forwarded: go on, with these edits; stop, the budget is used up; or no."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

STOP_TEXT = "The budget of this session is used up. This is the end of the conversation; nothing more is to be done."
REFUSED_AFTER = 64
"""How many stop replies a session gives before it refuses: a harness that cannot be ended by words is ended by an error."""


class Forward(msgspec.Struct, frozen=True):
    """The call goes on. ``edits`` are fields to set in the chat request; ``constraints`` are to be recorded on the call."""

    edits: Mapping[str, Any] = {}
    constraints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stop:
    """The call is not forwarded: the harness gets a finished assistant text, and the call's outcome is ``budget_stop``."""

    text: str = STOP_TEXT

    def completion(self, *, call_id: str, model: str, created: float) -> dict[str, Any]:
        """The reply as a chat completion."""
        message = {"role": "assistant", "content": self.text}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
        return {**_head(call_id, model, created), "object": "chat.completion", "choices": [choice], "usage": dict(_NO_USAGE)}

    def chunks(self, *, call_id: str, model: str, created: float) -> tuple[dict[str, Any], ...]:
        """The reply as the chunks of a stream, the last of them with the usage alone."""
        head = {**_head(call_id, model, created), "object": "chat.completion.chunk"}
        return (
            {**head, "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}]},
            {**head, "choices": [{"index": 0, "delta": {"content": self.text}, "logprobs": None, "finish_reason": None}]},
            {**head, "choices": [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"}]},
            {**head, "choices": [], "usage": dict(_NO_USAGE)},
        )


@dataclass(frozen=True, slots=True)
class Refuse:
    """The call is not forwarded: the harness gets an error in its dialect, and the call's outcome is ``refused``."""

    message: str
    param: str | None = None
    status: int = 400


type Admission = Forward | Stop | Refuse

type Steer = Callable[[Mapping[str, Any]], Mapping[str, Any] | Refuse]
"""Fields to add to a chat request, or why there are none: how a script is told to an engine that samples from weights."""

_NO_USAGE = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


def _head(call_id: str, model: str, created: float) -> dict[str, Any]:
    return {"id": f"chatcmpl-{call_id}", "created": int(created), "model": model}
