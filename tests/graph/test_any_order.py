"""For every session: the graph is the same whatever order its calls are given in, and each sampled token counts once."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_harness.graph import build, training_rows

OPENINGS = ["You are an agent.", "You read files."]


@st.composite
def sessions(draw):
    """Turns of up to three conversations with forks and retries, as (prompt, sampled, parent, what to make of it); samples are unique."""
    turns = []
    for number in range(draw(st.integers(1, 9))):
        parent = draw(st.none() | st.integers(0, number - 1)) if number else None
        retried = draw(st.sampled_from([False, False, True])) and number > 0
        if retried:
            prompt, _, parent, more = turns[draw(st.integers(0, number - 1))]
            more = {**more, "delivery": draw(st.sampled_from(["delivered", "unknown"]))}
        else:
            root = [draw(st.integers(1, 3)), draw(st.integers(1, 3))]
            prompt = root if parent is None else [*turns[parent][0], *turns[parent][1], *draw(st.lists(st.integers(4, 6), max_size=2))]
            opening = [{"role": "system", "content": draw(st.sampled_from(OPENINGS))}, {"role": "user", "content": f"turn {number}"}]
            more = {
                "messages": opening if parent is None else [*turns[parent][3]["messages"], {"role": "assistant", "content": "so"}],
                "tools": draw(st.sampled_from([["bash"], ["bash"], []])),
                "delivery": draw(st.sampled_from(["delivered", "delivered", "delivered", "client_gone"])),
                "constraints": draw(st.sampled_from([(), (), ("tool_choice",)])),
            }
        turns.append((prompt, [100 + number, *draw(st.lists(st.integers(4, 6), max_size=2))], parent, more))
    return turns


def made_in(order, turns, made):
    """The calls with their places in the order as their numbers; what they say and when stays the same, and no two say the same."""
    calls = []
    for index, position in enumerate(order):
        prompt, sampled, _, more = turns[position]
        messages = [*more["messages"], {"role": "user", "content": f"call {position}"}]
        calls.append(made(index, prompt, sampled, at=position * 10.0, **{**more, "messages": messages}))
    return calls


def told(calls, order):
    """What the graph says of each turn, in terms that know nothing of the order."""
    return {
        order[turn.call]: (None if turn.parent is None else order[turn.parent], turn.role, turn.sign, turn.fate, turn.trainable)
        for turn in build(calls).turns
    }


@given(sessions(), st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
def test_for_every_session_the_order_of_arrival_changes_nothing(made, turns, shuffler):
    order = list(range(len(turns)))
    straight = told(made_in(order, turns, made), order)
    shuffler.shuffle(order)
    assert told(made_in(order, turns, made), order) == straight


@given(sessions(), st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
def test_for_every_session_each_sampled_token_of_a_trainable_turn_counts_once_and_no_other_does(made, turns, shuffler):
    order = list(range(len(turns)))
    shuffler.shuffle(order)
    calls = made_in(order, turns, made)
    graph = build(calls)
    rows = training_rows(graph)
    trainable = [turn for turn in graph.turns if turn.trainable]
    assert sum(sum(row.mask) for row in rows) == sum(len(turn.sampled) for turn in trainable)
    assert {turn.sampled[0] for turn in trainable} == {
        one for row in rows for one, weight in zip(row.ids, row.mask, strict=True) if one >= 100 and weight
    }
    for row in rows:
        assert len(row.ids) == len(row.mask) == len(row.logprobs)
        assert [value is not None for value in row.logprobs] == list(map(bool, row.mask))
        last = graph.by_call[row.calls[-1]]
        assert row.ids == last.prompt + last.sampled
    for turn in trainable:
        call = calls[turn.call]
        assert call.delivery == "delivered"
        assert not call.constraints
        assert turn.role == "agent"


@given(sessions())
@settings(max_examples=100, deadline=None)
def test_for_every_session_a_turn_continues_the_longest_turn_that_its_prompt_begins_with(made, turns):
    graph = build(made_in(range(len(turns)), turns, made))
    ends = {turn.call: turn.prompt + turn.sampled for turn in graph.turns}
    for turn in graph.turns:
        before = {call: end for call, end in ends.items() if turn.prompt[: len(end)] == end}
        assert turn.parent == max(before, key=lambda call: len(before[call]), default=None)


@given(sessions(), st.data())
@settings(max_examples=100, deadline=None)
def test_for_every_session_odd_numbers_of_calls_leave_a_graph(made, turns, data):
    """Calls that are shuffled, missing, there twice, or numbered anyhow."""
    calls = made_in(range(len(turns)), turns, made)
    order = data.draw(st.lists(st.integers(0, len(calls) - 1), max_size=len(calls) + 3))
    odd = [calls[position].model_copy(update={"index": data.draw(st.integers(-2, 5) | st.just(position))}) for position in order]
    graph = build(odd)
    assert set(graph.by_call) == {call.index for call in odd}
    assert len(graph.by_call) == len(graph.turns)
    assert all(graph.path(turn)[0].parent is None for turn in graph.turns)
    for row in training_rows(graph):
        assert len(row.ids) == len(row.mask) == len(row.logprobs)
