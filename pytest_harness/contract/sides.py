"""SID: side calls, subagents and compactions are told apart from the agent's own turns, so that nobody is credited for another's words."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_harness.contract.chat_wire import line
from pytest_harness.contract.linked import graph_of
from pytest_harness.contract.model import Fault, NotExercised, check
from pytest_harness.evidence.model import Evidence
from pytest_harness.graph import is_model_call

SESSION = ("x-claude-code-session-id", "x-session-id", "session_id", "session-id", "x-grok-session-id", "thread-id")
"""The headers by which harnesses name the conversation that a call belongs to."""


@check("SID-001")
def only_a_model_call_is_a_turn(evidence: Evidence) -> Iterator[Fault]:
    """By the route: counts of tokens, lists of models and probes sample nothing."""
    if not evidence.calls:
        raise NotExercised("no call reached the proxy")
    for call in evidence.calls:
        if not is_model_call(call) and (call.prompt_ids or call.samples):
            yield Fault(call.index, f"no ids, as {call.method} {call.path} samples nothing", "ids of a turn", f"{line(call)}, samples")


@check("SID-002")
def side_calls_and_subagents_say_what_they_are(evidence: Evidence) -> Iterator[Fault]:
    """By a header or by offering no tools; what is left is told by its place in the attempt and its words."""
    graph = graph_of(evidence)
    calls = {call.index: call for call in evidence.calls}
    others = [turn for turn in graph.turns if turn.role != "agent"]
    if not others:
        raise NotExercised("every turn is the agent's")
    for turn in others:
        if turn.sign not in ("header", "tools"):
            expected = "a header, or no tools, that tell it from a turn of the agent"
            yield Fault(turn.call, expected, turn.why, f"{line(calls[turn.call])}, received")


@check("SID-003")
def the_agents_turns_name_one_session(evidence: Evidence) -> Iterator[Fault]:
    """Where the harness names any; a compaction may begin a new one."""
    graph = graph_of(evidence)
    calls = {call.index: call for call in evidence.calls}
    named = False
    for name in SESSION:
        first: tuple[int, str] | None = None
        for turn in graph.turns:
            value = calls[turn.call].received.headers.get(name)
            if turn.role != "agent" or not value:
                continue
            named = True
            if first is None or turn.sign == "summary":
                first = turn.call, value
            elif value != first[1]:
                expected = f"the {name} of call {first[0]}, as both are taken for the agent's"
                yield Fault(turn.call, expected, "another", f"{line(calls[turn.call])}, received.headers {name}")
    if not named:
        raise NotExercised("no turn of the agent names a session")
