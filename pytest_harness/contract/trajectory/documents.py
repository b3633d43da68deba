"""ATF: what a trajectory must be by itself, whatever was on the wire."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import pairwise

from pytest_harness.atif import PATH, VERSIONS, Document, Problem, Step
from pytest_harness.atif.document import whole
from pytest_harness.atif.shape import newer, problems, time_of
from pytest_harness.contract.chat_wire import short
from pytest_harness.contract.model import Fault, NotExercised, Unverifiable, check
from pytest_harness.contract.trajectory.reading import in_steps, there, trace_of
from pytest_harness.evidence.model import Evidence

SOURCES = ("system", "user", "agent")
_TOKENS = ("prompt_tokens", "completion_tokens", "cached_tokens")
_COUNTED = frozenset({*_TOKENS, *(f"total_{name}" for name in _TOKENS), "total_steps"})


@check("ATF-001")
def a_well_formed_trajectory_is_there(evidence: Evidence) -> Iterator[Fault]:
    """Version, agent and numbering, of every document that belongs to it."""
    trace = trace_of(evidence)
    if trace is None:
        if several := in_steps(evidence):
            raise Unverifiable(several)
        unread = "a file that is no JSON object, or one that is nested too deeply"
        yield Fault(None, "an ATIF document", unread if PATH in evidence.files else "no such file", PATH)
        return
    for document in trace.documents:
        yield from _well_formed(document)


@check("ATF-007")
def every_field_is_one_of_atif_and_of_its_kind(evidence: Evidence) -> Iterator[Fault]:
    """Without turning any value into another kind."""
    return _faults(problem for document in there(evidence).documents for problem in problems(document))


@check("ATF-008")
def fields_are_no_newer_than_the_declared_version(evidence: Evidence) -> Iterator[Fault]:
    """A document of no known version declares nothing."""
    return _faults(problem for document in there(evidence).documents for problem in newer(document))


@check("ATF-009")
def references_lead_somewhere(evidence: Evidence) -> Iterator[Fault]:
    """Subagents, continuations, images and sounds; what lies behind a URL nobody can see."""
    return _faults(there(evidence).dangling)


@check("ATF-010")
def embedded_subagents_are_referred_to(evidence: Evidence) -> Iterator[Fault]:
    """By the id that they have in their own document."""
    for orphan in there(evidence).orphans:
        yield Fault(None, "a step that refers to this subagent", "none", orphan.at(""))


@check("ATF-011")
def numbers_are_possible(evidence: Evidence) -> Iterator[Fault]:
    """Counts and costs are finite and not negative, and cached tokens are a part of the prompt."""
    trace = there(evidence)
    for document in trace.documents:
        yield from _possible(document, "total_")
    for step in trace.steps:
        yield from _possible(step)
        if (count := step.count) is not None and count < 0:
            yield Fault(None, "a count that is not negative", str(count), step.at("llm_call_count"))


@check("ATF-013")
def model_calls_are_counted_where_they_are(evidence: Evidence) -> Iterator[Fault]:
    """Only the agent calls the model, and the ids of several calls are no one list."""
    for step in there(evidence).steps:
        count = step.count or 0
        if count > 0 and step.raw.get("source") != "agent":
            yield Fault(None, "no model call in a step that is not the agent's", str(count), step.at("llm_call_count"))
        elif count > 1 and any(step.metrics.get(name) is not None for name in ("completion_token_ids", "prompt_token_ids", "logprobs")):
            yield Fault(None, "ids in steps that are one call", f"ids in a step that is {count} calls", step.at("metrics"))


@check("ATF-014")
def totals_are_the_sums_of_the_steps(evidence: Evidence) -> Iterator[Fault]:
    """With or without subagents and copied context, as converters differ in both; a number of steps may be explained in the notes."""
    trace = there(evidence)
    compared = False
    for document in trace.documents:
        steps = whole(document.totals.get("total_steps"))
        if steps is not None:
            compared = True
            own = sum(not step.copied for step in document.steps)
            if steps not in (len(document.steps), own) and not document.raw.get("notes"):
                yield Fault(None, f"{len(document.steps)}, or notes that explain", str(steps), document.at("final_metrics.total_steps"))
        for name in _TOKENS:
            total, sums = whole(document.totals.get(f"total_{name}")), _sums(document, trace.documents, name)
            if total and sums:
                compared = True
                if total not in sums:
                    expected = " or ".join(map(str, sorted(sums)))
                    yield Fault(None, f"{expected}, the sum of the steps", str(total), document.at(f"final_metrics.total_{name}"))
    if not compared:
        raise NotExercised("the trajectory has no total that can be compared with its steps")


@check("ATF-015")
def copied_context_brings_no_ids(evidence: Evidence) -> Iterator[Fault]:
    """Which would be trained on twice."""
    for step in there(evidence).steps:
        for name in ("completion_token_ids", "logprobs"):
            if step.copied and step.metrics.get(name) is not None:
                yield Fault(None, "none in a step that was copied", "a list", step.at(f"metrics.{name}"))


@check("ATF-016")
def the_task_comes_first(evidence: Evidence) -> Iterator[Fault]:
    """In the root: what continues another document or is a subagent may begin as it likes."""
    root = there(evidence).root
    sources = [step.raw.get("source") for step in root.steps if not step.copied]
    first = sources.index("agent") if "agent" in sources else len(sources)
    if "user" not in sources[:first]:
        yield Fault(None, "a step of the user before the first of the agent", "none", root.at("steps"))


@check("ATF-017")
def times_run_forward(evidence: Evidence) -> Iterator[Fault]:
    """Each document by itself, as subagents run beside each other."""
    trace = there(evidence)
    timed = False
    for document in trace.documents:
        steps = [step for step in document.steps if step.raw.get("timestamp") is not None and not step.copied]
        timed = timed or bool(steps)
        for step in steps:
            told = step.raw["timestamp"]
            if time_of(told) is not None and "T" not in str(told).upper() and ":" not in str(told):
                yield Fault(None, "a time of the day", str(told), step.at("timestamp"))
        for before, after in pairwise(steps):
            earlier, later = time_of(before.raw["timestamp"]), time_of(after.raw["timestamp"])
            if earlier and later and (earlier.tzinfo is None) == (later.tzinfo is None) and later < earlier:
                yield Fault(None, f"a time not before {before.raw['timestamp']}", str(after.raw["timestamp"]), after.at("timestamp"))
    if not timed:
        raise NotExercised("no step of the trajectory has a time")


def _well_formed(document: Document) -> Iterator[Fault]:
    version, agent, steps = document.raw.get("schema_version"), document.raw.get("agent"), document.raw.get("steps")
    if document.version is None:
        yield Fault(None, f"a version from {VERSIONS[0]} to {VERSIONS[-1]}", short(repr(version)), document.at("schema_version"))
    named = isinstance(agent, dict) and all(isinstance(agent.get(key), str) and agent[key] for key in ("name", "version"))
    if not named:
        yield Fault(None, "an agent with a name and a version", short(repr(agent)), document.at("agent"))
    if not isinstance(steps, list) or not steps:
        yield Fault(None, "a list of steps that is not empty", short(repr(steps)), document.at("steps"))
        return
    for number, step in enumerate(steps, start=1):
        where = document.at(f"steps[{number - 1}]")
        if not isinstance(step, dict) or step.get("source") not in SOURCES or type(step.get("step_id")) is not int:
            yield Fault(None, "a step with a number and a source", short(repr(step)), where)
        elif step["step_id"] != number:
            yield Fault(None, f"step_id {number}", str(step["step_id"]), where)


def _possible(owner: Step | Document, prefix: str = "") -> Iterator[Fault]:
    values, place = (owner.metrics, "metrics") if isinstance(owner, Step) else (owner.totals, "final_metrics")
    for name in values:
        count = whole(values[name])
        if name in _COUNTED and count is not None and count < 0:
            yield Fault(None, "a count that is not negative", str(count), owner.at(f"{place}.{name}"))
    price = values.get(f"{prefix}cost_usd")
    if isinstance(price, int | float) and not 0 <= price < math.inf:
        yield Fault(None, "a cost that is finite and not negative", str(price), owner.at(f"{place}.{prefix}cost_usd"))
    prompt, cached = whole(values.get(f"{prefix}prompt_tokens")), whole(values.get(f"{prefix}cached_tokens"))
    if prompt is not None and cached is not None and cached > prompt >= 0:
        yield Fault(None, f"at most {prompt}, the whole prompt", str(cached), owner.at(f"{place}.{prefix}cached_tokens"))


def _sums(document: Document, documents: tuple[Document, ...], name: str) -> set[int]:
    """What the total may be; empty where a step does not say."""
    family = [other for other in documents if other is document or document.role == "root" or _inside(other, document)]
    sums = set()
    for members in ([document], family):
        steps = [step for member in members for step in member.steps if step.metrics]
        for kept in (steps, [step for step in steps if not step.copied]):
            counts = [whole(step.metrics.get(name)) for step in kept]
            if counts and None not in counts:
                sums.add(sum(count for count in counts if count is not None))
    return sums


def _inside(other: Document, document: Document) -> bool:
    return other.path == document.path and other.place.startswith(f"{document.place}.subagent_trajectories[")


def _faults(found: Iterable[Problem]) -> Iterator[Fault]:
    return (Fault(None, problem.expected, problem.seen, problem.where) for problem in found)
