"""ERR: what fails is told as it failed, is recorded as a failure, and is answered by the harness as such."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from pytest_harness.contract.chat_wire import DONE, Turn, asked, chunks, document, events, is_stream, line, parse_json, plain_text, short
from pytest_harness.contract.model import Fault, NotExercised, check
from pytest_harness.contract.tokens import answered
from pytest_harness.evidence.model import Evidence, Message

FAILED = frozenset({"upstream_error", "malformed_upstream", "cut_upstream", "unreachable_upstream", "proxy_error"})
PASSING = frozenset({408, 409, 429})
"""With every 5xx: worth trying again."""
FINAL = frozenset({400, 401, 403, 404, 413, 422})
"""The same request will be refused again."""
TELLING = 16
"""A shorter message may stand in any text by chance."""

_OVERFLOW = re.compile(r"context (length|window)|maximum context|too long|too many (input )?tokens|max_model_len", re.IGNORECASE)


@check("ERR-001")
def an_error_keeps_its_status(evidence: Evidence) -> Iterator[Fault]:
    """Of a 5xx the class is enough. A stream that has begun can only tell an error in an event."""
    for turn, status in _refused(evidence):
        told = turn.call.delivered.status if turn.call.delivered else None
        if told is None or (told == 200 and is_stream(turn.call.delivered)):
            continue
        if told != status and not (told >= 500 and status >= 500):
            yield Fault(turn.call.index, f"status {status}, as the engine said", str(told), f"{line(turn.call)}, delivered.status")


@check("ERR-002")
def an_error_keeps_its_words(evidence: Evidence) -> Iterator[Fault]:
    """Somewhere in what was delivered, in whatever shape the dialect has for it."""
    compared = False
    for turn, _ in _refused(evidence):
        said = message_of(turn.call.replied)
        if said is None or turn.call.delivered is None:
            continue
        compared = True
        if not any(said in text for text in _texts(turn.call.delivered)):
            yield Fault(turn.call.index, short(said), short(turn.call.delivered.body), f"{line(turn.call)}, delivered.body")
    if not compared:
        raise NotExercised("no error of the engine had a message")


@check("ERR-003")
def when_to_try_again_is_passed_on(evidence: Evidence) -> Iterator[Fault]:
    """The header as it came."""
    compared = False
    for turn, _ in _refused(evidence):
        wait = turn.call.replied.headers.get("retry-after") if turn.call.replied else None
        if wait is None or turn.call.delivered is None or turn.call.delivered.status == 200:
            continue
        compared = True
        told = turn.call.delivered.headers.get("retry-after")
        if told != wait:
            yield Fault(turn.call.index, f"retry-after {wait}", repr(told), f"{line(turn.call)}, delivered.headers")
    if not compared:
        raise NotExercised("no error of the engine said when to try again")


@check("ERR-004")
def a_failure_is_told_as_an_error(evidence: Evidence) -> Iterator[Fault]:
    """By the status or by an event; where nothing was delivered, the broken connection tells it."""
    for turn in _failed(evidence):
        delivered = turn.call.delivered
        if delivered is None or turn.call.delivery == "client_gone":
            continue
        if (delivered.status or 0) < 400 and not any(part.get("error") for part in chunks(delivered)):
            finished = any(choice.finish_reason for choice in turn.harness.choices.values())
            seen = f"status {delivered.status} and {'a reply that is finished' if finished else 'no error'}"
            yield Fault(turn.call.index, f"an error, as the call ended in {turn.call.outcome}", seen, f"{line(turn.call)}, delivered")


@check("ERR-005")
def only_a_whole_reply_is_complete(evidence: Evidence) -> Iterator[Fault]:
    """By its status, its end mark if it was streamed, and its choices."""
    for turn in answered(evidence):
        replied = turn.call.replied
        where = f"{line(turn.call)}, replied"
        if replied is None or replied.status != 200:
            yield Fault(turn.call.index, "status 200, as the call is complete", repr(replied and replied.status), f"{where}.status")
        elif is_stream(replied) and DONE not in events(replied):
            yield Fault(turn.call.index, f"a stream that ends with {DONE}, as the call is complete", "none", f"{where}.body")
        elif not turn.engine.choices:
            yield Fault(turn.call.index, "a choice, as the call is complete", "none", f"{where}.body")


@check("ERR-006")
def an_error_is_nothing_the_model_said(evidence: Evidence) -> Iterator[Fault]:
    """In any later request, unless the model itself repeated the words."""
    errors = {said: turn for turn in _failed(evidence) if (said := message_of(turn.call.replied)) and len(said) >= TELLING}
    if not errors:
        raise NotExercised("no error of the engine had a message that can be told from other text")
    spoken = {choice.text.strip() for turn in asked(evidence) for choice in turn.harness.choices.values()}
    for turn in asked(evidence):
        for position, message in enumerate(turn.messages):
            text = plain_text(message) if message.get("role") == "assistant" else ""
            for said, failed in errors.items():
                if said in text and text.strip() not in spoken and failed.call.index < turn.call.index:
                    where = f"{line(turn.call)}, received.body messages[{position}]"
                    expected = f"no turn of the assistant with the error of call {failed.call.index}"
                    yield Fault(turn.call.index, expected, short(text), where)


@check("ERR-007")
def after_an_overflow_less_is_asked(evidence: Evidence) -> Iterator[Fault]:
    """By the agent, if it asks again at all."""
    overflows = 0
    for before, after in _followed(evidence):
        said = message_of(before.call.replied)
        status = before.call.replied.status if before.call.replied else None
        if before.call.outcome != "upstream_error" or status not in {400, 413} or said is None or not _OVERFLOW.search(said):
            continue
        overflows += 1
        if after is not None and _size(after) >= _size(before):
            expected = f"fewer than the {_size(before)} characters of call {before.call.index}, which overflowed the context"
            yield Fault(after.call.index, expected, str(_size(after)), f"{line(after.call)}, received.body messages")
    if not overflows:
        raise NotExercised("no prompt overflowed the context")


@check("ERR-008")
def what_was_refused_for_good_is_not_sent_again(evidence: Evidence) -> Iterator[Fault]:
    """The same JSON value."""
    refused: dict[str, Turn] = {}
    for turn in asked(evidence):
        body = json.dumps(document(turn.call.received), sort_keys=True)
        before = refused.get(body)
        if before is not None:
            expected = f"another request than that of call {before.call.index}, which was refused"
            yield Fault(turn.call.index, expected, "the same", f"{line(turn.call)}, received.body")
        if turn.call.outcome == "upstream_error" and turn.call.replied and turn.call.replied.status in FINAL:
            refused.setdefault(body, turn)
    if not refused:
        raise NotExercised("the engine refused no request for good")


@check("ERR-009")
def a_passing_error_is_not_the_end(evidence: Evidence) -> Iterator[Fault]:
    """The last call of the agent was not one that was worth trying again."""
    failures = [(before, after) for before, after in _followed(evidence) if _passing(before)]
    if not failures:
        raise NotExercised("no call failed for a passing reason")
    for before, after in failures:
        if after is None:
            seen = f"the last: {message_of(before.call.replied) or before.call.error}"
            yield Fault(before.call.index, "a call after one that failed for a passing reason", short(seen), line(before.call))


def message_of(message: Message | None) -> str | None:
    """What an error of the engine says in words, None where it has none."""
    parts = [document(message), *(chunks(message) if is_stream(message) else ())]
    for part in filter(None, parts):
        error = part.get("error", part.get("detail", part.get("message")))
        said = error.get("message") if isinstance(error, dict) else error
        if isinstance(said, str) and said.strip():
            return said.strip()
    return None


def _failed(evidence: Evidence) -> list[Turn]:
    found = [turn for turn in asked(evidence) if turn.call.outcome in FAILED]
    if not found:
        raise NotExercised("no call failed")
    return found


def _refused(evidence: Evidence) -> list[tuple[Turn, int]]:
    """The calls that the engine answered with an error, and its status."""
    found = [
        (turn, turn.call.replied.status)
        for turn in asked(evidence)
        if turn.call.outcome == "upstream_error" and turn.call.replied and (turn.call.replied.status or 0) >= 400
    ]
    if not found:
        raise NotExercised("the engine answered no call with an error")
    return [(turn, status) for turn, status in found if status is not None]


def _followed(evidence: Evidence) -> list[tuple[Turn, Turn | None]]:
    """Each call of the agent with its next one."""
    everything = asked(evidence)
    agent = [turn for turn in everything if turn.has_tools] or list(everything)
    return [*pairwise(agent), *((last, None) for last in agent[-1:])]


def _passing(turn: Turn) -> bool:
    status = turn.call.replied.status if turn.call.replied else None
    if turn.call.outcome == "upstream_error":
        return status is not None and (status in PASSING or status >= 500)
    return turn.call.outcome in {"malformed_upstream", "cut_upstream", "unreachable_upstream"}


def _size(turn: Turn) -> int:
    return sum(len(repr(message)) for message in turn.messages)


def _texts(message: Message) -> Iterator[str]:
    """Every text in what was delivered, and the bytes themselves."""
    yield message.body
    rest: list[Any] = [document(message), *map(parse_json, events(message))]
    while rest:
        value = rest.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict | list):
            rest.extend(value.values() if isinstance(value, dict) else value)
