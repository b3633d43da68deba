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
    """The log counts calls that never were on the wire, more than any stop replies."""
    return _steps(evidence, lambda steps: _agent(steps)[-1].update(llm_call_count=99))


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


@saboteur
def unknown_atif_field(evidence: Evidence) -> Evidence:
    """A step has a field of the converter's own invention."""
    return _steps(evidence, lambda steps: steps[-1].update(thought="hm"))


@saboteur
def newer_than_its_version(evidence: Evidence) -> Evidence:
    """The document declares a version that knew nothing of calls and their count."""
    return edit_file(evidence, TRAJECTORY, lambda document: document.update(schema_version="ATIF-v1.6"))


@saboteur
def dangling_subagent(evidence: Evidence) -> Evidence:
    """A result refers to a subagent that was never written."""
    return _steps(evidence, lambda steps: _results(steps)[0].update(subagent_trajectory_ref=[{"trajectory_id": "gone"}]))


@saboteur
def dangling_continuation(evidence: Evidence) -> Evidence:
    """The trajectory is continued in a file that is not there."""
    return edit_file(evidence, TRAJECTORY, lambda document: document.update(continued_trajectory_ref="trajectory.cont-1.json"))


@saboteur
def orphan_subagent(evidence: Evidence) -> Evidence:
    """A subagent stands in the trajectory, and no step says what it was for."""
    agent = {"name": "helper", "version": "1"}
    step = {"step_id": 1, "source": "user", "message": "Look."}
    orphan = {"schema_version": "ATIF-v1.8", "trajectory_id": "orphan", "agent": agent, "steps": [step]}
    return edit_file(evidence, TRAJECTORY, lambda document: document.update(subagent_trajectories=[orphan]))


@saboteur
def negative_cached_tokens(evidence: Evidence) -> Evidence:
    """A count is negative."""
    return _steps(evidence, lambda steps: _metrics(steps).update(cached_tokens=-1))


@saboteur
def cached_outside_the_prompt(evidence: Evidence) -> Evidence:
    """The cached tokens were not added to the prompt of which they are a part."""
    return _steps(evidence, lambda steps: _metrics(steps).update(cached_tokens=_metrics(steps)["prompt_tokens"] + 1))


@saboteur
def infinite_cost(evidence: Evidence) -> Evidence:
    """The price of the model was not known."""
    return _steps(evidence, lambda steps: _metrics(steps).update(cost_usd=float("inf")))


@saboteur
def reused_logged_call_id(evidence: Evidence) -> Evidence:
    """A step that is no model call takes the id of a call that is one."""

    def reuse(document: Json) -> None:
        steps = document["steps"]
        call = found(next((call for step in steps for call in step.get("tool_calls") or ()), None), "tool call in the trajectory")
        result = {"source_call_id": call["tool_call_id"]}
        again = {"source": "agent", "message": "", "llm_call_count": 0, "tool_calls": [call], "observation": {"results": [result]}}
        _insert(document, len(steps), again)

    return edit_file(evidence, TRAJECTORY, reuse)


@saboteur
def nameless_logged_call(evidence: Evidence) -> Evidence:
    """The converter lost the name of the function."""

    def lose(steps: list[Json]) -> None:
        step = next((step for step in steps if step.get("tool_calls")), None)
        found(step, "step with a tool call")["tool_calls"][0]["function_name"] = ""

    return _steps(evidence, lose)


@saboteur
def calls_of_the_user(evidence: Evidence) -> Evidence:
    """The user's step says that it called the model."""
    return _steps(evidence, lambda steps: _of(steps, "user").update(llm_call_count=5))


@saboteur
def miscounted_steps(evidence: Evidence) -> Evidence:
    """The number of steps is another, and nothing says why."""

    def miscount(document: Json) -> None:
        document.pop("notes", None)
        document["final_metrics"]["total_steps"] += 1

    return edit_file(evidence, TRAJECTORY, miscount)


@saboteur
def ids_in_copied_context(evidence: Evidence) -> Evidence:
    """What was copied from another trajectory brings its ids, which are trained on there already."""
    metrics = {"completion_tokens": 2, "completion_token_ids": [7, 8], "logprobs": [-0.5, -0.25]}
    copied = {"source": "agent", "message": "Before.", "is_copied_context": True, "metrics": metrics}
    return edit_file(evidence, TRAJECTORY, lambda document: _insert(document, _first_agent(document["steps"]), copied))


@saboteur
def no_task(evidence: Evidence) -> Evidence:
    """Nobody asked the agent for anything."""

    def silence(steps: list[Json]) -> None:
        for step in steps:
            if step["source"] == "user":
                step["source"] = "system"

    return _steps(evidence, silence)


@saboteur
def times_run_backward(evidence: Evidence) -> Evidence:
    """The last step was taken before the first."""
    return _steps(evidence, lambda steps: _timed(steps)[-1].update(timestamp="2001-01-01T00:00:00Z"))


@saboteur
def date_without_time(evidence: Evidence) -> Evidence:
    """Only the day of a step is known."""
    return _steps(evidence, lambda steps: _timed(steps)[0].update(timestamp=_timed(steps)[0]["timestamp"][:10]))


