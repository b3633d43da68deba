"""Faults of finish reasons and limits."""

from __future__ import annotations

from typing import Any

from pytest_harness.evidence.model import Evidence
from pytest_harness.saboteurs.extras import last_call, side_call, stopped_call
from pytest_harness.saboteurs.registry import saboteur
from pytest_harness.saboteurs.surgery import Json, choices, edit_delivered, edit_reply, edit_request, found, last_turn, with_call


@saboteur
def no_finish_reason(evidence: Evidence) -> Evidence:
    """The engine does not say why a reply ended."""
    return side_call(evidence, finish=None)


@saboteur
def forgotten_finish_reason(evidence: Evidence) -> Evidence:
    """The record holds no finish reason."""
    call = last_turn(evidence)
    samples = tuple(sample.model_copy(update={"finish_reason": None}) for sample in call.samples)
    return with_call(evidence, call.model_copy(update={"samples": samples}))


@saboteur
def announced_call_missing(evidence: Evidence) -> Evidence:
    """The parser lost the call that the finish reason announces."""
    return side_call(evidence, finish="tool_calls")


@saboteur
def unannounced_call(evidence: Evidence) -> Evidence:
    """A reply with a call ends in ``stop``."""
    return side_call(evidence, calls=[_made('{"path": "a.txt"}')])


@saboteur
def ignored_limit(evidence: Evidence) -> Evidence:
    """The engine knows the limit by another name."""
    return side_call(evidence, sampled=9, max_tokens=4)


@saboteur
def truncation_told_as_a_call(evidence: Evidence) -> Evidence:
    """A call that met the limit in the middle of its arguments is told as a whole one."""
    return side_call(evidence, calls=[_made('{"path": "a.t')], finish="tool_calls", sampled=9, max_tokens=9)


@saboteur
def cut_by_a_default(evidence: Evidence) -> Evidence:
    """The engine cuts by a limit of its own."""
    return side_call(evidence, finish="length")


@saboteur
def truncated_turn(evidence: Evidence) -> Evidence:
    """The limit of the harness cut a turn."""
    call = last_turn(evidence)
    count = len(found(call.samples[0].token_ids, "sampled ids"))

    def cut(parts: list[Json]) -> None:
        for choice in choices(parts):
            if choice.get("finish_reason"):
                choice["finish_reason"] = "length"

    def limit(body: Json) -> None:
        body.update(max_tokens=count, max_completion_tokens=count)

    samples = tuple(sample.model_copy(update={"finish_reason": "length"}) for sample in call.samples)
    return with_call(evidence, edit_request(edit_reply(call, cut), limit).model_copy(update={"samples": samples}))


@saboteur
def hidden_stop_string(evidence: Evidence) -> Evidence:
    """The harness is not told which stop string was met."""
    stopped = side_call(evidence, stop=["STOP"], edit=lambda reply: reply["choices"][0].update(stop_reason="STOP"))
    return last_call(stopped, lambda call: edit_delivered(call, _forget))


@saboteur
def sampled_stop(evidence: Evidence) -> Evidence:
    """A stop of the proxy's own is recorded with ids."""
    sample = last_turn(evidence).samples[0]
    return last_call(stopped_call(evidence), lambda call: call.model_copy(update={"samples": (sample,)}))


@saboteur
def deaf_to_the_end(evidence: Evidence) -> Evidence:
    """The harness asks on although its budget is used up."""
    for _ in range(5):
        evidence = stopped_call(evidence)
    return evidence


def _forget(parts: list[Json]) -> None:
    for choice in choices(parts):
        choice["stop_reason"] = None


def _made(arguments: str) -> dict[str, Any]:
    return {"id": "chatcmpl-tool-side", "type": "function", "function": {"name": "read", "arguments": arguments}}
