"""Makes a real engine follow a script: each request is constrained to the one answer that the script has for it.

The ids and logprobs are the engine's own, but what they say is not its choice, so a call that was steered is never training data: the
added field is recorded among the call's constraints. Nor are its ids those into which a tokenizer would cut the text. It is told no
reasoning: without a parser for it, which would leave it unconstrained, vLLM takes that for text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_harness.engines.scripted.errors import RequestError
from pytest_harness.engines.scripted.request import read_chat
from pytest_harness.engines.scripted.script import Script
from pytest_harness.engines.scripted.tokenizer import ChatTokenizer

FIELD = "structured_outputs"
_MODEL = "any"


@dataclass(frozen=True)
class Steering:
    """A script for an engine with weights."""

    script: Script
    tokenizer: ChatTokenizer = field(default_factory=ChatTokenizer.bundled)

    def fields(self, chat: Mapping[str, Any]) -> dict[str, Any]:
        """What is to be added to a request, as chat completions say it; nothing to one that the engine will refuse by itself.

        Raises ScriptMismatchError for a request to which the script has no answer.
        """
        try:
            request = read_chat({**chat, "model": _MODEL}, model=_MODEL, tokens_as_ids=True)
        except RequestError:
            return {}
        turn = self.script.turn(request.messages, request.offered, request.tool_choice, request.schema)
        return {FIELD: {"choice": [replace(turn, reasoning="").said(self.tokenizer)]}}
