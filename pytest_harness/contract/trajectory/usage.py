"""ATF: the tokens that the trajectory counts, call by call and in sum, against the ids on the wire."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import accumulate, combinations
from typing import Any

from pytest_harness.atif import PATH, Trace
from pytest_harness.atif.document import whole
from pytest_harness.contract.chat_wire import conversation, turns
from pytest_harness.contract.model import Fault, NotExercised, Unverifiable, check
from pytest_harness.contract.trajectory.alignment import Pair, align
from pytest_harness.contract.trajectory.expected import COUNTS, expected_tokens, possible_sums
from pytest_harness.contract.trajectory.reading import in_steps, own_steps, there
from pytest_harness.evidence.model import Evidence

CONTEXT = {"prompt_tokens": "n_input_tokens", "completion_tokens": "n_output_tokens"}
"""What Harbor's context calls the two counts."""
RESULT = "trial/result.json"


@check("ATF-005")
def logged_tokens_agree_call_by_call(evidence: Evidence) -> Iterator[Fault]:
    """Wherever a step is known to tell certain calls."""
    _answered(evidence)
    steps = own_steps(evidence)
    if not any(_count(step.metrics, name) for step in steps for name in COUNTS):
        raise Unverifiable("no step of the trajectory has a token count")
    pairs = [pair for pair in align(evidence).pairs if _comparable(pair)]
    if not pairs:
        raise Unverifiable("no step of the trajectory can be put beside a call")
    accounting = evidence.manifest.seam.accounting
    for pair in pairs:
        wire = [expected_tokens(turn, accounting) for turn in pair.turns]
        for name in COUNTS:
            counts = [each[name] for each in wire]
            told = [(step, count) for step in pair.steps if (count := _count(step.metrics, name)) is not None]
            if None not in counts and told:
                total, logged = sum(count or 0 for count in counts), sum(count for _, count in told)
                if logged != total:
                    where = told[0][0].at(f"metrics.{name}")
                    yield Fault(pair.turns[0].call.index, f"{total}, the ids on the wire", str(logged), where)


@check("ATF-006")
def logged_totals_agree(evidence: Evidence) -> Iterator[Fault]:
    """The trajectory's own totals, and those of the agent's context that Harbor keeps."""
    _answered(evidence)
    own_steps(evidence)
    context = _context(evidence)
    found = []
    for name in COUNTS:
        found.append((name, _totals(there(evidence), f"total_{name}"), f"{PATH} final_metrics.total_{name}"))
        found.append((name, [context.get(CONTEXT[name])], f"{RESULT} agent_result.{CONTEXT[name]}"))
    yield from _agree(evidence, found, "no total of the trajectory or the context can be compared with the wire")


@check("ATF-024")
def logged_usage_by_model_agrees(evidence: Evidence) -> Iterator[Fault]:
    """Over all models together, as names of models are the harness's own. Without such usage there is nothing to disagree with."""
    _answered(evidence)
    if several := in_steps(evidence):
        raise Unverifiable(several)
    usage = _context(evidence).get("model_usage")
    models = [each for each in usage.values() if isinstance(each, dict)] if isinstance(usage, dict) else []
    if models:
        found = []
        for name, field in CONTEXT.items():
            counts = [each.get(field) for each in models]
            known = [count for count in counts if type(count) is int]
            total = sum(known) if len(known) == len(counts) else None
            found.append((name, [total], f"{RESULT} agent_result.model_usage {field}"))
        missing = _missing(evidence, {name: logged for name, [logged], _ in found})
        for fault in _agree(evidence, found, "the usage by model is all zero, or the wire has no ids to compare it with"):
            yield replace(fault, seen=f"{fault.seen}{missing}")


def _missing(evidence: Evidence, totals: Mapping[str, int | None]) -> str:
    """The calls, one behind the other, without which the wire has just these totals, all at once; empty where there are none."""
    counts = [expected_tokens(turn, evidence.manifest.seam.accounting) for turn in turns(evidence)]
    known = [name for name in COUNTS if totals[name] is not None and all(count[name] is not None for count in counts)]
    sums = {name: list(accumulate((count[name] or 0 for count in counts), initial=0)) for name in known}
    for first, end in combinations(range(len(counts) + 1), 2) if known else ():
        if all(sums[name][-1] - sums[name][end] + sums[name][first] == totals[name] for name in known):
            missing = f"call {turns(evidence)[first].call.index}"
            return f", as without {missing}" if end - first == 1 else f", as without the {end - first} calls from {missing} on"
    return ""


def _context(evidence: Evidence) -> dict[str, Any]:
    """What Harbor keeps of the agent; empty where it is no object."""
    context = (evidence.trial_result or {}).get("agent_result")
    return context if isinstance(context, dict) else {}


def _agree(evidence: Evidence, found: list[tuple[str, list[Any], str]], nothing: str) -> Iterator[Fault]:
    """Each total in one of the forms in which it stands in the log against those that it may have."""
    wire = {name: possible_sums(evidence, name) for name in COUNTS}
    known = [(name, [each for each in logged if each is not None], where) for name, logged, where in found]
    comparable = [(wire[name], logged, where) for name, logged, where in known if wire[name] and logged]
    if not any(any(logged) for _, logged, _ in comparable):
        raise Unverifiable(nothing)
    for sums, logged, where in comparable:
        if not set(sums) & {each for each in logged if type(each) is int}:
            yield Fault(None, f"{sums[0]}, the ids on the wire", repr(logged[0]), where)


def _totals(trace: Trace, name: str) -> list[Any]:
    """Of a trajectory in several files the total may stand in the first, in the last, or be the sum of all."""
    chain = [document.totals.get(name) for document in trace.documents if document.role in ("root", "continuation")]
    counts = [count for count in chain if type(count) is int]
    return chain if len(chain) == 1 or len(counts) < len(chain) else [chain[0], chain[-1], sum(counts)]


def _comparable(pair: Pair) -> bool:
    """Whether the steps of the pair are exactly its calls, and these were answered: nobody was told what a call cost that failed."""
    if any(turn.call.outcome != "complete" for turn in pair.turns):
        return False
    return len(pair.steps) > 1 or (pair.steps[0].count or 1) == len(pair.turns)


def _answered(evidence: Evidence) -> None:
    if not conversation(evidence):
        raise NotExercised("no model call was answered")


def _count(metrics: dict[str, Any], name: str) -> int | None:
    return whole(metrics.get(name))
