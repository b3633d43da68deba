"""Which step of the trajectory is which call on the wire: by what both sides name first, and by their order where that leaves one way.

A step is put beside a call if, in this order, it names the id of the reply; its tool calls have the ids of the call's; its tool calls, or
else its text, are those of one call alone, of all or of those between two neighbours that are known. What is left between these is put side
by side if it is as much on both sides: one on each side has its *place*, several have their *order* alone, and that is declared as
ambiguous. A call that failed may be logged or not; a step that says nothing at all is one of those, if there is one.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pytest_harness.atif import Step
from pytest_harness.contract.chat_wire import READERS, Reply, Turn, asked, chunks, conversation, document, is_stream, parse_json, turns
from pytest_harness.contract.memo import once_per_evidence
from pytest_harness.contract.trajectory.reading import trace_of
from pytest_harness.evidence.model import Call, Evidence

By = Literal["reply", "calls", "text", "place", "order"]

NO_WORDS = frozenset({"(tool use)", "(no assistant text)"})
"""What converters of Harbor write for a reply without a text, also where there is no call, as for one that failed."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A call on the wire, or several that one step sums up, and the step or steps that tell it."""

    turns: tuple[Turn, ...]
    steps: tuple[Step, ...]
    by: By

    @property
    def certain(self) -> bool:
        """Whether there is no other way to put them side by side."""
        return self.by != "order"

    @property
    def named(self) -> bool:
        """Whether both sides name the same."""
        return self.by not in ("place", "order")


@dataclass(frozen=True, slots=True)
class Alignment:
    """The trajectory beside the wire."""

    pairs: tuple[Pair, ...]
    unlogged: tuple[Turn, ...]
    """The agent's turns that no step tells."""
    uncaptured: tuple[Step, ...]
    """Steps that stand for model calls, of which none was captured."""
    aside: tuple[Turn, ...]
    """Calls other than the agent's turns (side calls, failed calls, replies that were not waited for, the proxy's own stop replies) that a
    step tells."""

    @property
    def ambiguous(self) -> tuple[Step, ...]:
        """The steps of which only the order says which call they are."""
        return tuple(step for pair in self.pairs if not pair.certain for step in pair.steps)


@once_per_evidence
def align(evidence: Evidence) -> Alignment:
    """Put every step that stands for model calls beside its call."""
    trace = trace_of(evidence)
    steps = [] if trace is None else [step for step in trace.steps if step.calls_model]
    return _Aligner(evidence, steps).result()


def reply_ids(call: Call) -> frozenset[str]:
    """The ids that the reply itself has, on both sides of the proxy."""
    found: set[str] = set()
    for message in (call.replied, call.delivered):
        parts = chunks(message) if is_stream(message) else filter(None, [document(message)])
        for part in parts:
            inside = [part, part.get("response"), part.get("message")]
            named = [each.get(name) for each in inside if isinstance(each, dict) for name in ("id", "responseId")]
            if texts := {name for name in named if isinstance(name, str) and name}:
                found |= texts
                break  # a stream names it in its first event, and there may be thousands
    return frozenset(found)


def plain(text: str) -> str:
    """A text without its spaces' particulars, as many logs strip them."""
    return " ".join(text.split())


