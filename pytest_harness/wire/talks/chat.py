"""OpenAI chat completions, by the openai SDK."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import httpx2
import openai

from pytest_harness.wire.exchanges import ExchangeLog, client
from pytest_harness.wire.talks.base import SHELL_DESCRIPTION, SHELL_PARAMETERS, TIMEOUT_SEC, Said, Talk, ToolCall, shell_name

# The SDK's stream helper takes strict tools only.
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": shell_name(), "description": SHELL_DESCRIPTION, "parameters": SHELL_PARAMETERS, "strict": True},
}


def connect(session: Any, dialect: str, log: ExchangeLog) -> openai.OpenAI:
    """The SDK's client for this session."""
    http = client(httpx2, log, timeout=TIMEOUT_SEC)
    return openai.OpenAI(base_url=session.base_urls[dialect], api_key=session.key, max_retries=0, timeout=TIMEOUT_SEC, http_client=http)


class ChatTalk(Talk):
    """One conversation."""

    limit_name = "max_tokens"

    def _connect(self, log: ExchangeLog) -> None:
        self.sdk = connect(self.session, "chat", log)
        if self.system is not None:
            self.history.append({"role": "system", "content": self.system})

    def close(self) -> None:
        """Close the client."""
        self.sdk.close()

    def user(self, text: str) -> None:
        """Say something as the user."""
        self.history.append({"role": "user", "content": text})

    def results(self, texts: Sequence[str]) -> None:
        """A tool message for each call."""
        assert self.last is not None
        for call, text in zip(self.last.calls, texts, strict=True):
            self.history.append({"role": "tool", "tool_call_id": call.id, "content": text})

    def fields(self, extra: dict[str, Any]) -> dict[str, Any]:
        """The request."""
        return {"model": self.model, "messages": self.history, **({"tools": [TOOL]} if self.tools else {}), **extra}

    def _ask(self, extra: dict[str, Any]) -> Said:
        return self._take(self.sdk.chat.completions.create(**self.fields(extra)))

    def _ask_streamed(self, extra: dict[str, Any]) -> Said:
        with self.sdk.chat.completions.stream(**{"stream_options": {"include_usage": True}, **self.fields(extra)}) as stream:
            try:
                return self._take(stream.get_final_completion())
            except openai.LengthFinishReasonError as error:  # the helper's way to say how the reply ended
                return self._take(error.completion)

    def deltas(self) -> Iterator[str]:
        """The pieces of text."""
        for chunk in self.sdk.chat.completions.create(**self.fields({"stream": True})):
            if chunk.choices and chunk.choices[0].delta.content:
                yield chunk.choices[0].delta.content

    def _take(self, completion: Any) -> Said:
        choice = completion.choices[0]
        message = choice.message
        calls = message.tool_calls or []
        turn: dict[str, Any] = {"role": "assistant", "content": message.content}
        if calls:
            turn["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.function.name, "arguments": call.function.arguments}}
                for call in calls
            ]
        self.history.append(turn)
        usage = completion.usage
        return Said(
            text=message.content or "",
            calls=tuple(ToolCall(call.id, call.function.name, arguments(call.function.arguments)) for call in calls),
            finish=str(choice.finish_reason),
            prompt_tokens=usage and usage.prompt_tokens,
            sampled_tokens=usage and usage.completion_tokens,
        )


def arguments(text: str) -> Any:
    """The arguments of a call; as they are where they are no JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return text
