"""Wherever a collection is stopped and however often, with as many workers as there are: it ends as one that was never stopped."""

from __future__ import annotations

import itertools
import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_harness.collect import Interrupted, Ledger, Plan, Result, Task, collect

TASKS = tuple(Task(f"task-{number}") for number in range(3))
OUTCOMES = {
    "good": (Result(1.0), "graded"),
    "bad": (Result(-0.25), "graded"),
    "ungraded": (Result(None), "ungraded"),
    "nan": (Result(float("nan")), "ungraded"),
    "invalid": (Result(1.0, counts=False), "invalid"),
    "failed": (Result(None, failed=True, reason="no room"), "dropped"),
}


@settings(max_examples=25, deadline=None)
@given(
    outcomes=st.lists(st.sampled_from(sorted(OUTCOMES)), min_size=6, max_size=6),
    stops=st.lists(st.integers(1, 6), max_size=4),
    workers=st.integers(1, 3),
)
def test_a_stopped_collection_ends_as_one_that_was_never_stopped(outcomes, stops, workers):
    plan = Plan(TASKS, attempts=2, workers=workers, tries=1)
    scripted = dict(zip((episode.id for episode in plan.episodes), outcomes, strict=True))
    whole: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for stop in [*stops, None]:
            calls = itertools.count(1)

            def play(episode, calls=calls, stop=stop):
                if next(calls) == stop:
                    raise KeyboardInterrupt
                whole[episode.id] += scripted[episode.id] != "failed"  # what fails while the run is stopped may have been ended
                return OUTCOMES[scripted[episode.id]][0]

            try:
                found = collect(plan, play, folder)
            except Interrupted as interrupt:
                found = interrupt.collection
            assert sorted(line.episode for line in Ledger(folder).read()) == sorted(line.episode for line in found.lines)
    assert {line.episode: line.state for line in found.lines} == {name: OUTCOMES[said][1] for name, said in scripted.items()}
    assert [line.episode for line in found.lines] == [episode.id for episode in plan.episodes]
    assert {name: number for name, number in whole.items() if number} == {name: 1 for name, said in scripted.items() if said != "failed"}
    assert +Counter(found.tally.counts) == Counter(OUTCOMES[said][1] for said in outcomes)
