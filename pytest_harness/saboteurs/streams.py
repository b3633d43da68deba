"""Faults of what is delivered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_harness.evidence.model import Call, Evidence
from pytest_harness.saboteurs.registry import NothingToSabotage, chosen, saboteur
from pytest_harness.saboteurs.surgery import (
    Json,
    choices,
    edit_body,
    edit_delivered,
    edit_reply,
    edit_request,
    found,
    in_chat,
    last_turn,
    spoken,
    struck_turn,
    tool_calls,
    with_call,
    with_manifest,
)

DONE = "data: [DONE]\n\n"


@saboteur
def undeclared_mode(evidence: Evidence) -> Evidence:
    """The seam declares the other mode."""
    seam = evidence.manifest.seam
    return with_manifest(evidence, seam=seam.model_copy(update={"streams": not seam.streams}))


@saboteur
def cut_text(evidence: Evidence) -> Evidence:
    """The last piece of text was not delivered."""

    def cut(parts: list[Json]) -> None:
        spoke = [choice for choice in choices(parts) if spoken(choice).get("content")]
        if not spoke:
            raise NothingToSabotage("the last turn has no text")
        spoken(spoke[-1])["content"] = spoken(spoke[-1])["content"][:-1]

    return with_call(evidence, edit_delivered(last_turn(evidence), cut))  # of an earlier turn the history would have more


@saboteur
def changed_finish_reason(evidence: Evidence) -> Evidence:
    """A reply that was cut by its length is delivered as if it were whole."""

    def change(parts: list[Json]) -> None:
        for choice in choices(parts):
            if choice.get("finish_reason"):
                choice["finish_reason"] = "length"

    return _deliver(evidence, change)


@saboteur
def leaked_ids(evidence: Evidence) -> Evidence:
    """The ids of the capture reach the harness."""
    return _deliver(evidence, lambda parts: next(choices(parts)).update(token_ids=[1, 2, 3]))


@saboteur
def leaked_logprobs(evidence: Evidence) -> Evidence:
    """The logprobs of the capture reach the harness."""
    entry = {"token": "token_id:1", "logprob": -0.5, "bytes": None, "top_logprobs": []}
    return _deliver(evidence, lambda parts: next(choices(parts)).update(logprobs={"content": [entry]}))


@saboteur
def early_finish(evidence: Evidence) -> Evidence:
    """The finish reason comes with the first chunk."""

    def hurry(parts: list[Json]) -> None:
        last = next(choice for choice in choices(parts) if choice.get("finish_reason"))
        next(choices(parts))["finish_reason"], last["finish_reason"] = last["finish_reason"], None

    return with_call(evidence, edit_delivered(_streamed(evidence), hurry))


@saboteur
def no_end_mark(evidence: Evidence) -> Evidence:
    """The stream ends without its end mark."""
    return _body(evidence, lambda body: body.removesuffix(DONE))


@saboteur
def two_end_marks(evidence: Evidence) -> Evidence:
    """The stream ends twice."""
    return _body(evidence, lambda body: body + DONE)


@saboteur
def repeated_call_name(evidence: Evidence) -> Evidence:
    """Every fragment of a call has its name."""

    def repeat(parts: list[Json]) -> None:
        fragments = tool_calls(parts)
        for fragment in fragments:
            fragment["function"]["name"] = fragments[0]["function"]["name"]

    return with_call(evidence, edit_reply(_streamed_call(evidence), repeat))


@saboteur
def skipped_call_index(evidence: Evidence) -> Evidence:
    """The indices of calls begin with 1."""

    def shift(parts: list[Json]) -> None:
        for fragment in tool_calls(parts):
            fragment["index"] += 1

    return with_call(evidence, edit_reply(_streamed_call(evidence), shift))


@saboteur
def dropped_usage(evidence: Evidence) -> Evidence:
    """The usage that the harness is to get was not delivered."""
    return _deliver(evidence, lambda parts: [part.pop("usage") for part in _counted(parts)])


@saboteur
def altered_usage(evidence: Evidence) -> Evidence:
    """The usage was counted anew on the way."""
    return _deliver(evidence, lambda parts: [part["usage"].update(prompt_tokens=1) for part in _counted(parts)])


@saboteur
def mixed_stream(evidence: Evidence) -> Evidence:
    """An event of another reply got into the stream."""
    return with_call(evidence, edit_delivered(_streamed(evidence), lambda parts: parts[-1].update(id="chatcmpl-of-another")))


@saboteur
def unasked_usage(evidence: Evidence) -> Evidence:
    """The usage that the capture asks for reaches a harness that did not."""
    call = in_chat(last_turn(evidence))
    if not call.streamed:
        raise NothingToSabotage("the last turn was not streamed")
    edit_delivered(call, _counted)
    silent = edit_body(call.received, lambda body: body.pop("stream_options", None))
    return with_call(evidence, call.model_copy(update={"received": silent}))


@saboteur
def wrong_content_type(evidence: Evidence) -> Evidence:
    """The reply is told as plain text."""
    call = in_chat(struck_turn(evidence))
    delivered = found(call.delivered, "delivered reply")
    plain = delivered.model_copy(update={"headers": {**delivered.headers, "content-type": "text/plain"}})
    return with_call(evidence, call.model_copy(update={"delivered": plain}))


@saboteur
def withheld_logprobs(evidence: Evidence) -> Evidence:
    """The harness asked for logprobs and gets none."""
    return with_call(evidence, edit_request(last_turn(evidence), lambda body: body.update(logprobs=True, top_logprobs=0)))


def _counted(parts: list[Json]) -> list[Json]:
    """The parts with usage."""
    counted = [part for part in parts if part.get("usage")]
    if not counted:
        raise NothingToSabotage("the turn was delivered without usage")
    return counted


def _deliver(evidence: Evidence, edit: Callable[[list[Json]], Any]) -> Evidence:
    return with_call(evidence, edit_delivered(struck_turn(evidence), edit))


def _streamed(evidence: Evidence) -> Call:
    call = in_chat(struck_turn(evidence))
    if not call.streamed:
        raise NothingToSabotage("the last turn was not streamed")
    return call


def _streamed_call(evidence: Evidence) -> Call:
    """A streamed turn of which a call came in several fragments."""
    counts: list[int] = []
    fragmented = []
    for call in evidence.calls:
        if call.streamed and call.delivered is not None and call.delivery != "client_gone":
            edit_delivered(call, lambda parts: counts.append(len(tool_calls(parts))))
            if counts[-1] > 1:
                fragmented.append(call)
    if not fragmented:
        raise NothingToSabotage("no tool call was streamed in fragments")
    return chosen(fragmented, 0)


def _body(evidence: Evidence, change: Callable[[str], str]) -> Evidence:
    call = _streamed(evidence)
    delivered = found(call.delivered, "delivered reply")
    return with_call(evidence, call.model_copy(update={"delivered": delivered.model_copy(update={"body": change(delivered.body)})}))
