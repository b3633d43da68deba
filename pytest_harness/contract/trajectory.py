"""ATF: the harness's own log, as Harbor's ATIF document, against the wire. It is the one witness that is not us.

Harbor's validator checks the shape alone, so pairing, counts and sums are checked here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from pytest_harness.contract.chat_wire import ToolCall, Turn, conversation, identical, parse_json, short
from pytest_harness.contract.model import Fault, NotExercised, Unverifiable, check
from pytest_harness.contract.tokens import completion_length, prompt_length
from pytest_harness.evidence.model import Evidence

PATH = "trial/agent/trajectory.json"
VERSIONS = frozenset(f"ATIF-v1.{minor}" for minor in range(9))
SOURCES = frozenset({"system", "user", "agent"})


@check("ATF-001")
def a_well_formed_trajectory_is_there(evidence: Evidence) -> Iterator[Fault]:
    """Shape and numbering."""
    document = evidence.trajectory
    if document is None:
        yield Fault(None, "an ATIF document", "a file that is no JSON object" if PATH in evidence.files else "no such file", PATH)
        return
    version, agent, steps = document.get("schema_version"), document.get("agent"), document.get("steps")
    if version not in VERSIONS:
        yield Fault(None, "a version from ATIF-v1.0 to ATIF-v1.8", repr(version), f"{PATH} schema_version")
    named = isinstance(agent, dict) and all(isinstance(agent.get(key), str) and agent[key] for key in ("name", "version"))
    if not named:
        yield Fault(None, "an agent with a name and a version", short(repr(agent)), f"{PATH} agent")
    if not isinstance(steps, list) or not steps:
        yield Fault(None, "a list of steps that is not empty", short(repr(steps)), f"{PATH} steps")
        return
    for number, step in enumerate(steps, start=1):
        if not isinstance(step, dict) or step.get("source") not in SOURCES or type(step.get("step_id")) is not int:
            yield Fault(None, "a step with a number and a source", short(repr(step)), f"{PATH} steps[{number - 1}]")
        elif step["step_id"] != number:
            yield Fault(None, f"step_id {number}", str(step["step_id"]), f"{PATH} steps[{number - 1}]")


@check("ATF-002")
def logged_calls_are_the_calls_on_the_wire(evidence: Evidence) -> Iterator[Fault]:
    """Steps that do not count stand for one call each, unless none counts. The proxy's own stop replies may be logged as calls or not."""
    turns, steps = _both(evidence)
    stops = sum(call.outcome == "budget_stop" and call.delivery != "client_gone" for call in evidence.calls)
    counts = [step.get("llm_call_count") for _, step in steps]
    if all(count is None for count in counts):
        raise Unverifiable("no step of the trajectory says how many model calls it is")
    logged = sum(1 if count is None else count for count in counts if count is None or type(count) is int)
    if not len(turns) <= logged <= len(turns) + stops:
        more = f", and up to {stops} stop replies" if stops else ""
        yield Fault(None, f"{len(turns)} model calls, as on the wire{more}", str(logged), f"{PATH} steps[].llm_call_count")


@check("ATF-003")
def calls_and_results_are_paired(evidence: Evidence) -> Iterator[Fault]:
    """The calls of the last step may have had no time to be answered."""
    steps = _steps(evidence)
    with_calls = [(number, step) for number, step in steps if _calls(step)]
    if not with_calls:
        raise NotExercised("no step of the trajectory has a tool call")
    last = steps[-1][0]
    for number, step in with_calls:
        answered = Counter(result.get("source_call_id") for result in _results(step))
        where = f"{PATH} steps[{number}].observation"
        if answered[None]:
            yield Fault(None, "results that name their call by source_call_id", f"{answered.pop(None)} that name none", where)
            continue
        for call in _calls(step):
            times = answered.pop(call.get("tool_call_id"), 0)
            if times != 1 and not (number == last and times == 0):
                yield Fault(None, f"one result for {call.get('tool_call_id')}", str(times), where)
        for stray in answered:
            yield Fault(None, "results of this step's calls alone", f"a result for {stray}", where)


@check("ATF-004")
def logged_tool_calls_are_the_models(evidence: Evidence) -> Iterator[Fault]:
    """In order, over all steps: how steps cut the conversation is free."""
    turns, steps = _both(evidence)
    delivered = [call for turn in turns for call in turn.harness.calls]
    logged = [(number, call) for number, step in steps for call in _calls(step)]
    if not delivered and not logged:
        raise NotExercised("no tool call was delivered or logged")
    if len(delivered) != len(logged):
        yield Fault(None, f"{len(delivered)} tool calls, as delivered", str(len(logged)), f"{PATH} steps[].tool_calls")
        return
    for made, (number, call) in zip(delivered, logged, strict=True):
        if not _same_call(made, call):
            expected = f"{made.id} {made.name}({made.arguments})"
            seen = f"{call.get('tool_call_id')} {call.get('function_name')}({call.get('arguments')})"
            yield Fault(None, short(expected, 300), short(seen, 300), f"{PATH} steps[{number}].tool_calls")


