"""The trajectory of an evidence, read once for all checks."""

from __future__ import annotations

import re
from collections import Counter

from pytest_harness.atif import PATH, Step, Trace, read_trace
from pytest_harness.contract.chat_wire import asked
from pytest_harness.contract.memo import once_per_evidence
from pytest_harness.contract.model import Unverifiable
from pytest_harness.evidence.model import Evidence

OF_A_STEP = re.compile(r"trial/steps/[^/]+/agent/trajectory\.json")
"""Where the trajectories of a trial of several steps stand. A step that is resumed may tell all that came before it once more."""


@once_per_evidence
def trace_of(evidence: Evidence) -> Trace | None:
    """The trajectory with all that it refers to, or None."""
    return read_trace(evidence.files, PATH, others=evidence.others)


def there(evidence: Evidence) -> Trace:
    """The trajectory, without which a check has nothing to say."""
    trace = trace_of(evidence)
    if trace is None:
        raise Unverifiable(in_steps(evidence) or "there is no trajectory")
    return trace


def own_steps(evidence: Evidence) -> tuple[Step, ...]:
    """The agent's own steps, of which there must be one for a check to say anything; copied context is another trajectory's."""
    trace = trace_of(evidence)
    steps = () if trace is None else tuple(step for step in trace.steps if step.of_agent)
    if not steps:
        raise Unverifiable((trace is None and in_steps(evidence)) or "there is no trajectory with steps of the agent")
    return steps


def in_steps(evidence: Evidence) -> str:
    """Of a trial of several steps, each with a trajectory: why none is read. Empty where it is no such trial."""
    found = sorted(path for path in (*evidence.files, *evidence.others) if OF_A_STEP.fullmatch(path))
    if not found or PATH in evidence.files:
        return ""
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    return f"this is a trial of several steps, whose trajectories ({found[0]}{more}) are not read: judge the harness by tasks of one step"


@once_per_evidence
def calls_by_id(evidence: Evidence) -> Counter[str]:
    """How many tool calls on the wire have each id: an engine may repeat its ids."""
    return Counter(call.id for turn in asked(evidence) for call in turn.harness.calls if isinstance(call.id, str))
