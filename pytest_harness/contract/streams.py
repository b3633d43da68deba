"""STR: the harness gets what the engine said, in the form that it asked for, and nothing of the capture."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from pytest_harness.contract.chat_wire import (
    DONE,
    Choice,
    Turn,
    asked,
    choices_of,
    chunks,
    conversation,
    document,
    events,
    first_difference,
    identical,
    is_stream,
    line,
    parse_json,
    short,
)
from pytest_harness.contract.dialects.matching import cached_tokens
from pytest_harness.contract.dialects.traces import traces
from pytest_harness.contract.model import Fault, NotExercised, Unverifiable, check
from pytest_harness.contract.tokens import answered
from pytest_harness.evidence.model import Evidence

BROKEN = frozenset({"upstream_error", "malformed_upstream", "cut_upstream"})
"""How a stream that had begun can come to an early end."""

PATIENCE_SEC = 60
"""So long some clients and what stands before them wait for a byte; many wait longer."""


@check("STR-001")
def it_streams_as_declared(evidence: Evidence) -> Iterator[Fault]:
    """What was asked for and what came. Some harnesses ask for a turn as a whole when its stream broke off, and that is no other way of
    asking."""
    declared = evidence.manifest.seam.streams
    agent = conversation(evidence)
    if not agent:
        raise NotExercised("no model call was answered")
    instead = _instead_of_a_stream(evidence)
    for turn in agent:
        if turn.call.index in instead:
            continue
        streamed = turn.request.get("stream") is True
        if streamed != declared:
            yield Fault(turn.call.index, _mode(declared), _mode(streamed), f"{line(turn.call)}, received.body stream")
        elif is_stream(turn.call.delivered) != declared:
            yield Fault(turn.call.index, _mode(declared), _mode(not declared), f"{line(turn.call)}, delivered.body")


@check("STR-002")
def the_reply_is_delivered_whole(evidence: Evidence) -> Iterator[Fault]:
    """Text, reasoning and finish reason; the calls are PAR-007's."""
    for turn in answered(evidence):
        for index in sorted(turn.engine.choices.keys() | turn.harness.choices.keys()):
            engine, harness = (reply.choices.get(index, Choice()) for reply in (turn.engine, turn.harness))
            for name in ("text", "reasoning", "finish_reason"):
                said, got = getattr(engine, name), getattr(harness, name)
                if said != got:
                    yield Fault(
                        turn.call.index,
                        f"{name} {short(repr(said))}",
                        short(repr(got)),
                        f"{line(turn.call)}, delivered.body choices[{index}]",
                    )


@check("STR-003")
def capture_leaves_no_trace(evidence: Evidence) -> Iterator[Fault]:
    """A field that is null is what an engine sends that was not asked for it."""
    for turn in answered(evidence):
        unasked = [] if turn.request.get("return_token_ids") else ["prompt_token_ids", "token_ids"]
        unasked += [] if turn.request.get("logprobs") else ["logprobs"]
        if turn.call.dialect == "chat":
            places = [place for part in _delivered(turn) for place in (part, *(choice for _, choice in choices_of(part)))]
            found = {name for place in places for name in unasked if place.get(name) is not None}
        else:
            found = traces(turn.call) & {*unasked}
        for name in sorted(found):
            yield Fault(
                turn.call.index, f"no {name}, as the harness did not ask for it", "it is there", f"{line(turn.call)}, delivered.body"
            )


@check("STR-004")
def the_finish_reason_comes_last(evidence: Evidence) -> Iterator[Fault]:
    """For each choice on its own."""
    for turn in _streamed(evidence):
        finished: defaultdict[Any, int] = defaultdict(int)
        late = set()
        for part in chunks(turn.call.delivered):
            for index, choice in choices_of(part):
                delta = choice.get("delta")
                if finished[index] and isinstance(delta, dict) and (delta.get("content") or delta.get("tool_calls")):
                    late.add(index)
                finished[index] += choice.get("finish_reason") is not None
        where = f"{line(turn.call)}, delivered.body"
        for index in sorted(late):
            yield Fault(turn.call.index, "nothing after the finish reason", f"more of choice {index}", where)
        for index, times in finished.items():
            if times != 1:
                yield Fault(turn.call.index, f"one finish reason for choice {index}", str(times), where)