class _Aligner:
    def __init__(self, evidence: Evidence, steps: list[Step]) -> None:
        self.steps = steps
        self.agent = list(conversation(evidence))
        known = {turn.call.index for turn in self.agent}
        complete = {turn.call.index for turn in turns(evidence)}
        self.others = [turn for turn in turns(evidence) if turn.call.index not in known]
        self.others += [turn for turn in asked(evidence) if turn.call.index not in complete]
        self.others += [_stopped(call) for call in evidence.calls if call.outcome == "budget_stop" and call.delivery != "client_gone"]
        self.found: dict[int, tuple[tuple[Turn, ...], By]] = {}
        """By the place of the step in ``steps``."""

    def result(self) -> Alignment:
        everything = [*self.agent, *self.others]
        self._by_name("reply", [(turn, reply_ids(turn.call)) for turn in everything], lambda step: step.names)
        ids = [(turn, frozenset(call.id for call in turn.harness.calls if isinstance(call.id, str) and call.id)) for turn in everything]
        self._by_name("calls", ids, _call_ids)
        self._by_what_is_said(everything, [number for number, _ in self._left()])
        for run, between in self._gaps():  # a title and a summary may be the same few words
            self._by_what_is_said([turn for turn in everything if turn.call.index in between], run)
        self._by_place()
        self._failures()
        self._by_place()
        told = {turn.call.index for turns_of, _ in self.found.values() for turn in turns_of}
        return Alignment(
            pairs=tuple(self._pairs()),
            unlogged=tuple(turn for turn in self.agent if turn.call.index not in told),
            uncaptured=tuple(step for number, step in enumerate(self.steps) if number not in self.found),
            aside=tuple(turn for turn in self.others if turn.call.index in told),
        )

    def _pairs(self) -> Iterable[Pair]:
        groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for number, (turns_of, _) in self.found.items():
            groups[tuple(turn.call.index for turn in turns_of)].append(number)
        for numbers in groups.values():
            turns_of, by = self.found[min(numbers)]
            yield Pair(turns_of, tuple(self.steps[number] for number in sorted(numbers)), by)

    def _by_name(self, by: By, named: Iterable[tuple[Turn, frozenset[str]]], names_of: Any) -> None:
        """Steps that name what exactly one call has."""
        owners: dict[str, list[Turn]] = defaultdict(list)
        for turn, names in named:
            for name in names:
                owners[name].append(turn)
        for number, step in self._left():
            hits = [owner[0] for name in names_of(step) if (owner := _owner(owners, name)) and len(owner) == 1]
            if hits and all(hit is hits[0] for hit in hits):
                self.found[number] = ((hits[0],), by)

    def _by_what_is_said(self, among: list[Turn], run: Sequence[int]) -> None:
        """What exists once on either side."""
        self._once("calls", among, run, _calls_made, _calls_told)
        self._once("text", among, run, lambda turn: plain(_text(turn)), lambda step: plain(step.text))

    def _once(self, by: By, among: list[Turn], run: Sequence[int], said: Callable[[Turn], str], told: Callable[[Step], str]) -> None:
        owners: dict[str, list[Turn]] = defaultdict(list)
        for turn in self._free(among):
            owners[said(turn)].append(turn)
        left = {number: told(self.steps[number]) for number in run if number not in self.found}
        times = Counter(left.values())
        for number, words in left.items():
            if words and times[words] == 1 and len(owners[words]) == 1:
                self.found[number] = ((owners[words][0],), by)

    def _by_place(self) -> None:
        for run, between in self._gaps():
            self._put(run, [turn for turn in self._free(self.agent) if turn.call.index in between])

    def _gaps(self) -> Iterator[tuple[list[int], range]]:
        """What is left between two neighbours that are known, where a single document has something left: the steps, and the indices of the
        calls between them."""
        documents = {step.document for _, step in self._left()}
        if len(documents) != 1:
            return
        told = documents.pop()
        numbers = [number for number, step in enumerate(self.steps) if step.document is told]
        anchors = [self.found[number][0][-1].call.index for number in numbers if number in self.found]
        if anchors != sorted(anchors):
            return  # the two sides disagree about the order, so a place says nothing
        run: list[int] = []
        lower = 0
        for number in (*numbers, None):
            if number is not None and number not in self.found:
                run.append(number)
                continue
            yield run, range(lower, sys.maxsize if number is None else self.found[number][0][0].call.index)
            run = []
            lower = lower if number is None else self.found[number][0][-1].call.index + 1

    def _put(self, run: Sequence[int], free: Sequence[Turn]) -> None:
        weights = [self.steps[number].count or 1 for number in run]
        if not run or sum(weights) != len(free):
            return
        begin = 0
        for number, weight in zip(run, weights, strict=True):
            self.found[number] = (tuple(free[begin : begin + weight]), "place" if len(run) == 1 else "order")
            begin += weight

    def _failures(self) -> None:
        """A log that tells an error as a turn without words, calls or tokens."""
        wordless = [number for number, step in self._left() if _wordless(step)]
        failed = self._free([turn for turn in self.others if turn.call.outcome not in ("complete", "budget_stop")])
        for number, turn in zip(wordless, failed, strict=False):
            self.found[number] = ((turn,), "place")

    def _left(self) -> list[tuple[int, Step]]:
        return [(number, step) for number, step in enumerate(self.steps) if number not in self.found]

    def _free(self, among: list[Turn]) -> list[Turn]:
        taken = {turn.call.index for turns_of, _ in self.found.values() for turn in turns_of}
        return sorted((turn for turn in among if turn.call.index not in taken), key=lambda turn: turn.call.index)


def _stopped(call: Call) -> Turn:
    """A reply of the proxy itself: the engine was not asked."""
    reader = READERS.get(call.dialect)
    return Turn(call, {}, {}, engine=Reply(), harness=Reply() if reader is None else reader.reply(call))


def _wordless(step: Step) -> bool:
    counts = (step.metrics.get("prompt_tokens"), step.metrics.get("completion_tokens"))
    said = plain(step.text)
    return (not said or said in NO_WORDS) and not step.calls and step.count in (None, 1) and not any(counts)


def _call_ids(step: Step) -> frozenset[str]:
    return frozenset(call["tool_call_id"] for call in step.calls if isinstance(call.get("tool_call_id"), str) and call["tool_call_id"])


def _calls_made(turn: Turn) -> str:
    return _named((call.name, parse_json(call.arguments)) for call in turn.harness.calls)


def _calls_told(step: Step) -> str:
    return _named((call.get("function_name"), call.get("arguments")) for call in step.calls)


def _named(calls: Iterable[tuple[Any, Any]]) -> str:
    """Tool calls without their ids, as one text; empty where there are none, or one is without arguments that can be read."""
    named = list(calls)
    return json.dumps(named, sort_keys=True) if named and all(isinstance(arguments, dict) for _, arguments in named) else ""


def _owner(owners: dict[str, list[Turn]], name: str) -> list[Turn] | None:
    """Some logs put the function's name before the id."""
    return owners.get(name) or owners.get(name.rpartition("__")[2])


def _text(turn: Turn) -> str:
    return "".join(choice.text for choice in turn.harness.choices.values())