@saboteur
def lost_logged_logprob(evidence: Evidence) -> Evidence:
    """A trajectory with ids lost one logprob."""
    return _with_ids(evidence, lambda metrics: metrics["logprobs"].pop())


@saboteur
def zero_filled_logprobs_in_log(evidence: Evidence) -> Evidence:
    """The logprobs of a trajectory with ids were never there: each is 0."""
    return _with_ids(evidence, lambda metrics: metrics.update(logprobs=[0.0] * len(metrics["logprobs"])))


@saboteur
def retokenised_log(evidence: Evidence) -> Evidence:
    """The ids of the trajectory were made by encoding its text again."""
    return _with_ids(evidence, lambda metrics: metrics["completion_token_ids"].reverse())


@saboteur
def uncounted_logged_ids(evidence: Evidence) -> Evidence:
    """A trajectory has ids and no counts."""
    return _with_ids(evidence, lambda metrics: [metrics.pop(name) for name in ("prompt_tokens", "completion_tokens")])


@saboteur
def rewritten_logged_prompt(evidence: Evidence) -> Evidence:
    """A trajectory with ids tells another history in its last prompt."""

    def fill(steps: list[Json]) -> None:
        last_two = [step["metrics"] for step in _agent(steps)[-2:]]
        for metrics in last_two:
            metrics.update(_ids_of(evidence, metrics))
        before, after = last_two[0], last_two[-1]
        history = before["prompt_token_ids"] + before["completion_token_ids"]
        if before is after or after["prompt_token_ids"][: len(history)] != history:
            raise NothingToSabotage("the last two steps are no one conversation")
        after["prompt_token_ids"].reverse()

    return _steps(evidence, fill)


@saboteur
def foreign_reply_id(evidence: Evidence) -> Evidence:
    """The log names a reply that was never captured."""

    def forge(steps: list[Json]) -> None:
        named = [step for step in steps if "response_id" in (step.get("extra") or {})]
        found(named[-1] if named else None, "step that names its reply")["extra"]["response_id"] = "chatcmpl-elsewhere"

    return _steps(evidence, forge)


@saboteur
def forged_message(evidence: Evidence) -> Evidence:
    """The log shows another text than the one that the model gave."""

    def forge(steps: list[Json]) -> None:
        told = [step for step in _agent(steps) if step["message"].strip()]
        found(told[-1] if told else None, "step with a text")["message"] = "Nothing of the kind."

    return _steps(evidence, forge)


@saboteur
def forged_observation(evidence: Evidence) -> Evidence:
    """The log shows another result than the one that the model was told."""
    return _steps(evidence, lambda steps: _results(steps)[0].update(content="Nothing of the kind."))


@saboteur
def wrong_usage_by_model(evidence: Evidence) -> Evidence:
    """Harbor counted copied context as the model's work."""

    def more(document: Json) -> None:
        usage = (document["agent_result"] or {}).get("model_usage") or {}
        found(next(iter(usage.values()), None), "usage by model")["n_input_tokens"] += 100

    return edit_file(evidence, RESULT, more)


def _with_ids(evidence: Evidence, spoil: Callable[[Json], Any]) -> Evidence:
    """The evidence with the captured ids in the last step of the agent, spoiled."""

    def fill(steps: list[Json]) -> None:
        metrics = _agent(steps)[-1]["metrics"]
        metrics |= _ids_of(evidence, metrics)
        spoil(metrics)

    return _steps(evidence, fill)


def _ids_of(evidence: Evidence, metrics: Json) -> Json:
    """The ids and logprobs of the one call that has so many tokens."""
    counts = (metrics.get("prompt_tokens"), metrics.get("completion_tokens"))
    alike = [
        call for call in evidence.calls if call.samples and counts == (len(call.prompt_ids or ()), len(call.samples[0].token_ids or ()))
    ]
    if len(alike) != 1 or alike[0].samples[0].logprobs is None:
        raise NothingToSabotage("no one call has the tokens of the last step, with ids and logprobs that could stand in the trajectory")
    sample = alike[0].samples[0]
    ids = {"prompt_token_ids": alike[0].prompt_ids, "completion_token_ids": sample.token_ids, "logprobs": sample.logprobs}
    return {name: list(values or ()) for name, values in ids.items()}


def _insert(document: Json, position: int, step: Json) -> None:
    """Put a step at this place, with all numbers as they must be."""
    steps = document["steps"]
    steps.insert(position, step)
    for number, each in enumerate(steps, start=1):
        each["step_id"] = number
    document["final_metrics"]["total_steps"] = len(steps)


def _first_agent(steps: list[Json]) -> int:
    return steps.index(_of(steps, "agent"))


def _of(steps: list[Json], source: str) -> Json:
    return found(next((step for step in steps if step["source"] == source), None), f"step of the {source}")


def _metrics(steps: list[Json]) -> Json:
    metrics: Json = found(next((step["metrics"] for step in _agent(steps) if step.get("metrics")), None), "metrics")
    return metrics


def _results(steps: list[Json]) -> list[Json]:
    results = [result for step in _agent(steps) for result in (step.get("observation") or {}).get("results") or ()]
    found(results or None, "result in the trajectory")
    return results


def _timed(steps: list[Json]) -> list[Json]:
    timed = [step for step in steps if step.get("timestamp")]
    found(timed[1:] or None, "two steps with a time")
    return timed
