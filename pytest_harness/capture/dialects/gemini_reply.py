"""The engine's reply as Gemini's: candidates with parts, whole or streamed.

A stream says texts and thoughts as they come. Function calls, which Gemini never cuts, come whole in its last chunk with the finish
reasons and the usage; so both forms add up to the same. A call without a name, or whose arguments are no JSON object, cannot be said in
Gemini and is not repaired: then no call of that candidate is given, and it ends as Gemini's own do, with MALFORMED_FUNCTION_CALL (or
MAX_TOKENS, if the limit cut it) and a ``finishMessage`` that shows what the model wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_harness.capture.dialects.base import Framing, MalformedReplyError
from pytest_harness.capture.dialects.gemini_errors import error_document
from pytest_harness.capture.dialects.gemini_signature import Signature
from pytest_harness.capture.dialects.neutral import Json, Spoken, ToolCallAssembler, dump, event, spoken, usage_of

_FINISH = {"stop": "STOP", "length": "MAX_TOKENS", "tool_calls": "STOP", "function_call": "STOP", "content_filter": "SAFETY"}


class GeminiReply:
    """One reply. ``thoughts`` and ``logprobs`` say whether the client gets them."""

    def __init__(self, *, framing: Framing, thoughts: bool, logprobs: bool) -> None:
        self._framing = framing
        self._thoughts = thoughts
        self._logprobs = logprobs
        self._candidates: dict[int, _Candidate] = {}
        self._head: Json = {}
        self._usage: Json | None = None
        self._first = True

    def whole(self, completion: Mapping[str, Any]) -> bytes:
        """The body of a reply that was not streamed. Raises MalformedReplyError."""
        self._read(completion)
        return dump(self._document([candidate.whole() for candidate in self._in_order()], last=True))

    def opening(self) -> bytes:
        """Nothing, or the bracket that opens the array."""
        return b"[" if self._framing == "json" else b""

    def chunk(self, chunk: Mapping[str, Any]) -> bytes:
        """What a chunk adds to texts and thoughts. Raises MalformedReplyError."""
        told = [told for candidate, said in self._read(chunk) if (told := candidate.piece(said)) is not None]
        return self._event(self._document(told)) if told else b""

    def closing(self) -> bytes:
        """The calls, finish reasons and usage. Raises MalformedReplyError if there was no choice."""
        ending = self._event(self._document([candidate.ending() for candidate in self._in_order()], last=True))
        return ending + b"]" if self._framing == "json" else ending

    def error_event(self, status: int, message: str) -> bytes:
        """An error inside a stream, which ends it."""
        ending = self._event(error_document(status, message))
        return ending + b"]" if self._framing == "json" else ending

    def _read(self, document: Mapping[str, Any]) -> list[tuple[_Candidate, Spoken]]:
        """Take a completion or a chunk in; what it says, by candidate."""
        for name, theirs in (("modelVersion", "model"), ("responseId", "id")):
            if isinstance(value := document.get(theirs), str):
                self._head.setdefault(name, value)
        self._usage = _usage(document) or self._usage
        read = []
        for place, choice in enumerate(choices if isinstance(choices := document.get("choices"), list) else ()):
            index = choice.get("index", place) if isinstance(choice, dict) else place
            said = spoken(document, index)
            if said is None:
                raise MalformedReplyError("the engine's reply has a choice without a usable index")
            candidate = self._candidates.setdefault(index, _Candidate(index, thoughts=self._thoughts))
            candidate.take(said, choice.get("logprobs") if self._logprobs else None)
            read.append((candidate, said))
        if not isinstance(choices, list):
            raise MalformedReplyError("the engine's reply has no list of choices")
        return read

    def _in_order(self) -> list[_Candidate]:
        if not self._candidates:
            raise MalformedReplyError("the engine's reply has no choices")
        return [self._candidates[index] for index in sorted(self._candidates)]

    def _document(self, candidates: list[Json], *, last: bool = False) -> Json:
        document: Json = {"candidates": candidates}
        if last and self._usage is not None:
            document["usageMetadata"] = self._usage
        return document | self._head

    def _event(self, document: Json) -> bytes:
        if self._framing == "sse":
            return event(document)
        separator = b"" if self._first else b",\r\n"
        self._first = False
        return separator + dump(document)


class _Candidate:
    """What one choice has said so far."""

    def __init__(self, index: int, *, thoughts: bool) -> None:
        self._index = index
        self._show_thoughts = thoughts
        self._reasoning: list[str] = []
        self._text: list[str] = []
        self._calls = ToolCallAssembler()
        self._finish: str | None = None
        self._logprobs: list[Any] | None = None

    def take(self, said: Spoken, logprobs: object) -> None:
        """Add what a message or a delta says."""
        self._reasoning.append(said.reasoning)
        self._text += (said.text, said.refusal)
        self._calls.feed(said.tool_calls)
        self._finish = said.finish_reason or self._finish
        content = logprobs.get("content") if isinstance(logprobs, dict) else None
        if isinstance(content, list):
            self._logprobs = (self._logprobs or []) + content

    def piece(self, said: Spoken) -> Json | None:
        """The candidate of a chunk; None if it adds neither text nor a thought that the client is to see."""
        parts = self._texts(said.reasoning, said.text + said.refusal)
        return self._with(parts) if parts else None

    def whole(self) -> Json:
        """The candidate of a reply that was not streamed."""
        texts = self._texts("".join(self._reasoning), "".join(self._text))
        ending = self.ending()
        last = ending["content"]["parts"]
        if texts and "thought" not in texts[-1] and last[0].get("text") == "":
            signature = last.pop(0)
            texts[-1] |= signature | {"text": texts[-1]["text"]}
        ending["content"]["parts"] = texts + last
        return ending

    def ending(self) -> Json:
        """The candidate of the last chunk: calls, or a text of nothing where the signature and the finish reason have none to stand on."""
        calls = self._calls.calls
        finish = _FINISH.get(self._finish or "", "OTHER")
        message = None if finish != "OTHER" else f"the engine's finish reason is {self._finish}"
        malformed = [f"{call.name}({call.arguments})" for call in calls if call.input is None]
        malformed += [f"({arguments})" for arguments in self._calls.nameless]
        parts: list[Json] = []
        reasoning = "".join(self._reasoning) or None
        if malformed:
            finish = finish if finish == "MAX_TOKENS" else "MALFORMED_FUNCTION_CALL"
            message = "Malformed function call: " + "; ".join(malformed)
        else:
            for call in calls:
                function_call = {"id": call.id, "name": call.name, "args": call.input}
                signature = Signature(None if parts else reasoning, call.id, call.name, call.arguments).write()
                parts.append({"functionCall": function_call, "thoughtSignature": signature})
        if not parts:
            parts = [{"text": ""} if reasoning is None else {"text": "", "thoughtSignature": Signature(reasoning).write()}]
        told = self._with(parts) | {"finishReason": finish}
        if message is not None:
            told["finishMessage"] = message
        return told | _logprobs(self._logprobs)

    def _texts(self, reasoning: str, text: str) -> list[Json]:
        parts: list[Json] = []
        if reasoning and self._show_thoughts:
            parts.append({"text": reasoning, "thought": True})
        if text:
            parts.append({"text": text})
        return parts

    def _with(self, parts: list[Json]) -> Json:
        return {"content": {"parts": parts, "role": "model"}, "index": self._index}


def _usage(document: Mapping[str, Any]) -> Json | None:
    """What the engine counted; what it did not count is left out, not zero."""
    usage = usage_of(document)
    if usage is None:
        return None
    answer = usage.completion
    if answer is not None and usage.reasoning is not None:
        answer -= usage.reasoning
    total = None if usage.prompt is None or usage.completion is None else usage.prompt + usage.completion
    counts = {
        "promptTokenCount": usage.prompt,
        "candidatesTokenCount": answer,
        "totalTokenCount": total,
        "cachedContentTokenCount": usage.cached,
        "thoughtsTokenCount": usage.reasoning,
    }
    return {name: count for name, count in counts.items() if count is not None}


def _logprobs(content: list[Any] | None) -> Json:
    """Logprobs in Gemini's shape, for a client that asked for them."""
    if content is None:
        return {}
    entries = [entry for entry in content if isinstance(entry, dict)]
    values = [entry.get("logprob") for entry in entries]
    result: Json = {"chosenCandidates": [_chosen(entry) for entry in entries]}
    if any(entry.get("top_logprobs") for entry in entries):
        result["topCandidates"] = [{"candidates": [_chosen(top) for top in entry.get("top_logprobs") or ()]} for entry in entries]
    told: Json = {"logprobsResult": result}
    numbers = [value for value in values if isinstance(value, int | float)]
    if numbers and len(numbers) == len(values):
        told["avgLogprobs"] = sum(numbers) / len(numbers)
    return told


def _chosen(entry: Mapping[str, Any]) -> Json:
    return {"token": entry.get("token"), "logProbability": entry.get("logprob")}
