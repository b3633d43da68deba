"""Faults of the harness's own log, as ATIF."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_harness.evidence.model import Evidence
from pytest_harness.saboteurs.registry import NothingToSabotage, chosen, saboteur
from pytest_harness.saboteurs.surgery import RESULT, TRAJECTORY, Json, edit_file, found, with_file


@saboteur
def no_trajectory(evidence: Evidence) -> Evidence:
    """The converter wrote nothing."""
    found(evidence.files.get(TRAJECTORY), TRAJECTORY)
    return with_file(evidence, TRAJECTORY, None)


@saboteur
def step_number_gap(evidence: Evidence) -> Evidence:
    """A step is missing from the numbering."""
    return _steps(evidence, lambda steps: steps[-1].update(step_id=len(steps) + 1))


@saboteur
def unknown_atif_version(evidence: Evidence) -> Evidence:
    """The document is of a version that nobody knows."""
    return edit_file(evidence, TRAJECTORY, lambda document: document.update(schema_version="ATIF-v9.9"))


@saboteur
def miscounted_calls(evidence: Evidence) -> Evidence:
    """The log counts a call that never was on the wire."""
    return _steps(evidence, lambda steps: _agent(steps)[-1].update(llm_call_count=2))


@saboteur
def unlinked_result(evidence: Evidence) -> Evidence:
    """A result does not say which call it answers."""
    return _steps(evidence, lambda steps: chosen(_linked(steps), 0).pop("source_call_id"))


@saboteur
def lost_result(evidence: Evidence) -> Evidence:
    """A call in the middle has no result."""

    def lose(steps: list[Json]) -> None:
        lost = chosen(_linked(steps), 0)
        for step in steps:
            results = (step.get("observation") or {}).get("results") or []
            step_results = [result for result in results if result is not lost]
            if len(step_results) != len(results):
                step["observation"]["results"] = step_results

    return _steps(evidence, lose)


@saboteur
def forged_logged_call(evidence: Evidence) -> Evidence:
    """The log shows another command than the one that the model gave."""

    def forge(steps: list[Json]) -> None:
        made = [call for step in steps for call in step.get("tool_calls") or ()]
        chosen(found(made or None, "step with a tool call"), 0)["arguments"] = {"command": "true"}

    return _steps(evidence, forge)


@saboteur
def swapped_step_tokens(evidence: Evidence) -> Evidence:
    """The counts of two steps are swapped, so the sums are right."""

    def swap(steps: list[Json]) -> None:
        agent = _agent(steps)
        agent[0]["metrics"], agent[-1]["metrics"] = agent[-1]["metrics"], agent[0]["metrics"]

    return _steps(evidence, swap)


@saboteur
def wrong_total(evidence: Evidence) -> Evidence:
    """The total counts copied context."""

    def more(document: Json) -> None:
        document["final_metrics"]["total_prompt_tokens"] += 10

    return edit_file(evidence, TRAJECTORY, more)


@saboteur
def wrong_context_tokens(evidence: Evidence) -> Evidence:
    """The agent's context lost the output of one call."""

    def less(document: Json) -> None:
        if document["agent_result"]["n_output_tokens"] is None:
            raise NothingToSabotage("Harbor was told no tokens")
        document["agent_result"]["n_output_tokens"] -= 1

    return edit_file(evidence, RESULT, less)


def _steps(evidence: Evidence, edit: Callable[[list[Json]], Any]) -> Evidence:
    return edit_file(evidence, TRAJECTORY, lambda document: edit(document["steps"]))


def _agent(steps: list[Json]) -> list[Json]:
    return [step for step in steps if step["source"] == "agent"]


def _linked(steps: list[Json]) -> list[Json]:
    results = [result for step in _agent(steps) for result in (step.get("observation") or {}).get("results") or ()]
    linked = [result for result in results if "source_call_id" in result]
    if not linked:
        raise NothingToSabotage("no result in the trajectory names its call")
    return linked
