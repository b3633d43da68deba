"""The tree of prefixes: every sequence comes back whole, equal ones are one, and what is common is kept once."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_harness.graph.prefixes import Prefix, Tree, as_bytes

SEQUENCES = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=9).map(tuple), max_size=12)


def kept(tree: Prefix) -> int:
    """How many ids the whole tree holds."""
    return len(tree.own) // 8 + sum(map(kept, tree.after.values()))


def beginnings_of(sequences: list[tuple[int, ...]]) -> set[tuple[int, ...]]:
    return {sequence[:length] for sequence in sequences for length in range(1, len(sequence) + 1)}


@given(SEQUENCES)
def test_for_all_sequences_each_comes_back_whole_and_what_is_common_is_kept_once(sequences):
    tree = Tree()
    found = [tree.add(array("Q", sequence).tobytes()) for sequence in sequences]
    assert [prefix.ids for prefix in found] == sequences
    assert [prefix.length for prefix in found] == list(map(len, sequences))
    assert kept(tree.root) == len(beginnings_of(sequences))


@given(SEQUENCES)
def test_for_all_sequences_equal_ones_are_one_object_whatever_was_added_between(sequences):
    tree = Tree()
    first = {sequence: tree.add(array("Q", sequence).tobytes()) for sequence in sequences}
    assert all(tree.add(array("Q", sequence).tobytes()) is first[sequence] for sequence in sequences)
    assert len({id(prefix) for prefix in first.values()}) == len(first)


@given(SEQUENCES, st.integers(0, 9))
def test_for_all_sequences_adding_in_two_parts_is_adding_at_once(sequences, place):
    tree = Tree()
    for sequence in sequences:
        whole = tree.add(array("Q", sequence).tobytes())
        head, tail = sequence[:place], sequence[place:]
        assert tree.add(array("Q", head).tobytes()).add(array("Q", tail).tobytes()) is whole


@given(SEQUENCES)
def test_for_all_sequences_the_beginnings_of_one_are_all_others_that_it_begins_with(sequences):
    tree = Tree()
    found = {sequence: tree.add(array("Q", sequence).tobytes()) for sequence in sequences}
    for sequence, prefix in found.items():
        lengths = [one.length for one in prefix.beginnings()]
        assert lengths == sorted(lengths, reverse=True)
        begun = {other for other, one in found.items() if any(one is beginning for beginning in prefix.beginnings())}
        assert begun == {other for other in found if sequence[: len(other)] == other}


def test_two_hundred_equal_prompts_take_the_room_of_one():
    tree, ids = Tree(), array("Q", range(25_000)).tobytes()
    assert len({id(tree.add(ids)) for _ in range(200)}) == 1
    assert kept(tree.root) == 25_000


@pytest.mark.parametrize("ids", [None, [1, -1], [1, True], [1, 2.0], [1, None], [1, "2"], [1, 1 << 64]])
def test_what_is_no_list_of_ids_has_no_bytes(ids):
    assert as_bytes(ids) is None


def test_a_prefix_shows_how_long_it_is_and_not_its_ids():
    assert repr(Tree().add(array("Q", [7, 8]).tobytes())) == "<2 ids>"
