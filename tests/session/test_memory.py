"""A process remembers the evidence of the last attempts alone, and of all others why there is none."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pytest_harness.session.memory import MOST, Memory


class Record:
    """In place of evidence."""


def test_what_was_asked_for_last_is_not_loaded_again():
    memory, loaded = Memory(), (Path("a"), Record())
    assert memory.get("a", lambda: loaded) is loaded
    assert memory.get("a", lambda: 1 / 0) is loaded


@given(st.lists(st.integers(0, 9)))
def test_whatever_is_asked_for_no_more_than_the_last_few_are_held(asked):
    memory, alive = Memory(), []

    def load():
        record = Record()
        alive.append(weakref.ref(record))
        return Path(), record

    for number in asked:
        memory.get(str(number), load)
    gc.collect()
    assert sum(each() is not None for each in alive) == min(MOST, len(set(asked)))


@given(st.lists(st.integers(0, 9)))
def test_why_there_is_none_is_said_for_ever_and_is_tried_once(asked):
    memory, tried = Memory(), []
    for number in asked:
        assert memory.get(str(number), lambda number=number: tried.append(number) or f"no {number}") == f"no {number}"
    assert tried == list(dict.fromkeys(asked))
