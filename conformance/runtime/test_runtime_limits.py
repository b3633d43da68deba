"""RUN: a limit cuts where it says, is told as a cut, and takes nothing from the record."""

import pytest

from pytest_harness.runtimes.adapter import Limits, Result
from pytest_harness.runtimes.script import call, say
from pytest_harness.session.case_marks import requirement
from pytest_harness.wire.outcome import expect, same


def steps(calls: int, count: int = 6):
    """So many steps, each with so many calls."""
    return [
        say(f"Step {number}.", *(call(f"{number}-{place}", f"at {number} {place}") for place in range(calls))) for number in range(count)
    ]


CUTS = {"turns": Limits(max_turns=2), "calls": Limits(max_calls=3), "calls-at-a-turn": Limits(max_turns=2, max_calls_per_turn=1)}
each_cut = pytest.mark.parametrize("limits", CUTS.values(), ids=CUTS)


@requirement("RUN-022")
@pytest.mark.parametrize("most", [1, 3])
def test_the_model_is_asked_no_oftener_than_the_limit(case, most):
    same(len(case.play(*steps(1), limits=Limits(max_turns=most)).asked), most, "steps of the model")


@requirement("RUN-023")
@pytest.mark.parametrize("most", [1, 2])
def test_a_turn_makes_no_more_calls_than_its_limit(case, most):
    played = case.play(*steps(3, 2), limits=Limits(max_calls_per_turn=most))
    same(
        [made.arguments["text"] for made in played.made],
        [f"at {n} {place}" for n in range(2) for place in range(most)],
        "calls that were made",
    )


@requirement("RUN-024")
@pytest.mark.parametrize("most", [0, 1, 2, 3])
def test_an_episode_makes_no_more_calls_than_its_limit(case, most):
    played = case.play(*steps(2), limits=Limits(max_turns=4, max_calls=most))
    same([made.arguments["text"] for made in played.made], [f"at {n // 2} {n % 2}" for n in range(most)], "calls that were made")


@requirement("RUN-025")
@each_cut
def test_an_episode_that_a_limit_cut_is_told_as_one(case, limits):
    same(case.play(*steps(2), limits=limits).episode.ended, "truncated", "how it ended")


@requirement("RUN-025")
def test_an_episode_that_no_limit_cut_is_told_as_one(case):
    same(case.play(*steps(1, 2), limits=Limits(3, 1, 2)).episode.ended, "completed", "how it ended")


@requirement("RUN-026")
@each_cut
def test_a_cut_episode_has_the_metrics_of_any_other(case, limits):
    whole = set(case.play(*steps(1, 1)).episode.metrics)
    expect(whole, "an episode with metrics", whole)
    missing = whole - set(case.play(*steps(2), limits=limits).episode.metrics)
    expect(not missing, "all metrics of an episode that was not cut", f"without {sorted(missing)}")


@requirement("RUN-027")
@pytest.mark.parametrize("calls", [1, 3])
def test_the_model_is_not_asked_again_when_the_environment_is_done(case, calls):
    played = case.play(*steps(calls), results=[Result("the end", reward=1.0, done=True)])
    same((len(played.asked), played.episode.ended), (1, "completed"), "steps of the model, and how it ended")
    case.reward_is(played, 1.0)


@requirement("RUN-028")
def test_the_environment_is_not_called_again_when_it_is_done(case):
    played = case.play(*steps(3), results=[None, Result("the end", reward=1.0, done=True)])
    same(len(played.made), 2, "calls that were made")
