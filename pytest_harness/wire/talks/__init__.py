"""Conversations in the four dialects, each held by its vendor's own SDK.

The SDKs are witnesses: what they accept, raise and put together counts. They are imported when a conversation in their dialect begins.
"""

from __future__ import annotations

import importlib

from pytest_harness.wire.adapter import ProxySession
from pytest_harness.wire.exchanges import ExchangeLog
from pytest_harness.wire.outcome import NotExercised
from pytest_harness.wire.talks.base import Said, SdkError, Talk, ToolCall

__all__ = ["Said", "SdkError", "Talk", "ToolCall", "talk"]

_TALKS = {"chat": "ChatTalk", "responses": "ResponsesTalk", "messages": "MessagesTalk", "gemini": "GeminiTalk"}


def talk(
    dialect: str, session: ProxySession, log: ExchangeLog, *, system: str | None = None, tools: bool = False, model: str = "any-model"
) -> Talk:
    """A new conversation. Raises NotExercised if the SDK is not installed."""
    try:
        module = importlib.import_module(f"pytest_harness.wire.talks.{dialect}")
    except ImportError as error:
        raise NotExercised(f"the vendor's SDK cannot be imported ({error}); install harness-conformance[wire]") from None
    made: Talk = getattr(module, _TALKS[dialect])(session, log, system=system, tools=tools, model=model)
    return made
