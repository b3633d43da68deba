"""From a valid request to a whole reply: render, encode, ask the script, sample, parse, number."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

from pytest_harness.engines.scripted.chance import any_call, draw
from pytest_harness.engines.scripted.errors import RequestError, too_long, too_much
from pytest_harness.engines.scripted.parser import Delta, apart, deltas
from pytest_harness.engines.scripted.request import ChatRequest
from pytest_harness.engines.scripted.sampling import Likelihood, Sample, lagging, likelihoods, sample
from pytest_harness.engines.scripted.script import Script, ScriptMismatchError, Turn
from pytest_harness.engines.scripted.tokenizer import CALL, END_OF_CALL, END_OF_THOUGHT, THOUGHT, ChatTokenizer
from pytest_harness.engines.scripted.wire import Choice, Json, Reply, logprob_entry


@dataclass(frozen=True)
class Answerer:
    """Answers requests with the turns of a script, or without one as chance has it."""

    script: Script | None
    tokenizer: ChatTokenizer
    max_model_len: int
    processed: bool = True
    """Whether logprobs are those of the request's temperature, as with vLLM's ``--logprobs-mode=processed_logprobs``."""
    reasons: bool = False
    """Whether what stands between ``<think>`` and ``</think>`` is told apart, as with vLLM's ``--reasoning-parser``."""

    def answer(self, request: ChatRequest, identity: str) -> Reply:
        """Sample the answer to a request; ``identity`` makes its ids differ from those of every other one.

        Raises RequestError if the request fits neither the context nor the script.
        """
        prompt = self.tokenizer.render(request.messages, request.tools)
        if any("\ud800" <= char <= "\udfff" for char in prompt):
            raise RequestError("TextEncodeInput must be Union[TextInputSequence, Tuple[InputSequence, InputSequence]]")
        prompt_ids = tuple(self.tokenizer.encode(prompt))
        if request.max_tokens is not None and request.max_tokens > self.max_model_len:
            raise too_much(request.max_tokens, request.max_tokens_name, self.max_model_len)
        room = self.max_model_len - len(prompt_ids)
        if room < 0:
            raise too_long(self.max_model_len)
        if request.refusal is not None:
            raise request.refusal
        if room == 0:
            raise RequestError("max_tokens must be at least 1, got 0.", param="max_tokens")
        limit = room if request.max_tokens is None else min(room, request.max_tokens)
        drawn = (
            self._chances(request, prompt_ids, limit) if self.script is None else self._scripted(self.script, request, prompt_ids, limit)
        )
        digest = _digest(f"{identity}/{prompt_ids}")
        return Reply(
            id=f"chatcmpl-{digest}",
            created=int(time.time()),
            fingerprint=f"scripted-{self.tokenizer.digest[:8]}",
            request=request,
            prompt_ids=prompt_ids,
            prompt=prompt,
            choices=tuple(
                self._choice(request, sampled, self._entries(request, sampled, found), index, digest)
                for index, (sampled, found) in enumerate(drawn)
            ),
        )

    def _scripted(
        self, script: Script, request: ChatRequest, prompt_ids: tuple[int, ...], limit: int
    ) -> list[tuple[Sample, Iterable[Likelihood]]]:
        try:
            turn = script.turn(request.messages, request.offered, request.tool_choice, request.schema)
        except ScriptMismatchError as error:
            raise RequestError(str(error), param="tools") from None
        if request.must_call:  # where vLLM must make a call it leaves no room for words
            turn = Turn("", turn.calls)
        text = turn.said(self.tokenizer) if request.forced is None else request.forced
        sampled = sample(self.tokenizer, text, limit=limit, stop=request.stop, include_stop=request.include_stop)
        told = self._told(request)
        return [(sampled, likelihoods(prompt_ids, sampled.ids, told, self.tokenizer.size)) for _ in range(request.n)]

    def _chances(self, request: ChatRequest, prompt_ids: tuple[int, ...], limit: int) -> list[tuple[Sample, Iterable[Likelihood]]]:
        told, request = self._told(request), self._as_forced(request)
        return [draw(self.tokenizer, prompt_ids, request, index, limit, told=told) for index in range(request.n)]

    def _as_forced(self, request: ChatRequest) -> ChatRequest:
        """The request with the call that it asks for, where it asks for one, as what must be said."""
        if not request.must_call or request.forced is not None:
            return request
        return replace(request, forced=self.tokenizer.assistant_text("", [any_call(request)]))

    def _told(self, request: ChatRequest) -> float:
        """The temperature of the logprobs."""
        return request.temperature if self.processed else 1.0

    def _choice(self, request: ChatRequest, sampled: Sample, logprobs: tuple[Json, ...] | None, index: int, digest: str) -> Choice:
        known = self.tokenizer.ids
        tools = request.tools is not None and request.tool_choice != "none"
        whole = request.include_stop or (tools and known[CALL] in sampled.ids)
        pieces = sampled.pieces if whole else lagging(sampled.pieces, request.stop)
        thought = apart(sampled.ids, pieces, begin_mark=known[THOUGHT], end_mark=known[END_OF_THOUGHT]) if self.reasons else []
        parts = thought + deltas(
            sampled.ids[len(thought) :],
            pieces[len(thought) :],
            call_mark=known[CALL],
            end_mark=known[END_OF_CALL],
            tools=tools,
            streamed=request.stream,
        )
        if not request.parallel_tool_calls:  # as in vLLM: the calls after the first are sampled, but not told
            parts = [Delta(withheld=True) if part.call else part for part in parts]
        calls = max((part.call + 1 for part in parts if part.call is not None), default=0)
        called = calls and sampled.finish_reason == "stop" and not request.named_tool
        return Choice(
            index=index,
            ids=sampled.ids,
            deltas=tuple(parts),
            logprobs=logprobs,
            finish_reason="tool_calls" if called else sampled.finish_reason,
            stop_reason=sampled.stop_reason,
            call_ids=tuple(f"chatcmpl-tool-{_digest(f'{digest}/{index}/{number}')}" for number in range(calls)),
        )

    def _entries(self, request: ChatRequest, sampled: Sample, found: Iterable[Likelihood]) -> tuple[Json, ...] | None:
        if not request.logprobs or request.hides:
            return None
        pieces = self.tokenizer.decode_pieces(sampled.ids)
        texts = [
            self.tokenizer.decode([token]) if token in self.tokenizer.specials else piece
            for token, piece in zip(sampled.ids, pieces, strict=True)
        ]
        return tuple(
            logprob_entry(self.tokenizer, token, text, likelihood, top=request.top_logprobs, as_ids=request.tokens_as_ids)
            for token, text, likelihood in zip(sampled.ids, texts, found, strict=True)
        )


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
