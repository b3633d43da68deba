"""From a valid request to a whole reply: render, encode, ask the script, sample, parse, number."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass

from pytest_harness.engines.scripted.errors import RequestError, too_long
from pytest_harness.engines.scripted.parser import Delta, deltas, message
from pytest_harness.engines.scripted.request import ChatRequest
from pytest_harness.engines.scripted.sampling import Sample, likelihoods, sample
from pytest_harness.engines.scripted.script import Script, ScriptMismatchError
from pytest_harness.engines.scripted.tokenizer import CALL, END_OF_CALL, ChatTokenizer
from pytest_harness.engines.scripted.wire import Choice, Json, Reply, logprob_entry


@dataclass(frozen=True)
class Answerer:
    """Answers requests with the turns of a script."""

    script: Script
    tokenizer: ChatTokenizer
    max_model_len: int

    def answer(self, request: ChatRequest, identity: str) -> Reply:
        """Sample the answer to a request; ``identity`` makes its ids differ from those of every other one.

        Raises RequestError if the request fits neither the context nor the script.
        """
        prompt_ids = tuple(self.tokenizer.encode(self.tokenizer.render(request.messages, request.tools)))
        room = self.max_model_len - len(prompt_ids)
        if room < 0:
            raise too_long(self.max_model_len)
        if room == 0:
            raise RequestError("max_tokens must be at least 1, got 0.", param="max_tokens")
        try:
            turn = self.script.turn(request.messages, request.offered, request.tool_choice)
        except ScriptMismatchError as error:
            raise RequestError(str(error), param="tools") from None
        sampled = sample(
            self.tokenizer,
            self.tokenizer.assistant_text(turn.text, turn.calls),
            limit=room if request.max_tokens is None else min(room, request.max_tokens),
            stop=request.stop,
            include_stop=request.include_stop,
        )
        digest = _digest(f"{identity}/{prompt_ids}")
        logprobs = self._logprobs(request, prompt_ids, sampled)
        return Reply(
            id=f"chatcmpl-{digest}",
            created=int(time.time()),
            fingerprint=f"scripted-{self.tokenizer.digest[:8]}",
            request=request,
            prompt_ids=prompt_ids,
            choices=tuple(self._choice(request, sampled, logprobs, index, digest) for index in range(request.n)),
        )

    def _choice(self, request: ChatRequest, sampled: Sample, logprobs: tuple[Json, ...] | None, index: int, digest: str) -> Choice:
        parts = deltas(
            sampled.ids,
            sampled.pieces,
            call_mark=self.tokenizer.ids[CALL],
            end_mark=self.tokenizer.ids[END_OF_CALL],
            tools=request.tools is not None and request.tool_choice != "none",
        )
        if not request.parallel_tool_calls:  # as in vLLM: the calls after the first are sampled, but not told
            parts = [Delta() if part.call else part for part in parts]
        _, calls = message(parts)
        called = calls and sampled.finish_reason == "stop" and not request.named_tool
        return Choice(
            index=index,
            ids=sampled.ids,
            deltas=tuple(parts),
            logprobs=logprobs,
            finish_reason="tool_calls" if called else sampled.finish_reason,
            stop_reason=sampled.stop_reason,
            call_ids=tuple(f"chatcmpl-tool-{_digest(f'{digest}/{index}/{number}')}" for number in range(len(calls))),
        )

    def _logprobs(self, request: ChatRequest, prompt_ids: tuple[int, ...], sampled: Sample) -> tuple[Json, ...] | None:
        if not request.logprobs:
            return None
        positions = zip(sampled.ids, likelihoods(prompt_ids, sampled.ids, request.temperature, self.tokenizer.size), strict=True)
        return tuple(
            logprob_entry(self.tokenizer, token, likelihood, top=request.top_logprobs, as_ids=request.tokens_as_ids)
            for token, likelihood in positions
        )


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
