"""The search finds the first bad release, judges none twice and few at all, and says so where skipped ones hide it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_harness.bisection.halving import expected, halve


def releases(count):
    return [f"1.{number}" for number in range(count)]


def searched(count, first_bad, skipped=()):
    """What is found among so many releases, and which were judged."""
    judged = []

    def judge(version):
        number = int(version.partition(".")[2])
        judged.append(version)
        return "skip" if number in skipped else "bad" if number >= first_bad else "good"

    return halve(releases(count), judge), judged


@given(st.data(), st.integers(2, 200))
def test_the_first_bad_release_is_found_in_as_few_steps_as_halving_takes(data, count):
    first_bad = data.draw(st.integers(1, count - 1))
    found, judged = searched(count, first_bad)
    assert (found.first_bad, found.last_good) == (f"1.{first_bad}", f"1.{first_bad - 1}")
    assert len(judged) + 2 <= expected(count)


@given(st.data(), st.integers(2, 40))
def test_what_is_skipped_is_never_taken_for_good_or_bad(data, count):
    first_bad = data.draw(st.integers(1, count - 1))
    skipped = data.draw(st.sets(st.integers(1, max(count - 2, 1)).filter(lambda number: number < count - 1)))
    found, judged = searched(count, first_bad, skipped)
    assert len(set(judged)) == len(judged)
    assert f"1.{first_bad}" in found.candidates
    good, *candidates = [int(version.partition(".")[2]) for version in (found.last_good, *found.candidates)]
    assert good < first_bad <= candidates[-1]
    assert good not in skipped
    assert candidates[-1] not in skipped
    assert set(candidates[:-1]) <= skipped
    assert (found.first_bad is None) == (len(candidates) > 1)


@pytest.mark.parametrize(("count", "most"), [(2, 2), (3, 3), (5, 4), (9, 5), (1025, 12)])
def test_the_bar_knows_how_many_are_to_be_judged(count, most):
    assert expected(count) == most
