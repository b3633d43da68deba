"""RUN: every announced tool call is answered or withdrawn, by the id it was announced with."""

import hypothesis
import pytest
from hypothesis import strategies as st

from pytest_harness.runtimes.adapter import Limits, ModelStep, Result, ToolCall
from pytest_harness.runtimes.pairing import turns
from pytest_harness.runtimes.script import call, say, seen_of
from pytest_harness.session.case_marks import requirement
from pytest_harness.wire.outcome import Broken, expect, same

EXAMPLES = hypothesis.settings(
    max_examples=60,
    deadline=None,
    database=None,
    derandomize=True,
    report_multiple_bugs=False,
    suppress_health_check=list(hypothesis.HealthCheck),
)
LIMIT = st.none() | st.integers(1, 4)
NAMES = st.sampled_from(["look", "write"])
LETTERS = st.text("abcdefgh", min_size=1, max_size=6)


@st.composite
def scripts(draw):
    """Steps whose calls have ids of their own, and which the environment may end at any of its results."""
    number = 0
    steps = []
    for _ in range(draw(st.integers(1, 4))):
        calls = []
        for _ in range(draw(st.integers(0, 4))):
            number += 1
            calls.append(call(f"id-{number}", draw(LETTERS), draw(NAMES)))
        steps.append(ModelStep(draw(st.sampled_from(["", "I look."])) if calls else "Done.", tuple(calls)))
    done_at = draw(st.none() | st.integers(0, 6))
    results = [] if done_at is None else [*[None] * done_at, Result("the end", reward=1.0, done=True)]
    return steps, results, Limits(draw(st.integers(1, 5)), draw(LIMIT), draw(LIMIT))


@requirement("RUN-001")
def test_any_script_under_any_limits_keeps_the_pairing(case):
    @EXAMPLES
    @hypothesis.given(scripts())
    def holds(script):
        steps, results, limits = script
        try:
            case.play(*steps, results=results, limits=limits).paired()
        except Broken as broken:
            broken.add_note(f"{limits}, {[len(step.calls) for step in steps]} calls in the steps, done with result {len(results) or None}")
            raise

    holds()


THREE = say("I look three times.", call("a", "one"), call("b", "two"), call("c", "three"))


@requirement("RUN-002")
@pytest.mark.parametrize("most", [1, 2])
def test_calls_above_the_limit_of_a_turn_are_answered_or_withdrawn(case, most):
    played = case.play(THREE, limits=Limits(max_calls_per_turn=most))
    played.paired()
    played.goes_on(2)


@requirement("RUN-003")
@pytest.mark.parametrize("most", [1, 2, 4])
def test_calls_above_the_limit_of_the_episode_are_answered_or_withdrawn(case, most):
    again = say("Again.", call("d", "four"), call("e", "five"))
    case.play(THREE, again, limits=Limits(max_calls=most)).paired()


@requirement("RUN-004")
@pytest.mark.parametrize("place", [0, 1])
def test_calls_behind_the_one_that_ended_the_episode_are_answered_or_withdrawn(case, place):
    case.play(THREE, results=[*[None] * place, Result("the end", reward=1.0, done=True)]).paired()


@requirement("RUN-005")
def test_parallel_calls_get_their_own_results_in_the_order_of_the_calls(case):
    played = case.play(THREE, say("And two more.", call("d", "four", "write"), call("e", "five")))
    played.goes_on(3)
    for turn, texts in enumerate((["one", "two", "three"], ["four", "five"])):
        same(
            [text for text in texts if seen_of(text) not in played.answer(turn, texts.index(text))],
            [],
            f"calls of step {turn + 1} without their own result",
        )
    same(len(played.made), 5, "calls that reached the environment")


@requirement("RUN-006")
@pytest.mark.parametrize(("first", "second"), [(None, None), ("", ""), ("same", "same"), (None, "b")], ids=["none", "empty", "same", "one"])
def test_calls_of_one_turn_have_ids_of_their_own(case, first, second):
    played = case.play(say("", call(first, "one"), call(second, "two")))
    played.goes_on(2)
    own_ids([each for message in turns(played.episode.messages) for each in message.calls], 2)
    played.paired()
    expect(seen_of("two") in played.answer(0, 1), "the second result at the second call", played.answers(0))


@requirement("RUN-007")
def test_an_id_of_an_earlier_turn_is_not_used_again(case):
    played = case.play(say("", call("call_0", "one")), say("", call("call_0", "two")))
    played.goes_on(3)
    own_ids([each for message in turns(played.episode.messages) for each in message.calls], 2)


def own_ids(calls: list[ToolCall], count: int):
    ids = [each.id for each in calls]
    same(len(ids), count, "calls in the record")
    expect(all(ids) and len(set(ids)) == count, f"{count} ids, none empty, no two the same", ids)