@check("ATF-005")
def logged_tokens_agree_call_by_call(evidence: Evidence) -> Iterator[Fault]:
    """Only where steps and turns can be put side by side."""
    turns, steps = _both(evidence)
    if len(turns) != len(steps) or any(step.get("llm_call_count") not in {None, 1} for _, step in steps):
        raise Unverifiable("the steps of the trajectory are not one call each, so they cannot be put beside the turns")
    if not any(_count(step, name) for _, step in steps for name in ("prompt_tokens", "completion_tokens")):
        raise Unverifiable("no step of the trajectory has a token count")
    for turn, (number, step) in zip(turns, steps, strict=True):
        wire = {"prompt_tokens": prompt_length(turn.call), "completion_tokens": completion_length(turn.call)}
        for name, count in wire.items():
            logged = _count(step, name)
            if count is not None and logged is not None and logged != count:
                yield Fault(turn.call.index, f"{count}, the ids on the wire", str(logged), f"{PATH} steps[{number}].metrics.{name}")


@check("ATF-006")
def logged_totals_agree(evidence: Evidence) -> Iterator[Fault]:
    """The trajectory's own totals, and those of the agent's context that Harbor keeps."""
    turns, _ = _both(evidence)
    prompt = _sum(prompt_length(turn.call) for turn in turns)
    completion = _sum(completion_length(turn.call) for turn in turns)
    metrics = (evidence.trajectory or {}).get("final_metrics") or {}
    context = (evidence.trial_result or {}).get("agent_result") or {}
    totals = [
        (prompt, metrics.get("total_prompt_tokens"), f"{PATH} final_metrics.total_prompt_tokens"),
        (completion, metrics.get("total_completion_tokens"), f"{PATH} final_metrics.total_completion_tokens"),
        (prompt, context.get("n_input_tokens"), "trial/result.json agent_result.n_input_tokens"),
        (completion, context.get("n_output_tokens"), "trial/result.json agent_result.n_output_tokens"),
    ]
    comparable = [(wire, logged, where) for wire, logged, where in totals if wire is not None and logged is not None]
    if not any(logged for _, logged, _ in comparable):
        raise Unverifiable("no total of the trajectory or the context can be compared with the wire")
    for wire, logged, where in comparable:
        if logged != wire:
            yield Fault(None, f"{wire}, the ids on the wire", repr(logged), where)


def _steps(evidence: Evidence) -> list[tuple[int, dict[str, Any]]]:
    """The agent's own steps with their positions; copied context is another trajectory's."""
    steps = (evidence.trajectory or {}).get("steps")
    found = [
        (position, step)
        for position, step in enumerate(steps if isinstance(steps, list) else ())
        if isinstance(step, dict) and step.get("source") == "agent" and not step.get("is_copied_context")
    ]
    if not found:
        raise Unverifiable("there is no trajectory with steps of the agent")
    return found


def _both(evidence: Evidence) -> tuple[tuple[Turn, ...], list[tuple[int, dict[str, Any]]]]:
    turns = conversation(evidence)
    if not turns:
        raise NotExercised("no model call was answered")
    return turns, _steps(evidence)


def _calls(step: dict[str, Any]) -> list[dict[str, Any]]:
    calls = step.get("tool_calls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def _results(step: dict[str, Any]) -> list[dict[str, Any]]:
    observation = step.get("observation")
    results = observation.get("results") if isinstance(observation, dict) else None
    return [result for result in results if isinstance(result, dict)] if isinstance(results, list) else []


def _same_call(made: ToolCall, logged: dict[str, Any]) -> bool:
    arguments = parse_json(made.arguments)
    return (
        made.id == logged.get("tool_call_id")
        and made.name == logged.get("function_name")
        and (not isinstance(arguments, dict) or identical(arguments, logged.get("arguments")))
    )


def _count(step: dict[str, Any], name: str) -> int | None:
    metrics = step.get("metrics")
    value = metrics.get(name) if isinstance(metrics, dict) else None
    return value if type(value) is int else None


def _sum(counts: Iterator[int | None]) -> int | None:
    """None is not zero: a sum with an unknown part is unknown."""
    known = list(counts)
    return None if None in known else sum(count for count in known if count is not None)
