"""ATF: tool calls and results inside the trajectory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from pytest_harness.contract.model import Fault, NotExercised, check
from pytest_harness.contract.trajectory.reading import calls_by_id, own_steps, there
from pytest_harness.evidence.model import Evidence


@check("ATF-003")
def calls_and_results_are_paired(evidence: Evidence) -> Iterator[Fault]:
    """The calls of the last step of a document may have had no time to be answered."""
    steps = [step for step in own_steps(evidence) if step.calls or any(result.get("source_call_id") for result in step.results)]
    if not steps:
        raise NotExercised("no step of the trajectory has a tool call")
    last = {step.document: step.position for step in own_steps(evidence)}
    for step in steps:
        answered = Counter(_name(result.get("source_call_id")) for result in step.results)
        where = step.at("observation")
        if answered[None]:
            yield Fault(None, "results that name their call by source_call_id", f"{answered.pop(None)} that name none", where)
            continue
        for call in step.calls:
            times = answered.pop(_name(call.get("tool_call_id")), 0)
            if times != 1 and not (step.position == last[step.document] and times == 0):
                yield Fault(None, f"one result for {call.get('tool_call_id')}", str(times), where)
        for stray in (stray for stray, times in answered.items() if times):
            yield Fault(None, "results of this step's calls alone", f"a result for {stray}", where)


@check("ATF-012")
def tool_calls_can_be_told_apart(evidence: Evidence) -> Iterator[Fault]:
    """Over all documents; copied steps repeat what they copy, and what the engine itself repeats or leaves empty is no fault of the log."""
    allowed = calls_by_id(evidence)
    seen: Counter[str] = Counter()
    first: dict[str, str] = {}
    for step in there(evidence).steps:
        for number, call in enumerate(() if step.copied else step.calls):
            where = step.at(f"tool_calls[{number}]")
            name = call.get("tool_call_id")
            if call.get("function_name") == "":
                yield Fault(None, "the name of a function", "an empty one", f"{where}.function_name")
            if not isinstance(name, str):
                continue
            seen[name] += 1
            if seen[name] > max(allowed[name], 1 if name else 0):
                expected = f"an id other than that of {first[name]}" if name else "an id that is not empty"
                yield Fault(None, expected, name or "an empty one", f"{where}.tool_call_id")
            first.setdefault(name, where)


def _name(value: Any) -> str | None:
    """An id that is no text is no id, yet it must be told from others."""
    return value if value is None or isinstance(value, str) else repr(value)
