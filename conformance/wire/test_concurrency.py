"""CAN: a harness that goes away, tries again, says the same twice, or is one of many."""

import concurrent.futures

import pytest

from pytest_harness.engines.scripted import Fault
from pytest_harness.session.wire_marks import both_modes, requirement
from pytest_harness.wire.outcome import eventually, expect, same

MANY = 100
LONG = ("One two three four five six seven eight nine ten eleven twelve.", ())


def path_of(case, session):
    return "/" + case.url("chat", session).split("/", 3)[3]


@requirement("CAN-101")
@both_modes
def test_a_harness_that_goes_away_ends_the_engines_work(case, streamed):
    gate = case.gate()
    stage, session = case.stage(LONG, faults=[Fault("slow", after=4 if streamed else 0, event=gate)]), case.session()
    wire = case.wire(session)
    wire.post(path_of(case, session), case.body(stage, stream=streamed), session.key)
    expect(gate.reached.wait(10), "a request that reaches the engine", "none")
    wire.close()
    expect(stage.hung_up.wait(2), "the proxy to hang up on the engine when the harness has", "the engine still works 2 s later")


@requirement("CAN-102")
@both_modes
def test_a_reply_that_never_arrived_is_not_offered_as_delivered(case, streamed):
    gate = case.gate()
    stage, session = case.stage(LONG, faults=[Fault("slow", calls=[0], after=4 if streamed else 0, event=gate)]), case.session()
    wire = case.wire(session)
    wire.post(path_of(case, session), case.body(stage, stream=streamed), session.key)
    expect(gate.reached.wait(10), "a request that reaches the engine", "none")
    wire.close()
    stage.hung_up.wait(1)
    gate.open()
    case.talk("chat", stage, session, text="Another question").ask()  # by then the first call is over
    calls = eventually(lambda: case.complete(session), lambda found: len(found) != 1, 0.3)
    told = [call for call in calls if call.delivered is not False]
    expect(
        len(told) == 1, "the delivered call, the other one left out or marked as not delivered", f"{len(told)} calls that look delivered"
    )


@requirement("CAN-103")
def test_a_hundred_slow_calls_are_all_with_the_engine_at_once(case):
    gate = case.gate()
    stage, session = case.stage(faults=[Fault("slow", event=gate)]), case.session()
    path = path_of(case, session)
    wires = [case.wire(session) for _ in range(MANY)]
    for number, wire in enumerate(wires):
        body = case.body(stage)
        body["messages"].append({"role": "user", "content": f"Number {number}."})
        wire.post(path, body, session.key)
    same(stage.await_requests(MANY), MANY, "calls at the engine while none is answered")
    gate.open()
    same([wire.reply().status for wire in wires], [200] * MANY, "the statuses of the replies")
    same(len(case.calls(session, MANY)), MANY, "captured calls")


@requirement("CAN-104")
@pytest.mark.parametrize("count", ["absent", "0"])
def test_a_genuine_repeat_counts_twice(case, count):
    stage, session = case.stage(), case.session()
    headers = {} if count == "absent" else {"x-stainless-retry-count": count}
    for _ in range(2):
        reply = case.http.post(case.url("chat", session), case.body(stage), key=session.key, headers=headers)
        same(reply.status, 200, "the status")
    calls = case.calls(session, 2)
    expect(all(call.delivered is not False for call in calls), "two delivered calls", calls)


@requirement("CAN-105")
def test_a_retry_counts_once(case):
    gate = case.gate()
    stage, session = case.stage(faults=[Fault("slow", calls=[0], event=gate)]), case.session()
    body = case.body(stage)
    wire = case.wire(session)
    wire.post(path_of(case, session), body, session.key)
    expect(gate.reached.wait(10), "a request that reaches the engine", "none")
    wire.close()  # as an SDK does whose time-out is up, before it tries again
    stage.hung_up.wait(1)
    gate.open()
    reply = case.http.post(case.url("chat", session), body, key=session.key, headers={"x-stainless-retry-count": "1"})
    same(reply.status, 200, "the status of the retry")
    counted = eventually(
        lambda: [call for call in case.complete(session) if call.delivered is not False], lambda calls: len(calls) > 1, 0.3
    )
    same(len(counted), 1, "calls that count")


@requirement("CAN-106")
def test_calls_of_one_session_at_the_same_time_are_all_captured(case):
    case.needs("chat")
    gate = case.gate()
    stage, session = case.stage(faults=[Fault("slow", event=gate)]), case.session()

    def ask(number):
        body = case.body(stage)
        body["messages"][0]["content"] += f" Number {number}."
        return case.http.post(case.url("chat", session), body, key=session.key)

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        asked = [pool.submit(ask, number) for number in range(16)]
        stage.await_requests(16)
        gate.open()
        same([each.result(timeout=30).status for each in asked], [200] * 16, "the statuses")
    captured = {call.prompt_ids for call in case.calls(session, 16)}
    same(captured, {served.prompt_ids for served in stage.answered}, "the prompts that were captured")
