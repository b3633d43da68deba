"""Gemini generateContent, by the google-genai SDK."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import httpx2
from google import genai
from google.genai import types

from pytest_harness.wire.exchanges import ExchangeLog, client
from pytest_harness.wire.talks.base import SHELL_DESCRIPTION, SHELL_PARAMETERS, TIMEOUT_SEC, Said, Talk, ToolCall, shell_name

_SCHEMA = {name: value for name, value in SHELL_PARAMETERS.items() if name != "additionalProperties"}
TOOL = types.Tool(
    function_declarations=[
        types.FunctionDeclaration(name=shell_name(), description=SHELL_DESCRIPTION, parameters_json_schema=_SCHEMA),
    ]
)
_FINISH = {"STOP": "stop", "MAX_TOKENS": "length"}


class GeminiTalk(Talk):
    """One conversation."""

    limit_name = "max_output_tokens"

    def _connect(self, log: ExchangeLog) -> None:
        self._http = client(httpx2, log, timeout=TIMEOUT_SEC)
        options = types.HttpOptions(base_url=self.session.base_urls["gemini"], httpx_client=self._http, timeout=int(TIMEOUT_SEC * 1000))
        self.sdk = genai.Client(api_key=self.session.key, vertexai=False, http_options=options)

    def close(self) -> None:
        """Close the client."""
        self.sdk.close()
        self._http.close()

    def user(self, text: str) -> None:
        """Say something as the user."""
        self.history.append(types.Content(role="user", parts=[types.Part(text=text)]))

    def results(self, texts: Sequence[str]) -> None:
        """One user content with a response for each call."""
        assert self.last is not None
        parts = [
            types.Part(function_response=types.FunctionResponse(id=call.id, name=call.name, response={"output": text}))
            for call, text in zip(self.last.calls, texts, strict=True)
        ]
        self.history.append(types.Content(role="user", parts=parts))

    def fields(self, extra: dict[str, Any]) -> dict[str, Any]:
        """The request; ``extra`` are fields of its configuration."""
        config = types.GenerateContentConfig(
            system_instruction=self.system,
            tools=[TOOL] if self.tools else None,
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
            **extra,
        )
        return {"model": self.model, "contents": self.history, "config": config}

    def _ask(self, extra: dict[str, Any]) -> Said:
        return self._take([self.sdk.models.generate_content(**self.fields(extra))])

    def _ask_streamed(self, extra: dict[str, Any]) -> Said:
        return self._take(list(self.sdk.models.generate_content_stream(**self.fields(extra))))

    def deltas(self) -> Iterator[str]:
        """The pieces of text."""
        for reply in self.sdk.models.generate_content_stream(**self.fields({})):
            if reply.text:
                yield reply.text

    def _take(self, replies: Sequence[Any]) -> Said:
        candidates = [reply.candidates[0] for reply in replies if reply.candidates]
        parts = [part for candidate in candidates if candidate.content for part in candidate.content.parts or ()]
        merged: list[Any] = []
        for part in parts:
            if part.text is not None and merged and merged[-1].text is not None and bool(merged[-1].thought) == bool(part.thought):
                merged[-1] = merged[-1].model_copy(update={"text": merged[-1].text + part.text})
            elif part.text != "" or part.function_call or part.thought_signature:
                merged.append(part)
        self.history.append(types.Content(role="model", parts=merged))
        calls = tuple(
            ToolCall(part.function_call.id, part.function_call.name, part.function_call.args) for part in merged if part.function_call
        )
        reasons = [candidate.finish_reason.name for candidate in candidates if candidate.finish_reason]
        if not reasons:
            raise RuntimeError("no candidate has a finish reason")
        finish = _FINISH.get(reasons[-1], reasons[-1])
        usage = next((reply.usage_metadata for reply in reversed(replies) if reply.usage_metadata), None)
        return Said(
            text="".join(part.text for part in merged if part.text and not part.thought),
            calls=calls,
            finish="tool_calls" if calls and finish == "stop" else finish,
            prompt_tokens=usage and usage.prompt_token_count,
            sampled_tokens=usage and usage.candidates_token_count,
        )
