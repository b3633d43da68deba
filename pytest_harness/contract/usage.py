"""USE: counts add up, every choice that was asked for is there, and reasoning comes back as it was."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pytest_harness.contract.chat_wire import Choice, Turn, identical, line, short
from pytest_harness.contract.model import Fault, NotExercised, check
from pytest_harness.contract.pairing import echoes
from pytest_harness.contract.tokens import answered
from pytest_harness.evidence.model import Evidence

PARTS = {
    "prompt_tokens": ("prompt_tokens_details", ("cached_tokens", "audio_tokens")),
    "completion_tokens": (
        "completion_tokens_details",
        ("reasoning_tokens", "audio_tokens", "accepted_prediction_tokens", "rejected_prediction_tokens"),
    ),
}
"""The counts that are part of another count, and where usage has them."""

UNREPLAYABLE = frozenset({"image_url", "input_image", "image", "input_audio", "audio_url", "video_url", "file", "input_file"})
"""Content parts of which the prompt's ids hold only places."""


@check("USE-001")
def the_total_is_the_sum(evidence: Evidence) -> Iterator[Fault]:
    """Of prompt and completion, as the interface says."""
    for turn, usage in _reported(evidence):
        prompt, completion, total = (usage.get(name) for name in ("prompt_tokens", "completion_tokens", "total_tokens"))
        if type(prompt) is int and type(completion) is int and total is not None and not identical(total, prompt + completion):
            yield Fault(turn.call.index, str(prompt + completion), repr(total), f"{line(turn.call)}, replied.body usage.total_tokens")


@check("USE-002")
def a_part_is_no_more_than_the_whole(evidence: Evidence) -> Iterator[Fault]:
    """Cached tokens are tokens of the prompt, reasoning tokens tokens of the completion."""
    compared = False
    for turn, usage in _reported(evidence):
        for whole, (place, names) in PARTS.items():
            given = usage.get(place)
            details: dict[str, Any] = given if isinstance(given, dict) else {}
            for name in names:
                part, most = details.get(name), usage.get(whole)
                if part is None or type(most) is not int:
                    continue
                compared = True
                if type(part) is not int or not 0 <= part <= most:
                    where = f"{line(turn.call)}, replied.body usage.{place}.{name}"
                    yield Fault(turn.call.index, f"between 0 and {most}, the {whole}", repr(part), where)
    if not compared:
        raise NotExercised("the engine reported no part of its counts")


@check("USE-003")
def the_rest_of_usage_is_delivered(evidence: Evidence) -> Iterator[Fault]:
    """The two counts themselves are STR-007's; what is null is as good as absent."""
    compared = False
    for turn, usage in _reported(evidence):
        got = turn.harness.usage
        if got is None:
            continue
        compared = True
        said = _filled(usage)
        delivered = _filled(got)
        for name in sorted((said.keys() | delivered.keys()) - PARTS.keys()):
            if not identical(said.get(name), delivered.get(name)):
                where = f"{line(turn.call)}, delivered.body usage.{name}"
                yield Fault(turn.call.index, repr(said.get(name)), repr(delivered.get(name)), where)
    if not compared:
        raise NotExercised("the harness got no usage")


@check("USE-004")
def there_are_as_many_choices_as_were_asked(evidence: Evidence) -> Iterator[Fault]:
    """One, where the request names no number."""
    for turn in answered(evidence):
        asked, came = turn.forwarded.get("n"), len(turn.engine.choices)
        if came != (1 if asked is None else asked):
            yield Fault(
                turn.call.index, f"{1 if asked is None else asked!r} choices", str(came), f"{line(turn.call)}, replied.body choices"
            )


