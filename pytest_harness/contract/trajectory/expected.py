"""What a harness's log is to say of a call, by the way in which its seam declares that it counts."""

from __future__ import annotations

from typing import Any

from pytest_harness.contract.chat_wire import Turn, conversation, turns
from pytest_harness.contract.tokens import completion_length, prompt_length
from pytest_harness.contract.trajectory.alignment import align
from pytest_harness.evidence.model import Accounting, Evidence
from pytest_harness.graph import build

COUNTS = ("prompt_tokens", "completion_tokens")


def expected_tokens(turn: Turn, accounting: Accounting) -> dict[str, int | None]:
    """The counts of one call; None where the ids are missing. What the engine does not report, no harness can leave out."""
    usage = turn.engine.usage or {}
    prompt, completion = prompt_length(turn.call), completion_length(turn.call)
    if prompt is not None and accounting.prompt == "uncached":
        prompt -= _detail(usage, "prompt_tokens_details", "cached_tokens")
    if completion is not None and accounting.completion == "visible":
        completion -= _detail(usage, "completion_tokens_details", "reasoning_tokens")
    return {"prompt_tokens": prompt, "completion_tokens": completion}


def explained(evidence: Evidence) -> tuple[Turn, ...]:
    """The agent's turns that the log does not tell, and that its seam says it does not."""
    allowed = evidence.manifest.seam.accounting.unlogged
    if not allowed:
        return ()
    roots = {turn.call for turn in build(evidence.calls).roots[1:]}
    return tuple(turn for turn in align(evidence).unlogged if _kinds(turn, roots) & set(allowed))


def possible_sums(evidence: Evidence, name: str) -> list[int]:
    """What the totals may be, the likeliest first: of the agent's turns, of those that the log tells, and of every call that was answered.

    Empty where ids are missing: a sum with an unknown part is unknown.
    """
    accounting, silent = evidence.manifest.seam.accounting, {turn.call.index for turn in explained(evidence)}
    agent, aside = conversation(evidence), [turn for turn in align(evidence).aside if turn.call.outcome == "complete"]
    told = [turn for turn in agent if turn.call.index not in silent]
    sums = [_sum(group, accounting, name) for group in (agent, told, [*told, *aside], turns(evidence))]
    return list(dict.fromkeys(total for total in sums if total is not None))


def _sum(group: Any, accounting: Accounting, name: str) -> int | None:
    counts = [expected_tokens(turn, accounting)[name] for turn in group]
    return None if None in counts else sum(count for count in counts if count is not None)


def _kinds(turn: Turn, roots: set[int]) -> set[str]:
    choices = turn.engine.choices.values()
    kinds = set()
    if any(choice.finish_reason == "length" for choice in choices):
        kinds.add("truncated")
    if not turn.engine.calls and not any(choice.text.strip() for choice in choices):
        kinds.add("silent")
    if turn.call.index in roots and not turn.engine.calls:
        kinds.add("compaction")
    return kinds


def _detail(usage: dict[str, Any], group: str, name: str) -> int:
    details = usage.get(group)
    value = details.get(name) if isinstance(details, dict) else None
    return value if type(value) is int else 0
