"""The running numbers: incremental, right, and the same in whatever order."""

from __future__ import annotations

import statistics
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_harness.collect import Tally

finite = st.floats(allow_nan=False, allow_infinity=False)
episodes = st.lists(
    st.one_of(st.tuples(st.just("graded"), finite), st.tuples(st.sampled_from(["ungraded", "dropped", "invalid"]), st.none()))
)


def told(seen):
    tally = Tally()
    means = []
    for state, reward in seen:
        tally.add(state, reward)
        means.append(tally.mean)
    return tally, means


@given(episodes)
def test_each_running_mean_is_the_mean_of_all_so_far_computed_at_once(seen):
    _, means = told(seen)
    for number, mean in enumerate(means, start=1):
        graded = [Fraction(reward) for state, reward in seen[:number] if state == "graded"]
        assert mean == (float(statistics.mean(graded)) if graded else None)


@given(episodes)
def test_every_episode_is_counted_once(seen):
    tally, _ = told(seen)
    assert tally.counts == {state: sum(state == other for other, _ in seen) for state in ("graded", "ungraded", "invalid", "dropped")}


@given(st.permutations([0.1, 0.2, 0.3, 1e308, -1e308, 5e-324, 1e-9]))
def test_the_order_changes_nothing(rewards):
    assert told([("graded", reward) for reward in rewards])[0].mean == told([("graded", reward) for reward in sorted(rewards)])[0].mean


@pytest.mark.parametrize("reward", [None, float("nan"), float("inf"), True])
def test_a_graded_episode_without_a_finite_number_is_refused(reward):
    with pytest.raises(ValueError, match="needs a finite number"):
        Tally().add("graded", reward)


def test_where_nothing_is_graded_there_is_no_mean_reward():
    tally, _ = told([("ungraded", None), ("invalid", 1.0)])
    assert str(tally) == "no mean reward of 0 graded; 1 ungraded, 1 invalid, 0 dropped"


def test_the_counts_stand_beside_the_mean():
    tally, _ = told([("graded", 1.0), ("graded", 0.5), ("dropped", None)])
    assert str(tally) == "mean reward 0.75 of 2 graded; 0 ungraded, 0 invalid, 1 dropped"
