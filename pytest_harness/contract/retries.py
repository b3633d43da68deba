"""CAN: what was cancelled, retried or came at the same time is recorded as it was."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_harness.contract.chat_wire import line
from pytest_harness.contract.linked import graph_of
from pytest_harness.contract.model import Fault, NotExercised, check
from pytest_harness.evidence.model import Call, Evidence
from pytest_harness.graph import superseded
from pytest_harness.graph.retries import KEY_HEADERS


@check("CAN-001")
def every_call_is_in_the_record(evidence: Evidence) -> Iterator[Fault]:
    """They are numbered as they arrive, so what was lost leaves a gap."""
    if not evidence.calls:
        raise NotExercised("no call reached the proxy")
    for number, call in enumerate(evidence.calls):
        if call.index != number:
            yield Fault(call.index, f"call {number}", f"call {call.index}", f"calls.ndjson line {number + 1}, index")
            return


@check("CAN-002")
def a_delivery_has_its_moment(evidence: Evidence) -> Iterator[Fault]:
    """What was delivered was so at some time, after it was asked for; what was not has no such time."""
    if not evidence.calls:
        raise NotExercised("no call reached the proxy")
    for call in evidence.calls:
        at = call.times.delivered
        if call.delivery == "delivered" and at is None:
            yield Fault(call.index, "the time of the delivery", "none", f"{line(call)}, times.delivered")
        elif call.delivery != "delivered" and at is not None:
            yield Fault(call.index, f"no time of a delivery, as it says {call.delivery}", str(at), f"{line(call)}, times.delivered")


@check("CAN-003")
def of_a_call_and_its_retry_one_is_continued(evidence: Evidence) -> Iterator[Fault]:
    """By the marks of the harness on one side and the ids of its later prompts on the other."""
    again = superseded(evidence.calls)
    if not again:
        raise NotExercised("no call was retried")
    children = graph_of(evidence).children
    calls = {call.index: call for call in evidence.calls}
    for before, after in again.items():
        if before in children and (after in children or calls[before].delivery == "delivered"):
            expected = f"that nothing continues call {before}, as call {after} retries it"
            seen = f"call {children[before][0].call} continues it"
            yield Fault(before, expected, seen, line(calls[before]))


@check("CAN-004")
def a_key_stands_for_one_request(evidence: Evidence) -> Iterator[Fault]:
    """Whoever answers by idempotency key would answer the second with the reply to the first."""
    first: dict[str, Call] = {}
    keys = False
    for call in evidence.calls:
        for name in KEY_HEADERS:
            key = call.received.headers.get(name)
            if not key:
                continue
            keys = True
            before = first.setdefault(key, call)
            if (before.path, before.received.body) != (call.path, call.received.body):
                expected = f"another {name} than that of call {before.index}, which asked something else"
                yield Fault(call.index, expected, "the same", f"{line(call)}, received.headers {name}")
    if not keys:
        raise NotExercised("no call carries an idempotency key")