@check("USE-005")
def a_prompt_can_be_played_again_from_its_ids(evidence: Evidence) -> Iterator[Fault]:
    """One fault for each turn whose prompt holds more than text."""
    for turn in answered(evidence):
        messages = turn.forwarded.get("messages")
        for position, message in enumerate(messages if isinstance(messages, list) else ()):
            parts = message.get("content") if isinstance(message, dict) else None
            kinds = [part.get("type") for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
            if found := sorted({kind for kind in kinds if isinstance(kind, str)} & UNREPLAYABLE):
                where = f"{line(turn.call)}, forwarded.body messages[{position}].content"
                yield Fault(turn.call.index, "a prompt of text, which its ids hold whole", f"{' and '.join(found)} in it", where)
                break


@check("USE-006")
def reasoning_comes_back_as_it_was(evidence: Evidence) -> Iterator[Fault]:
    """Or not at all; white space around it is free."""
    kept = [(turn, after, position, message) for turn, after, position, message in _reasoned(evidence) if reasoning_of(message)]
    if not kept:
        raise NotExercised("no history holds the reasoning of a turn")
    for turn, after, position, message in kept:
        said, came_back = _said(turn), reasoning_of(message)
        if said != came_back:
            yield Fault(after.call.index, short(said), short(came_back), f"{line(after.call)}, received.body messages[{position}]")


@check("USE-007")
def reasoning_is_kept_always_or_never(evidence: Evidence) -> Iterator[Fault]:
    """In the request right after its turn: what is dropped later is the template's or the harness's compaction."""
    reasoned = _reasoned(evidence)
    if len(reasoned) < 2:
        raise NotExercised("fewer than two turns with reasoning were continued")
    first = bool(reasoning_of(reasoned[0][3]))
    for _, after, position, message in reasoned[1:]:
        if bool(reasoning_of(message)) != first:
            words = {True: "kept", False: "dropped"}
            where = f"{line(after.call)}, received.body messages[{position}]"
            yield Fault(after.call.index, f"reasoning {words[first]}, as in the turn before", words[not first], where)
            return


@check("USE-008")
def two_choices_are_two_samples(evidence: Evidence) -> Iterator[Fault]:
    """Unless they say the same."""
    several = [turn for turn in answered(evidence) if len(turn.engine.choices) > 1]
    if not several:
        raise NotExercised("no reply has several choices")
    for turn in several:
        first: dict[tuple[Any, ...], tuple[int, Choice]] = {}
        for index, choice in turn.engine.choices.items():
            if not choice.token_ids:
                continue
            key = tuple(map(repr, choice.token_ids))
            before, other = first.setdefault(key, (index, choice))
            if (choice.text, choice.reasoning, choice.calls) != (other.text, other.reasoning, other.calls):
                where = f"{line(turn.call)}, replied.body choices[{index}].token_ids"
                yield Fault(turn.call.index, f"other ids than those of choice {before}, which says something else", "the same", where)


def reasoning_of(message: dict[str, Any]) -> str:
    """The reasoning that a message of a request holds, under either name, without white space around it."""
    for name in ("reasoning_content", "reasoning"):
        if isinstance(message.get(name), str) and message[name].strip():
            return str(message[name].strip())
    return ""


def _reasoned(evidence: Evidence) -> list[tuple[Turn, Turn, int, dict[str, Any]]]:
    """Each turn of the agent with reasoning, the one that continued it, and its own message there."""
    found = [echo for echo in echoes(evidence) if _said(echo[0])]
    if not found:
        raise NotExercised("no turn with reasoning was continued")
    return found


def _said(turn: Turn) -> str:
    return turn.harness.choices.get(0, Choice()).reasoning.strip()


def _reported(evidence: Evidence) -> list[tuple[Turn, dict[str, Any]]]:
    found = [(turn, turn.engine.usage) for turn in answered(evidence) if turn.engine.usage]
    if not found:
        raise NotExercised("the engine reported no usage")
    return found


def _filled(value: Any) -> Any:
    return {name: _filled(entry) for name, entry in value.items() if entry is not None} if isinstance(value, dict) else value
