"""The plain fields of a request, read as vLLM's schema reads them: ``"0.5"`` is a number, ``"yes"`` and ``1`` are flags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_harness.engines.scripted.errors import malformed

_TRUE = ("1", "on", "t", "true", "y", "yes")
_FALSE = ("0", "off", "f", "false", "n", "no")
_INT64 = 2**63
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


def whole(value: Any, where: str) -> int:
    """A whole number."""
    try:
        number = float(value) if isinstance(value, str) and "." in value else value
        if isinstance(number, float) and number.is_integer():
            number = int(number)
        if isinstance(number, int | str):
            return int(number)
    except ValueError:
        pass
    raise malformed("Input should be a valid integer", where)


def number(value: Any, where: str) -> float:
    """A number; JSON's extension NaN is one too."""
    if isinstance(value, int | float | str):
        try:
            return float(value)
        except (ValueError, OverflowError):
            pass
    raise malformed("Input should be a valid number", where)


def flag(value: Any, where: str) -> bool:
    """True or false, by one of many names."""
    if isinstance(value, bool | int | float) and value in (0, 1):
        return bool(value)
    if isinstance(value, str) and value.lower() in (*_TRUE, *_FALSE):
        return value.lower() in _TRUE
    raise malformed("Input should be a valid boolean", where)


def string(value: Any, where: str) -> str:
    """A text."""
    if isinstance(value, str):
        return value
    raise malformed("Input should be a valid string", where)


def _seed(value: Any, where: str) -> int:
    seed = whole(value, where)
    if not -_INT64 <= seed < _INT64:
        raise malformed(f"Input should be between -2**63 and 2**63 - 1, got {seed}", where)
    return seed


def _stop(value: Any, where: str) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list):
        raise malformed("Input should be a valid string or a list of strings", where)
    for each in value:
        string(each, where)
    return tuple(value)


def _stream_options(value: Any, where: str) -> Mapping[str, bool | None]:
    if not isinstance(value, dict):
        raise malformed("Input should be a valid dictionary", where)
    known = ("include_usage", "continuous_usage_stats")
    return {key: flag(value[key], f"{where}.{key}") for key in known if value.get(key) is not None}


def _effort(value: Any, where: str) -> str:
    if value not in EFFORTS:
        raise malformed(f"Input should be one of {', '.join(EFFORTS)}", where)
    return str(value)


def _response_format(value: Any, where: str) -> Any:
    if not isinstance(value, dict) or value.get("type") not in ("text", "json_object", "json_schema", "structural_tag"):
        raise malformed("Input should be 'text', 'json_object' or 'json_schema'", f"{where}.type" if isinstance(value, dict) else where)
    return value


BEFORE_TOOLS = {
    "model": string,
    "frequency_penalty": number,
    "logprobs": flag,
    "top_logprobs": whole,
    "max_tokens": whole,
    "max_completion_tokens": whole,
    "n": whole,
    "presence_penalty": number,
    "response_format": _response_format,
    "seed": _seed,
    "stop": _stop,
    "stream": flag,
    "stream_options": _stream_options,
    "temperature": number,
    "top_p": number,
}
"""How each field is read, in the order in which vLLM's schema has them: the first that is wrong is told."""
AFTER_TOOLS = {
    "reasoning_effort": _effort,
    "include_reasoning": flag,
    "parallel_tool_calls": flag,
    "user": string,
    "top_k": whole,
    "min_p": number,
    "repetition_penalty": number,
    "include_stop_str_in_output": flag,
    "return_tokens_as_token_ids": flag,
    "return_token_ids": flag,
    "return_prompt_text": flag,
}
NEVER_NULL = ("include_reasoning", "include_stop_str_in_output")


def read(body: Mapping[str, Any], readers: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that a request has, read. Raises RequestError."""
    given = {}
    for name, reader in readers.items():
        if body.get(name) is not None:
            given[name] = reader(body[name], f"body.{name}")
        elif name in NEVER_NULL and name in body:
            raise malformed("Input should be a valid boolean", f"body.{name}")
    return given
