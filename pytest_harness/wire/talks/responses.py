"""OpenAI Responses, by the openai SDK: nothing is stored, the whole history is sent each time, as codex does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pytest_harness.wire.exchanges import ExchangeLog
from pytest_harness.wire.talks.base import SHELL_DESCRIPTION, SHELL_PARAMETERS, Said, Talk, ToolCall, shell_name
from pytest_harness.wire.talks.chat import arguments, connect

TOOL: dict[str, Any] = {
    "type": "function",
    "name": shell_name(),
    "description": SHELL_DESCRIPTION,
    "parameters": SHELL_PARAMETERS,
    "strict": True,
}


class ResponsesTalk(Talk):
    """One conversation."""

    limit_name = "max_output_tokens"

    def _connect(self, log: ExchangeLog) -> None:
        self.sdk = connect(self.session, "responses", log)

    def close(self) -> None:
        """Close the client."""
        self.sdk.close()

    def user(self, text: str) -> None:
        """Say something as the user."""
        self.history.append({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})

    def results(self, texts: Sequence[str]) -> None:
        """An output item for each call."""
        assert self.last is not None
        for call, text in zip(self.last.calls, texts, strict=True):
            self.history.append({"type": "function_call_output", "call_id": call.id, "output": text})

    def fields(self, extra: dict[str, Any]) -> dict[str, Any]:
        """The request."""
        more: dict[str, Any] = {} if self.system is None else {"instructions": self.system}
        if self.tools:
            more["tools"] = [TOOL]
        return {"model": self.model, "input": self.history, "store": False, **more, **extra}

    def _ask(self, extra: dict[str, Any]) -> Said:
        return self._take(self.sdk.responses.create(**self.fields(extra)))

    def _ask_streamed(self, extra: dict[str, Any]) -> Said:
        if not self.strict:
            return self._take(_last_response(self.sdk.responses.create(**self.fields({"stream": True, **extra}))))
        with self.sdk.responses.stream(**self.fields(extra)) as stream:
            return self._take(_last_response(stream))

    def deltas(self) -> Iterator[str]:
        """The pieces of text."""
        for event in self.sdk.responses.create(**self.fields({"stream": True})):
            if event.type == "response.output_text.delta":
                yield event.delta

    def _take(self, response: Any) -> Said:
        if response.error is not None:
            raise RuntimeError(f"the response has an error: {response.error}")
        self.history += [
            item.model_dump(mode="json", exclude_none=True, exclude={"parsed_arguments", "parsed"}) for item in response.output
        ]
        for item in self.history:
            for part in item.get("content") or () if isinstance(item.get("content"), list) else ():
                part.pop("parsed", None)
        calls = tuple(
            ToolCall(item.call_id, item.name, arguments(item.arguments)) for item in response.output if item.type == "function_call"
        )
        reason = response.incomplete_details.reason if response.incomplete_details else None
        finish = "length" if reason == "max_output_tokens" else "tool_calls" if calls else "stop"
        usage = response.usage
        return Said(response.output_text, calls, finish, usage and usage.input_tokens, usage and usage.output_tokens)


def _last_response(events: Iterable[Any]) -> Any:
    """The response of the event that ends the stream; the helper's own way to get it knows of response.completed only."""
    last = None
    for event in events:
        if event.type in ("response.completed", "response.incomplete"):
            last = event.response
        elif event.type in ("response.failed", "error"):
            raise RuntimeError(f"the stream ended in {event.model_dump_json()}")
    if last is None:
        raise RuntimeError("the stream had neither response.completed nor response.incomplete")
    return last