@check("STR-005")
def the_stream_ends_once(evidence: Evidence) -> Iterator[Fault]:
    """And every event before the end is one JSON object."""
    for turn in _streamed(evidence):
        data = list(events(turn.call.delivered))
        where = f"{line(turn.call)}, delivered.body"
        if data.count(DONE) != 1 or data[-1] != DONE:
            seen = f"{data.count(DONE)} of them, and {short(data[-1]) if data else 'nothing'} as the last event"
            yield Fault(turn.call.index, f"one {DONE} as the last event", seen, where)
        for number, event in enumerate(data):
            if event != DONE and not isinstance(parse_json(event), dict):
                yield Fault(turn.call.index, "a JSON object", short(event), f"{where} event {number}")


@check("STR-006")
def call_fragments_are_in_order(evidence: Evidence) -> Iterator[Fault]:
    """As every client appends by index."""
    exercised = False
    for turn in _streamed(evidence):
        begun: defaultdict[Any, list[Any]] = defaultdict(list)
        where = f"{line(turn.call)}, delivered.body tool_calls"
        for choice_index, fragment in _fragments(turn):
            exercised = True
            indices, index = begun[choice_index], fragment.get("index")
            function = fragment.get("function")
            function = function if isinstance(function, dict) else {}
            told = {name: value for name, value in (("id", fragment.get("id")), ("name", function.get("name"))) if value is not None}
            if index in indices:
                if repeated := [name for name, value in told.items() if value]:
                    yield Fault(
                        turn.call.index, f"{' and '.join(repeated)} of call {index} in its first fragment alone", "once more", where
                    )
                continue
            if type(index) is not int or index != len(indices):
                yield Fault(turn.call.index, f"index {len(indices)}", repr(index), where)
            if len(told) != 2:
                yield Fault(turn.call.index, f"id and name in the first fragment of call {index}", f"{list(told)}", where)
            indices.append(index)
    if not exercised:
        raise NotExercised("no tool call was streamed")


@check("STR-007")
def usage_is_delivered_as_the_engine_gave_it(evidence: Evidence) -> Iterator[Fault]:
    """A stream has it only if the harness asked."""
    compared = False
    for turn in answered(evidence):
        said, got = turn.engine.usage, turn.harness.usage
        asked = not turn.request.get("stream") or _asks_for_usage(turn)
        if said is None or (got is None and not asked):
            continue
        compared = True
        for name in ("prompt_tokens", "completion_tokens"):
            if not identical(said.get(name), (got or {}).get(name)):
                seen = "no usage" if got is None else repr(got.get(name))
                yield Fault(
                    turn.call.index, f"{said.get(name)}, as the engine said", seen, f"{line(turn.call)}, delivered.body usage.{name}"
                )
        cached = cached_tokens(said)
        if turn.call.dialect != "chat" and cached is not None and not identical(cached, cached_tokens(got)):  # of chat it is USE-003's
            where = f"{line(turn.call)}, delivered.body usage"
            yield Fault(turn.call.index, f"{cached} cached tokens, as the engine said", repr(cached_tokens(got)), where)
    if not compared:
        raise NotExercised("the engine gave no usage that the harness was to get")


@check("STR-008")
def a_stream_is_one_reply(evidence: Evidence) -> Iterator[Fault]:
    """By the id and the model of its events; an empty name is none."""
    for turn in _streamed(evidence):
        for name in ("id", "model"):
            named = list(dict.fromkeys(repr(part[name]) for part in chunks(turn.call.delivered) if part.get(name)))
            if len(named) > 1:
                yield Fault(turn.call.index, f"one {name} in all events", ", ".join(named[:3]), f"{line(turn.call)}, delivered.body {name}")


@check("STR-009")
def a_stream_has_usage_only_if_asked(evidence: Evidence) -> Iterator[Fault]:
    """The capture always asks for it."""
    unasked = [turn for turn in _streamed(evidence) if not _asks_for_usage(turn)]
    if not unasked:
        raise NotExercised("every stream was asked for with its usage")
    for turn in unasked:
        if turn.harness.usage is not None:
            yield Fault(turn.call.index, "no usage, as the harness did not ask for it", "it is there", f"{line(turn.call)}, delivered.body")


