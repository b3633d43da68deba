"""What must hold between the calls of a conversation and their results, whoever keeps the conversation."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_harness.runtimes.adapter import Message
from pytest_harness.wire.outcome import Broken


def paired(messages: Sequence[Message], whose: str) -> None:
    """Raise Broken unless behind each message with calls stand exactly their results, in their order, and no result elsewhere."""
    place, expected = 0, list[str | None]()
    while True:
        results = results_behind(messages, place)
        seen = [result.call_id for result in results]
        if seen != expected:
            raise Broken(f"{whose}: behind message {place} the results of {expected}", f"results of {seen}")
        place += len(results)
        if place == len(messages):
            return
        expected = [call.id for call in messages[place].calls]
        place += 1


def results_behind(messages: Sequence[Message], number: int) -> tuple[Message, ...]:
    """The tool results from this place on, up to the next message of another kind."""
    end = number
    while end < len(messages) and messages[end].role == "tool":
        end += 1
    return tuple(messages[number:end])


def turns(messages: Sequence[Message]) -> tuple[Message, ...]:
    """What the model said."""
    return tuple(message for message in messages if message.role == "assistant")


def answers(messages: Sequence[Message], turn: int) -> tuple[Message, ...]:
    """The results behind this message of the model. Raises Broken if there is no such message."""
    places = [number for number, message in enumerate(messages) if message.role == "assistant"]
    if turn >= len(places):
        raise Broken(f"a conversation with {turn + 1} messages of the model", f"{len(places)}")
    return results_behind(messages, places[turn] + 1)
