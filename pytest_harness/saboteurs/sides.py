"""Faults of side calls, subagents and compactions: what is not the agent's looks as if it were."""

from __future__ import annotations

import json

from pytest_harness.evidence.model import Call, Evidence
from pytest_harness.graph import build
from pytest_harness.saboteurs.extras import side_call
from pytest_harness.saboteurs.registry import NothingToSabotage, chosen, saboteur
from pytest_harness.saboteurs.surgery import Json, with_call

READ = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object", "properties": {}}}}]
SESSION = "x-session-id"


@saboteur
def probe_taken_for_a_turn(evidence: Evidence) -> Evidence:
    """The answer to a list of models is recorded with the ids of a turn."""
    probed = side_call(evidence)
    return with_call(probed, probed.calls[-1].model_copy(update={"method": "GET", "path": "/v1/models"}))


@saboteur
def unlabelled_subagent(evidence: Evidence) -> Evidence:
    """A subagent with tools of its own, which no header tells from the agent."""
    errand: list[Json] = [{"role": "system", "content": "You read one file."}, {"role": "user", "content": "Read the file."}]
    return side_call(evidence, messages=errand, tools=READ)


@saboteur
def title_call_trained(evidence: Evidence) -> Evidence:
    """A title call that offers the agent's tools, so that it looks like a turn."""
    offered = [tools for call in evidence.calls if (tools := json.loads(call.received.body or "{}").get("tools"))]
    if not offered:
        raise NothingToSabotage("no call offers tools")
    return side_call(evidence, tools=offered[0])


@saboteur
def unlabelled_summary(evidence: Evidence) -> Evidence:
    """The call that writes the summary of a compaction looks like any turn."""
    writers = [turn for turn in build(evidence.calls).turns if turn.sign == "header" and turn.role == "side" and turn.parent is not None]
    if not writers:
        raise NothingToSabotage("no side call of the agent's conversation is told by a header")
    call = evidence.calls[chosen(writers, -1).call]
    return with_call(evidence, _with_headers(call, {"x-openai-subagent": "", "x-grok-req-id": ""}))


@saboteur
def credited_subagent(evidence: Evidence) -> Evidence:
    """A turn that is taken for the agent's names the session of another."""
    agent = [turn for turn in build(evidence.calls).turns if turn.role == "agent" and turn.sign != "summary"]
    if len(agent) < 2:
        raise NothingToSabotage("the agent has no second turn")
    other = chosen(agent[1:], -1)
    for turn in agent:
        headers = {SESSION: "another" if turn is other else "its own"}
        evidence = with_call(evidence, _with_headers(evidence.calls[turn.call], headers))
    return evidence


def _with_headers(call: Call, headers: dict[str, str]) -> Call:
    """The call with these headers; one with an empty value is removed."""
    kept = {name: value for name, value in {**call.received.headers, **headers}.items() if value or name not in headers}
    return call.model_copy(update={"received": call.received.model_copy(update={"headers": kept})})
