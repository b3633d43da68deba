"""Anthropic Messages, by the anthropic SDK."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import anthropic
import httpx2

from pytest_harness.wire.exchanges import ExchangeLog, client
from pytest_harness.wire.talks.base import SHELL_DESCRIPTION, SHELL_PARAMETERS, TIMEOUT_SEC, Said, Talk, ToolCall, shell_name

TOOL: dict[str, Any] = {"name": shell_name(), "description": SHELL_DESCRIPTION, "input_schema": SHELL_PARAMETERS}
_FINISH = {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "tool_use": "tool_calls"}


class MessagesTalk(Talk):
    """One conversation."""

    limit_name = "max_tokens"

    def _connect(self, log: ExchangeLog) -> None:
        session = self.session
        http = client(httpx2, log, timeout=TIMEOUT_SEC)
        self.sdk = anthropic.Anthropic(
            base_url=session.base_urls["messages"],
            api_key=session.key,
            auth_token=None,
            max_retries=0,
            timeout=TIMEOUT_SEC,
            http_client=http,
        )

    def close(self) -> None:
        """Close the client."""
        self.sdk.close()

    def user(self, text: str) -> None:
        """Say something as the user."""
        self.history.append({"role": "user", "content": [{"type": "text", "text": text}]})

    def results(self, texts: Sequence[str]) -> None:
        """One user message with a result for each call."""
        assert self.last is not None
        blocks = [
            {"type": "tool_result", "tool_use_id": call.id, "content": text} for call, text in zip(self.last.calls, texts, strict=True)
        ]
        self.history.append({"role": "user", "content": blocks})

    def fields(self, extra: dict[str, Any]) -> dict[str, Any]:
        """The request; the dialect needs a limit."""
        more: dict[str, Any] = {} if self.system is None else {"system": self.system}
        if self.tools:
            more["tools"] = [TOOL]
        return {"model": self.model, "max_tokens": 4096, "messages": self.history, **more, **extra}

    def _ask(self, extra: dict[str, Any]) -> Said:
        return self._take(self.sdk.messages.create(**self.fields(extra)))

    def _ask_streamed(self, extra: dict[str, Any]) -> Said:
        with self.sdk.messages.stream(**self.fields(extra)) as stream:
            return self._take(stream.get_final_message())

    def deltas(self) -> Iterator[str]:
        """The pieces of text."""
        with self.sdk.messages.stream(**self.fields({})) as stream:
            yield from stream.text_stream

    def _take(self, message: Any) -> Said:
        blocks = [block.model_dump(mode="json", exclude_none=True, exclude={"parsed_output"}) for block in message.content]
        self.history.append({"role": "assistant", "content": blocks})
        calls = tuple(ToolCall(block.id, block.name, block.input) for block in message.content if block.type == "tool_use")
        text = "".join(block.text for block in message.content if block.type == "text")
        usage = message.usage
        prompt = usage.input_tokens + (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
        return Said(text, calls, _FINISH.get(message.stop_reason, str(message.stop_reason)), prompt, usage.output_tokens)
