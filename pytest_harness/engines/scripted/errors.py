"""Refusals in vLLM's words: the status and error body of each kind of bad request."""

from __future__ import annotations

from typing import Any, Self


class RequestError(Exception):
    """A request that is answered with an error: ``status`` and the JSON ``body``."""

    def __init__(self, message: str, *, status: int = 400, kind: str = "BadRequestError", param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body: dict[str, Any] = {"error": {"message": message, "type": kind, "param": param, "code": status}}

    @classmethod
    def plain(cls, message: str) -> Self:
        """What the web framework below vLLM says by itself."""
        error = cls(message)
        error.body = {"detail": message}
        return error


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


def too_much(max_tokens: int, name: str, max_model_len: int) -> RequestError:
    """More tokens asked for than the context has, whatever the prompt; fewer are cut to what is left of it without a word."""
    return RequestError(
        f"{name}={max_tokens} cannot be greater than max_model_len={max_model_len}. Please request fewer output tokens. (parameter={name}, "
        f"value={max_tokens})",
        param=name,
    )
