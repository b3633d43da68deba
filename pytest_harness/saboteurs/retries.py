"""Faults of deliveries and retries: calls that are lost, deliveries that nobody saw, retries that the conversation contradicts."""

from __future__ import annotations

from dataclasses import replace

from pytest_harness.evidence.model import Call, Evidence
from pytest_harness.graph import build
from pytest_harness.saboteurs.registry import NothingToSabotage, chosen, saboteur
from pytest_harness.saboteurs.surgery import with_call


@saboteur
def lost_call(evidence: Evidence) -> Evidence:
    """A call arrived and was never written down: the numbers have a gap."""
    place = chosen(range(len(evidence.calls)), -1)
    later = tuple(call.model_copy(update={"index": call.index + 1}) for call in evidence.calls[place:])
    return replace(evidence, calls=(*evidence.calls[:place], *later))


@saboteur
def undelivered_reply_trained(evidence: Evidence) -> Evidence:
    """The record calls a reply delivered, but nothing was seen to leave."""
    delivered = [call for call in evidence.calls if call.delivery == "delivered"]
    if not delivered:
        raise NothingToSabotage("no reply was delivered")
    call = chosen(delivered, -1)
    return with_call(evidence, call.model_copy(update={"times": call.times.model_copy(update={"delivered": None})}))


@saboteur
def retry_committed_twice(evidence: Evidence) -> Evidence:
    """The harness retries a call, and says so, although it has gone on from the reply."""
    graph = build(evidence.calls)
    continued = [turn for turn in graph.turns if turn.call in graph.children and turn.role == "agent" and turn.fate == "used"]
    if not continued:
        raise NothingToSabotage("no turn is continued by a later one")
    call = evidence.calls[chosen(continued, 0).call]
    end = max(one.times.delivered or one.times.received for one in evidence.calls)
    headers = {**call.received.headers, "x-stainless-retry-count": "9"}
    again = call.model_copy(
        update={
            "index": len(evidence.calls),
            "id": f"{call.id}-again",
            "received": call.received.model_copy(update={"headers": headers}),
            "replied": None,
            "delivered": None,
            "prompt_ids": None,
            "samples": (),
            "outcome": "cancelled",
            "delivery": "client_gone",
            "times": call.times.model_copy(
                update={"received": end + 0.001, "forwarded": end + 0.002, "first_byte": None, "replied": None, "delivered": None}
            ),
        }
    )
    return replace(evidence, calls=(*evidence.calls, again))


@saboteur
def reused_key(evidence: Evidence) -> Evidence:
    """The harness gives two different requests the same idempotency key."""
    first, *rest = evidence.calls or (None,)
    others = [call for call in rest if call is not None and first is not None and call.received.body != first.received.body]
    if first is None or not others:
        raise NothingToSabotage("the harness has not asked two different things")
    for call in (first, chosen(others, -1)):
        evidence = with_call(evidence, _with_key(call))
    return evidence


def _with_key(call: Call) -> Call:
    headers = {**call.received.headers, "idempotency-key": "the-same"}
    return call.model_copy(update={"received": call.received.model_copy(update={"headers": headers})})
