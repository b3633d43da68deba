"""What only one vendor's dialect says: the grammar of its events, where results must stand, and what was signed.

That a translation drops, moves and invents nothing is judged by the requirements of all dialects, whose readers are in ``dialects``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from pytest_harness.contract.chat_wire import Turn, asked, document, line, short
from pytest_harness.contract.dialects import gemini_events, messages, messages_events, pairs, responses, responses_events
from pytest_harness.contract.dialects.gemini import chunks
from pytest_harness.contract.dialects.neutral import Json, is_document
from pytest_harness.contract.memo import once_per_evidence
from pytest_harness.contract.model import Fault, NotExercised, check
from pytest_harness.contract.tokens import answered
from pytest_harness.evidence.model import Call, Dialect, Evidence, Message


@check("STR-012")
def messages_events_are_the_vendors(evidence: Evidence) -> Iterator[Fault]:
    """Of every streamed reply."""
    return _events(evidence, "messages", messages_events.broken_rules)


@check("STR-013")
def responses_events_are_the_vendors(evidence: Evidence) -> Iterator[Fault]:
    """Of every streamed reply."""
    return _events(evidence, "responses", responses_events.broken_rules)


@check("STR-014")
def gemini_parts_are_the_vendors(evidence: Evidence) -> Iterator[Fault]:
    """Of every reply: a whole one is a stream of one part."""
    return _events(evidence, "gemini", gemini_events.broken_rules)


@check("PAR-014")
def messages_results_stand_together(evidence: Evidence) -> Iterator[Fault]:
    """In every request, also in those that failed."""
    return _requests(evidence, "messages", "tool_result", pairs.messages_results)


@check("PAR-015")
def responses_items_stand_with_their_own(evidence: Evidence) -> Iterator[Fault]:
    """In every request, also in those that failed."""
    return _requests(evidence, "responses", "_output", pairs.responses_items)


@check("PAR-016")
def gemini_responses_are_as_many_as_calls(evidence: Evidence) -> Iterator[Fault]:
    """In every request, also in those that failed."""
    return _requests(evidence, "gemini", "unctionResponse", pairs.gemini_parts)


@check("DIA-001")
def what_was_signed_comes_back_as_it_was(evidence: Evidence) -> Iterator[Fault]:
    """A call under the signature that was given with it, a thought or an item as it was signed."""
    compared = False
    given: dict[object, str] = {}
    signed: dict[str, object] = {}
    for call, told, answer in _signed(evidence):
        where = f"{line(call)}, received.body"
        for signature, on in told:
            if on in given:
                compared = True
                if signature != given[on]:
                    yield Fault(call.index, f"{short(given[on])}, given with {on}", short(signature), where)
            elif signature in signed:
                compared = True
                if on != signed[signature]:
                    yield Fault(call.index, f"{short(repr(signed[signature]))}, as it was signed", short(repr(on)), where)
        for signature, on in answer:
            if on[0] == "call":
                given[on] = signature
            else:
                signed[signature] = on
    if not compared:
        raise NotExercised("no request holds anything that was signed")


@check("DIA-002")
def what_was_signed_comes_back(evidence: Evidence) -> Iterator[Fault]:
    """With the calls of its turn."""
    compared = False
    sealed: dict[object, str] = {}
    for call, told, answer in _signed(evidence):
        kept = {signature for signature, _ in told}
        for name in dict.fromkeys(filter(None, pairs.call_names(document(call.received)))):
            if (signature := sealed.get(name)) is not None:
                compared = True
                if signature not in kept:
                    yield Fault(call.index, f"the signature of the turn of call {name}", "none, or another", f"{line(call)}, received.body")
        if answer:
            sealed |= dict.fromkeys(pairs.call_names(_given(call)), answer[0][0])
    if not compared:
        raise NotExercised("no request repeats a turn that was signed")


def _events(evidence: Evidence, dialect: Dialect, rules: Callable[[Message | None], Iterable[tuple[str, str]]]) -> Iterator[Fault]:
    replies = [turn.call for turn in answered(evidence) if turn.call.dialect == dialect]
    streamed = [call for call in replies if dialect == "gemini" or not is_document(call.delivered)]
    if not streamed:
        raise NotExercised(f"no reply was streamed in the dialect {dialect}")
    for call in streamed:
        for expected, seen in rules(call.delivered):
            yield Fault(call.index, expected, seen, f"{line(call)}, delivered.body")


def _requests(evidence: Evidence, dialect: Dialect, mark: str, rules: Callable[[Json], Iterable[tuple[str, str, str]]]) -> Iterator[Fault]:
    calls = [turn.call for turn in asked(evidence) if turn.call.dialect == dialect and mark in turn.call.received.body]
    if not calls:
        raise NotExercised("no request has the result of a call in its history")
    for call in calls:
        for where, expected, seen in rules(document(call.received) or {}):
            yield Fault(call.index, expected, seen, f"{line(call)}, received.body {where}")


def _told(evidence: Evidence) -> list[Turn]:
    found = [turn for turn in answered(evidence) if turn.call.dialect != "chat"]
    if not found:
        raise NotExercised("no call in a dialect that signs anything was answered")
    return found


@once_per_evidence
def _signed(evidence: Evidence) -> list[tuple[Call, list[pairs.Signed], list[pairs.Signed]]]:
    """Of each call what is signed in the request, and in what was delivered."""
    calls = [turn.call for turn in _told(evidence)]
    return [(call, list(pairs.signed(document(call.received))), list(pairs.signed(_given(call)))) for call in calls]


def _given(call: Call) -> list[Json]:
    """What was delivered, as far as it came in pieces put together."""
    match call.dialect:
        case "messages":
            return messages.blocks(call.delivered)
        case "responses":
            return responses.items(call.delivered)
    return [chunk.data or {} for chunk in chunks(call.delivered)]