@check("STR-010")
def the_content_type_is_that_of_the_bytes(evidence: Evidence) -> Iterator[Fault]:
    """Clients choose their reader by it."""
    for turn in answered(evidence):
        delivered = turn.call.delivered
        if delivered is None:
            continue
        kind = delivered.headers.get("content-type", "").partition(";")[0].strip().lower()
        expected = "text/event-stream" if is_stream(delivered) else "application/json"
        if kind != expected:
            yield Fault(turn.call.index, expected, kind or "none", f"{line(turn.call)}, delivered.headers content-type")


@check("STR-011")
def logprobs_that_were_asked_for_are_delivered(evidence: Evidence) -> Iterator[Fault]:
    """As the engine gave them, with their alternatives."""
    asking = [turn for turn in answered(evidence) if turn.request.get("logprobs") is True]
    if not asking:
        raise NotExercised("the harness asked for no logprobs")
    for turn in asking:
        for index, choice in turn.engine.choices.items():
            got = turn.harness.choices.get(index, Choice())
            where = f"{line(turn.call)}, delivered.body choices[{index}].logprobs"
            if not identical(choice.logprobs, got.logprobs):
                seen = f"sent against delivered: {first_difference(choice.logprobs, got.logprobs)}"
                yield Fault(turn.call.index, "the logprobs that the engine sent", seen, where)
            elif not identical(choice.top_logprobs, got.top_logprobs):
                yield Fault(turn.call.index, "the alternatives that the engine sent", "others", where)


@check("STR-015")
def no_harness_waits_in_silence(evidence: Evidence) -> Iterator[Fault]:
    """For the first byte of a stream: a comment or white space in front of it was sent to keep the connection."""
    timed = [(turn, turn.call.times.first_byte) for turn in _streamed(evidence)]
    if all(first is None for _, first in timed):
        raise Unverifiable("nobody recorded when the first byte of a stream came")
    for turn, first in timed:
        body = turn.call.delivered.body if turn.call.delivered is not None else ""
        waited = 0.0 if first is None else first - turn.call.times.received
        if waited > PATIENCE_SEC and not body.startswith((":", "\n", "\r", " ")):
            where = f"{line(turn.call)}, times.first_byte"
            yield Fault(turn.call.index, f"a byte within {PATIENCE_SEC} s, be it to keep the connection", f"none for {waited:.0f} s", where)


def _asks_for_usage(turn: Turn) -> bool:
    options = turn.request.get("stream_options")
    return isinstance(options, dict) and options.get("include_usage") is True


def _streamed(evidence: Evidence) -> list[Turn]:
    found = [turn for turn in answered(evidence) if turn.request.get("stream") is True]
    if not found:
        raise NotExercised("no call was streamed")
    return found


def _delivered(turn: Turn) -> Iterator[dict[str, Any]]:
    if is_stream(turn.call.delivered):
        yield from chunks(turn.call.delivered)
    else:
        yield document(turn.call.delivered) or {}


def _fragments(turn: Turn) -> Iterator[tuple[Any, dict[str, Any]]]:
    for part in chunks(turn.call.delivered):
        for index, choice in choices_of(part):
            delta = choice.get("delta")
            fragments = delta.get("tool_calls") if isinstance(delta, dict) else None
            for fragment in fragments if isinstance(fragments, list) else ():
                if isinstance(fragment, dict):
                    yield index, fragment


def _instead_of_a_stream(evidence: Evidence) -> frozenset[int]:
    """The whole replies that were asked for right after a stream of the same conversation broke off."""
    found = set()
    for before, turn in pairwise(asked(evidence)):
        broke_off = before.request.get("stream") is True and before.call.outcome in BROKEN and is_stream(before.call.delivered)
        if broke_off and turn.request.get("stream") is not True and identical(before.messages, turn.messages):
            found.add(turn.call.index)
    return frozenset(found)


def _mode(streamed: bool) -> str:
    return "streamed" if streamed else "not streamed"
