"""The harness's own trajectory beside what was captured, with what differs between the two.

Which step is which call is told by ``contract.trajectory.align``, as for the checks. What the two are compared by here is shown, not
judged: a difference may well be the harness's way to count, which its seam declares.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pytest_harness.atif import Step
from pytest_harness.atif.document import whole
from pytest_harness.contract.chat_wire import Turn
from pytest_harness.contract.trajectory import Pair, align
from pytest_harness.contract.trajectory.alignment import plain
from pytest_harness.contract.trajectory.expected import COUNTS, expected_tokens
from pytest_harness.contract.trajectory.reading import in_steps, trace_of
from pytest_harness.evidence.model import Accounting, Evidence

LONGEST = 4000
"""So many characters of one text are shown."""
MOST = 2000
"""So many rows are shown."""

Json = dict[str, Any]


def trajectory_data(evidence: Evidence) -> Json:
    """The rows in the order of the log; turns that it does not tell stand where they were asked. ``absent`` says why there are none."""
    trace = trace_of(evidence)
    if trace is None:
        expected = evidence.manifest.seam.trajectory != "none"
        return {"rows": [], "absent": in_steps(evidence) or ("there is no trajectory" if expected else "its seam declares no trajectory")}
    rows = list(_rows(evidence, trace.steps))
    return {"rows": rows[:MOST], "left_out": max(0, len(rows) - MOST), "absent": None}


def _rows(evidence: Evidence, steps: Sequence[Step]) -> Iterator[Json]:
    alignment, accounting = align(evidence), evidence.manifest.seam.accounting
    pair_of = {_place(step): pair for pair in alignment.pairs for step in pair.steps}
    unlogged = sorted(alignment.unlogged, key=lambda turn: turn.call.index)
    told: set[int] = set()
    for step in steps:
        pair = pair_of.get(_place(step))
        if pair is None:
            yield _row([step], (), None, [] if not step.calls_model else [_only("captured", "no call was captured for this step")])
            continue
        if id(pair) in told:
            continue
        told.add(id(pair))
        first = pair.turns[0].call.index
        while unlogged and unlogged[0].call.index < first:
            yield _missing(unlogged.pop(0))
        yield _row(pair.steps, pair.turns, pair.by, list(_differences(pair, accounting)))
    yield from map(_missing, unlogged)


def _place(step: Step) -> tuple[int, int]:
    """Which step it is: a document makes its steps anew for everyone who asks."""
    return id(step.document), step.position


def _missing(turn: Turn) -> Json:
    return _row([], (turn,), None, [_only("logged", "no step tells this call")])


def _only(side: str, why: str) -> Json:
    return {"what": side, "captured": None, "logged": None, "same": False, "why": why}


def _row(steps: Iterable[Step], turns: Iterable[Turn], by: str | None, compared: list[Json]) -> Json:
    return {"steps": [_step(step) for step in steps], "calls": [_call(turn) for turn in turns], "by": by, "compared": compared}


def _step(step: Step) -> Json:
    return {
        "at": step.at(),
        "source": _short(step.raw.get("source")),
        "text": _short(step.text),
        "calls": [_told(call.get("function_name"), call.get("arguments")) for call in step.calls],
        "results": len(step.results),
        "copied": step.copied,
    }


def _call(turn: Turn) -> Json:
    return {
        "index": turn.call.index,
        "text": _short(_text(turn)),
        "calls": [_told(call.name, call.arguments) for call in turn.harness.calls],
    }


def _differences(pair: Pair, accounting: Accounting) -> Iterator[Json]:
    """What both sides say, where both say something; what only one says is null on the other."""
    yield _compare("text", plain(" ".join(_text(turn) for turn in pair.turns)), plain(" ".join(step.text for step in pair.steps)))
    captured = [_told(call.name, call.arguments) for turn in pair.turns for call in turn.harness.calls]
    logged = [_told(call.get("function_name"), call.get("arguments")) for step in pair.steps for call in step.calls]
    yield _compare("tool calls", "\n".join(captured), "\n".join(logged))
    for name in COUNTS:
        wire = [expected_tokens(turn, accounting)[name] for turn in pair.turns]
        told = [whole(step.metrics.get(name)) for step in pair.steps]
        yield _compare(name, _sum(wire), _sum([count for count in told if count is not None] or [None]))
    ids = [identity for turn in pair.turns for sample in turn.call.samples[:1] for identity in sample.token_ids or ()]
    for step in pair.steps:
        if isinstance(told_ids := step.metrics.get("completion_token_ids"), list):
            yield _compare("completion_token_ids", f"{len(ids)} ids", f"{len(told_ids)} ids") | {"same": told_ids == ids}


def _compare(what: str, captured: str | int | None, logged: str | int | None) -> Json:
    known = captured is not None and logged is not None
    return {"what": what, "captured": _shown(captured), "logged": _shown(logged), "same": captured == logged if known else None, "why": ""}


def _shown(value: str | int | None) -> str | int | None:
    return value[:LONGEST] if isinstance(value, str) else value


def _sum(counts: Iterable[int | None]) -> int | None:
    """A sum with an unknown part is unknown."""
    known = list(counts)
    return None if None in known else sum(count for count in known if count is not None)


def _text(turn: Turn) -> str:
    return "".join(choice.text for choice in turn.harness.choices.values())


def _told(name: Any, arguments: Any) -> str:
    """A tool call in one spelling, whether its arguments are a text of JSON or an object."""
    if isinstance(arguments, str):
        with contextlib.suppress(ValueError, RecursionError):
            arguments = json.loads(arguments)
    with contextlib.suppress(TypeError, ValueError, RecursionError):
        arguments = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, sort_keys=True)
    return f"{_short(name)}({_short(arguments)})"


def _short(value: Any) -> str:
    shown = "" if value is None else str(value)
    return shown if len(shown) <= LONGEST else f"{shown[:LONGEST]} … and {len(shown) - LONGEST} more characters"
