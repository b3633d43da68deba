"""Sampling policy: what a session sends to the engine whatever its harness says, so that logprobs mean what a trainer takes them for.

Engines fill in what a request leaves out from the model's own ``generation_config.json``, so neutral values are always sent explicitly.
Sampling that a grammar, a bias or a list of tokens constrains is not the model's own: it is marked on the call, or refused.
Pure: a request in, an answer out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

NEUTRAL: Mapping[str, int | float] = {
    "top_p": 1.0,
    "top_k": -1,
    "min_p": 0.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
}
"""The values that leave the model's distribution as it is (vLLM and SGLang agree on them)."""

DEFAULT_TEMPERATURE = 1.0


class PolicyError(Exception):
    """A sampling policy that cannot be; the message says what was wrong and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingPolicy:
    """How a session samples.

    ``temperature`` is sent with every call; None leaves it to the request, and 1.0 is sent where that names none. ``constrained`` says
    what becomes of a call whose sampling is constrained.
    """

    temperature: float | None = None
    constrained: Literal["mark", "refuse"] = "mark"

    def __post_init__(self) -> None:
        """Raises PolicyError for a temperature below 0 or above 2."""
        if self.temperature is not None and not 0 <= self.temperature <= 2:
            raise PolicyError(
                f"the temperature {self.temperature} is not between 0 and 2; choose one in between, or leave it to the requests"
            )

    def edits(self, chat: Mapping[str, Any]) -> dict[str, Any]:
        """The fields to set in a chat request; those that it has already as they should be are not among them."""
        asked = chat.get("temperature")
        temperature = self.temperature if self.temperature is not None else DEFAULT_TEMPERATURE if asked is None else asked
        wanted = {**NEUTRAL, "temperature": temperature}
        return {name: value for name, value in wanted.items() if name not in chat or not _same(chat[name], value)}


def constraints(chat: Mapping[str, Any]) -> tuple[str, ...]:
    """The fields of a chat request that make its sampling another than the model's own, sorted."""
    if _CONSTRAINING.keys().isdisjoint(chat):
        return ()
    return tuple(sorted(name for name in chat.keys() & _CONSTRAINING.keys() if _CONSTRAINING[name](chat[name])))


def _same(value: object, wanted: float) -> bool:
    return type(value) in (int, float) and value == wanted


def _given(value: object) -> bool:
    return value is not None and value is not False and value not in ([], {}, "")


_GIVEN = (
    "allowed_token_ids",
    "bad_words",
    "custom_logit_processor",
    "ebnf",
    "grammar",
    "guided_choice",
    "guided_grammar",
    "guided_json",
    "guided_json_object",
    "guided_regex",
    "ignore_eos",
    "json_schema",
    "logit_bias",
    "logits_processors",
    "regex",
    "structural_tag",
    "structured_outputs",
    "use_beam_search",
)

_CONSTRAINING: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(_GIVEN, _given),
    "min_tokens": lambda value: value not in (None, 0),
    "response_format": lambda value: _given(value) and not (isinstance(value, dict) and value.get("type") == "text"),
    "tool_choice": lambda value: value not in (None, "auto", "none"),
}
