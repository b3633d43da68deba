"""Refusals in vLLM's words: the status and error body of each kind of bad request."""

from __future__ import annotations

from typing import Any


class RequestError(Exception):
    """A request that is answered with an error: ``status`` and the JSON ``body``."""

    def __init__(self, message: str, *, status: int = 400, kind: str = "BadRequestError", param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body: dict[str, Any] = {"error": {"message": message, "type": kind, "param": param, "code": status}}


def malformed(message: str, param: str | None = None) -> RequestError:
    """What vLLM says where the body does not fit its schema."""
    return RequestError(message, kind="Bad Request", param=param)


def unknown_model(asked: str, served: str) -> RequestError:
    """A model that is not served here."""
    return RequestError(f"The model `{asked}` does not exist. Valid aliases: {served}.", status=404, kind="NotFoundError", param="model")


def too_long(max_model_len: int) -> RequestError:
    """A prompt beyond the context; vLLM stops counting one token after the limit."""
    return RequestError(
        f"This model's maximum context length is {max_model_len} tokens. However, your prompt contains at least {max_model_len + 1} "
        "input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt.",
        param="input_tokens",
    )
