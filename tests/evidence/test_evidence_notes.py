"""Notes are read as they were written."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_harness.evidence.notes import id_filled_in, ids_filled_in, names_not_passed_on, not_passed_on

NAMES = st.text() | st.sampled_from(["a, b", '"', '"a", "b"', "\ud800", "é", "", "\\", "a.b-c_1"])


@given(st.sets(NAMES, min_size=1))
def test_every_name_is_read_as_it_was_written_and_can_be_stored(names) -> None:
    note = not_passed_on(names)
    assert names_not_passed_on(["another note", note]) == names
    note.encode("utf-8")


def test_plain_names_stand_as_they_are() -> None:
    assert not_passed_on(["x_internal", "_private"]) == "not known to the engine, not passed on: _private, x_internal"


def test_other_notes_say_nothing_of_either() -> None:
    notes = ["thinking is left out", "not passed on: x", "the engine gave call 0 no id"]
    assert names_not_passed_on(notes) == ids_filled_in(notes) == frozenset()
    assert names_not_passed_on(['not known to the engine, not passed on: "broken']) == {'"broken'}


def test_the_ids_that_were_filled_in_are_read_in_every_choice() -> None:
    notes = [id_filled_in("call_a", call=0), id_filled_in("call_b", call=1, choice=2)]
    assert notes == ["the engine gave call 0 no id; call_a was filled in", "the engine gave call 1 of choice 2 no id; call_b was filled in"]
    assert ids_filled_in(notes) == {"call_a", "call_b"}
