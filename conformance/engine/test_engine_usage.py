"""USE: usage counts what was sampled, and of several choices each is told with its own ids."""

import math

import pytest

from pytest_harness.endpoint.chances import IMPOSSIBLE, all_alike
from pytest_harness.session.case_marks import requirement
from pytest_harness.session.wire_marks import both_modes
from pytest_harness.wire.outcome import NotExercised, expect, same

COUNT = 3


@requirement("USE-201")
@both_modes
@pytest.mark.parametrize("kind", ["text", "call", "cut"])
def test_usage_counts_the_ids(case, kind, streamed):
    fields = case.of("text" if kind == "cut" else kind).fields | ({"max_tokens": 3} if kind == "cut" else {})
    case.counted(case.ask(streamed=streamed, **fields))


@requirement("USE-202")
@both_modes
def test_the_total_is_the_sum(case, streamed):
    usage = case.ask(case.can.text(), streamed=streamed).usage
    expect(usage is not None, "usage", usage)
    same(usage.get("total_tokens"), usage.get("prompt_tokens", 0) + usage.get("completion_tokens", 0), "the total of usage")


def several(case, streamed, max_tokens=8, **fields):
    """Choices of one request. Raises NotExercised where the engine refuses to give several."""
    fields |= {"n": COUNT, "max_tokens": max_tokens}
    reply = case.asking.post(**fields)
    if 400 <= reply.status < 500:
        raise NotExercised(f"the engine refuses several choices (status {reply.status}): {reply.body.decode(errors='replace')}")
    return case.ask(streamed=streamed, **fields)


@requirement("USE-203")
@both_modes
def test_every_choice_is_told_with_its_own_ids(case, streamed):
    said = several(case, streamed, seed=5)
    same(len(said.choices), COUNT, "choices")
    case.counted(said)
    for number, choice in enumerate(said.choices):
        same(len(case.entries(choice)), len(case.ids(choice)), f"logprobs of choice {number}, one for each id")
        text = case.asking.decoded(case.ids(choice))
        words = [word for word in choice.content.split() if text is not None and word.isascii() and word.isalpha() and word not in text]
        same(words, [], f"words of choice {number} that its ids do not stand for")


@requirement("USE-204")
@both_modes
def test_choices_are_samples_of_their_own(case, streamed):
    case.samples()
    choices = several(case, streamed, max_tokens=40).choices  # so many that no first answer is likely enough to come again by chance
    if len(choices) < 2:
        raise NotExercised("the engine gave one choice alone")
    case.ids(choices[0])
    if any(choice.ids != choices[0].ids for choice in choices):
        return
    chance = all_alike(math.fsum(value for value in choices[0].logprobs if isinstance(value, int | float)), len(choices))
    if chance > IMPOSSIBLE:
        raise NotExercised("the model is so sure of its answer that samples of their own look alike")
    expect(False, "choices that are samples of their own", f"{len(choices)} times the ids {choices[0].ids}")
