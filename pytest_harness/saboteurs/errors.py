"""Faults of errors: how they are told, recorded and answered."""

from __future__ import annotations

import json
from collections.abc import Callable

from pytest_harness.evidence.model import Call, Evidence, Message
from pytest_harness.saboteurs.extras import failed_call, plant
from pytest_harness.saboteurs.registry import NothingToSabotage, saboteur
from pytest_harness.saboteurs.surgery import Json, found, last_turn, with_call

GONE = "The engine is restarting and will be back in a minute."
OVERFLOW = "This model's maximum context length is 4096 tokens. Please reduce the length of the input prompt."


@saboteur
def changed_error_status(evidence: Evidence) -> Evidence:
    """A refusal for good is told as one that passes."""
    return _first(_refused(evidence), lambda call: _told(call, status=503))


@saboteur
def changed_error_words(evidence: Evidence) -> Evidence:
    """The engine's words are replaced."""
    return _first(_refused(evidence), lambda call: _told(call, body=json.dumps({"error": {"message": "Upstream error."}})))


@saboteur
def dropped_retry_after(evidence: Evidence) -> Evidence:
    """The harness is not told when to try again."""
    failed = failed_call(evidence, 0, status=429, message=GONE, headers={"retry-after": "2"})
    return _first(failed, lambda call: _told(call, headers={"content-type": "application/json"}))


@saboteur
def error_told_as_a_reply(evidence: Evidence) -> Evidence:
    """What broke off is delivered as a finished turn."""
    words = {"role": "assistant", "content": "Something went wrong."}
    choice = {"index": 0, "message": words, "logprobs": None, "finish_reason": "stop"}
    body = json.dumps({"id": "chatcmpl-made-up", "object": "chat.completion", "choices": [choice]})
    failed = failed_call(evidence, 0, outcome="malformed_upstream")
    return _first(failed, lambda call: _told(call, status=200, body=body))


@saboteur
def silent_failure(evidence: Evidence) -> Evidence:
    """What broke off is delivered as an empty stream."""
    failed = failed_call(evidence, 0, outcome="cut_upstream")
    return _first(failed, lambda call: _told(call, status=200, body="data: [DONE]\n\n", headers={"content-type": "text/event-stream"}))


@saboteur
def error_recorded_as_complete(evidence: Evidence) -> Evidence:
    """A reply with an error's status is recorded as complete."""
    call = last_turn(evidence)
    return with_call(evidence, call.model_copy(update={"replied": found(call.replied, "reply").model_copy(update={"status": 500})}))


@saboteur
def cut_stream_recorded_as_complete(evidence: Evidence) -> Evidence:
    """A stream that broke off before its end mark is recorded as complete."""
    call = last_turn(evidence)
    replied = found(call.replied, "reply")
    if not call.streamed:
        raise NothingToSabotage("the last turn was not streamed")
    body = replied.body.replace("data: [DONE]\n\n", "")
    return with_call(evidence, call.model_copy(update={"replied": replied.model_copy(update={"body": body})}))


@saboteur
def error_as_a_turn(evidence: Evidence) -> Evidence:
    """The harness puts the error into its history as a turn of the assistant."""
    return plant(failed_call(evidence, 0, message=GONE), {"role": "assistant", "content": f"API error: {GONE}"})


@saboteur
def longer_after_overflow(evidence: Evidence) -> Evidence:
    """After an overflow the harness asks for more."""

    def less(body: Json) -> None:
        body["messages"][0] = {**body["messages"][0], "content": "Do it."}
        del body["messages"][2:]

    return failed_call(evidence, 0, status=400, message=OVERFLOW, edit=less)


@saboteur
def retried_permanent_error(evidence: Evidence) -> Evidence:
    """What was refused for good is tried again and again as if the error would pass."""
    for _ in range(3):
        evidence = failed_call(evidence, 0, status=400, message="The field `store` is not supported.")
    return evidence


@saboteur
def ended_by_a_passing_error(evidence: Evidence) -> Evidence:
    """The agent gives up where it should try again."""
    return failed_call(evidence, len(evidence.calls), status=503, message=GONE)


def _refused(evidence: Evidence) -> Evidence:
    """Evidence with a refusal that the harness took well: it did not ask the same again."""
    return failed_call(evidence, 0, status=404, message="The tool `browse` does not exist.", edit=lambda body: body.update(seed=1))


def _first(evidence: Evidence, change: Callable[[Call], Call]) -> Evidence:
    return with_call(evidence, change(evidence.calls[0]))


def _told(call: Call, *, status: int | None = None, body: str | None = None, headers: dict[str, str] | None = None) -> Call:
    told = found(call.delivered, "delivered reply")
    changed = Message(headers=headers or told.headers, body=body or told.body, status=status or told.status)
    return call.model_copy(update={"delivered": changed})
