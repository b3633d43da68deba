"""The graph: links by longest exact prefix whatever the order of arrival; rows in which every sampled token counts once."""

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_harness.evidence import Call, Message, Sample, Times
from pytest_harness.graph import build, training_rows

TOOLS = [{"type": "function", "function": {"name": "bash"}}]


def call(index, prompt, sampled, *, tools=TOOLS, delivery="delivered", outcome="complete", logprobs="usable"):
    if logprobs == "usable":
        logprobs = tuple(-0.5 for _ in sampled)
    return Call(
        index=index,
        id=f"call-{index}",
        dialect="chat",
        method="POST",
        path="/v1/chat/completions",
        streamed=False,
        received=Message(headers={}, body=json.dumps({"messages": [], "tools": tools})),
        prompt_ids=None if prompt is None else tuple(prompt),
        samples=(Sample(index=0, token_ids=tuple(sampled), logprobs=logprobs, finish_reason="stop"),),
        outcome=outcome,
        delivery=delivery,
        times=Times(received=float(index)),
    )


def links(graph):
    return {turn.call: turn.parent for turn in graph.turns}


def test_an_append_only_chain_has_one_root_and_makes_one_row():
    graph = build([call(0, [1, 2], [3]), call(1, [1, 2, 3, 4], [5, 6]), call(2, [1, 2, 3, 4, 5, 6, 7], [8])])
    assert links(graph) == {0: None, 1: 0, 2: 1}
    (row,) = training_rows(graph)
    assert row.calls == (0, 1, 2)
    assert row.ids == (1, 2, 3, 4, 5, 6, 7, 8)
    assert row.mask == (0, 0, 1, 0, 1, 1, 0, 1)
    assert row.logprobs == (None, None, -0.5, None, -0.5, -0.5, None, -0.5)


def test_the_longest_prefix_is_the_parent():
    graph = build([call(0, [1], [2]), call(1, [1, 2], [3]), call(2, [1, 2, 3], [4])])
    assert links(graph) == {0: None, 1: 0, 2: 1}


def test_a_prompt_that_is_exactly_the_end_of_a_turn_continues_it():
    assert links(build([call(0, [1], [2]), call(1, [1, 2], [3])])) == {0: None, 1: 0}


def test_a_rewritten_history_opens_a_root_and_is_grafted_nowhere():
    graph = build([call(0, [1, 2], [3]), call(1, [1, 9, 3, 4], [5])])
    assert [turn.call for turn in graph.roots] == [0, 1]
    assert len(training_rows(graph)) == 2


def test_a_fork_makes_two_rows_and_weighs_what_they_share_once():
    graph = build([call(0, [1], [2, 3]), call(1, [1, 2, 3, 4], [5]), call(2, [1, 2, 3, 6], [7])])
    assert [turn.call for turn in graph.forks] == [0]
    first, second = training_rows(graph)
    assert first.mask == (0, 1, 1, 0, 1)
    assert second.mask == (0, 0, 0, 0, 1)


def test_a_retry_whose_sibling_was_continued_is_abandoned():
    graph = build([call(0, [1], [2]), call(1, [1], [3]), call(2, [1, 3, 4], [5])])
    assert {turn.call: turn.fate for turn in graph.turns} == {0: "abandoned", 1: "used", 2: "used"}
    assert [row.calls for row in training_rows(graph)] == [(1, 2)]


def test_two_replies_to_the_last_prompt_are_ambiguous_and_have_no_weight():
    graph = build([call(0, [1], [2]), call(1, [1, 2, 3], [4]), call(2, [1, 2, 3], [5])])
    assert {turn.call: turn.fate for turn in graph.turns} == {0: "used", 1: "ambiguous", 2: "ambiguous"}
    (row,) = training_rows(graph)
    assert row.ids == (1, 2)


def test_an_undelivered_reply_has_no_weight_but_its_retry_has():
    graph = build([call(0, [1], [2], delivery="client_gone"), call(1, [1], [3])])
    assert [row.calls for row in training_rows(graph)] == [(1,)]


def test_an_undelivered_turn_in_the_middle_is_context():
    graph = build([call(0, [1], [2]), call(1, [1, 2, 3], [4], delivery="unknown"), call(2, [1, 2, 3, 4, 5], [6])])
    (row,) = training_rows(graph)
    assert row.mask == (0, 1, 0, 0, 0, 1)


def test_a_call_without_tools_beside_calls_with_tools_is_a_side_call():
    graph = build([call(0, [1], [2]), call(1, [7], [8], tools=[])])
    assert {turn.call: turn.role for turn in graph.turns} == {0: "agent", 1: "side"}
    assert [row.calls for row in training_rows(graph)] == [(0,)]


def test_where_nothing_offers_tools_every_turn_is_the_agents():
    assert {turn.role for turn in build([call(0, [1], [2], tools=[]), call(1, [7], [8], tools=None)]).turns} == {"agent"}


@pytest.mark.parametrize(
    "logprobs", [None, (), (-0.5,), (-0.5, 0.1), (-0.5, None), (-0.5, float("nan")), (-0.5, float("-inf")), (-0.5, False)]
)
def test_a_turn_without_usable_logprobs_is_a_turn_without_weight(logprobs):
    graph = build([call(0, [1], [2, 3], logprobs=logprobs)])
    assert len(graph.turns) == 1
    assert training_rows(graph) == ()


@pytest.mark.parametrize("ids", [[1, -1], [1, True], [1, 2.0], [1, None], [1, "2"], [1, 1 << 64]])
def test_a_call_with_ids_that_are_none_is_no_turn(ids):
    assert build([call(0, ids, [2])]).turns == ()
    assert build([call(0, [2], ids)]).turns == ()


@pytest.mark.parametrize(
    "bad",
    [call(0, None, [2]), call(0, [], [2]), call(0, [1], []), call(0, [1], [2], outcome="cut_upstream")],
    ids=["no prompt ids", "empty prompt", "empty sample", "cut"],
)
def test_a_call_without_ids_or_that_failed_is_no_turn(bad):
    assert build([bad]).turns == ()


@st.composite
def conversations(draw):
    """Trees of turns, as (prompt, sampled, parent's position); every sample begins with an id of its own."""
    turns = [([1, 2, 3], [100, 4], None)]
    for number in range(1, draw(st.integers(1, 8))):
        parent = draw(st.integers(0, number - 1))
        prompt = turns[parent][0] + turns[parent][1] + draw(st.lists(st.integers(4, 6), max_size=3)) + [200 + number]
        turns.append((prompt, [100 + number, *draw(st.lists(st.integers(4, 6), max_size=3))], parent))
    return turns


@given(conversations(), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_for_every_conversation_the_order_of_arrival_changes_nothing(turns, shuffler):
    order = list(range(len(turns)))
    shuffler.shuffle(order)
    graph = build([call(index, turns[position][0], turns[position][1]) for index, position in enumerate(order)])
    found = {order[turn.call]: None if turn.parent is None else order[turn.parent] for turn in graph.turns}
    assert found == {position: parent for position, (_, _, parent) in enumerate(turns)}


@given(conversations(), st.randoms(use_true_random=False), st.data())
@settings(max_examples=100, deadline=None)
def test_for_every_conversation_with_retries_each_used_token_counts_once(turns, shuffler, data):
    replies = [(prompt, sampled) for prompt, sampled, _ in turns]
    retried = data.draw(st.sets(st.sampled_from(range(len(turns))), max_size=3))
    replies += [(turns[position][0], [300 + position]) for position in sorted(retried)]
    shuffler.shuffle(replies)
    graph = build([call(index, prompt, sampled) for index, (prompt, sampled) in enumerate(replies)])
    rows = training_rows(graph)
    assert sum(sum(row.mask) for row in rows) == sum(len(turn.sampled) for turn in graph.turns if turn.fate == "used")
    for row in rows:
        assert len(row.ids) == len(row.mask) == len(row.logprobs)
        assert [value is not None for value in row.logprobs] == [bool(weight) for weight in row.mask]
    fates = {position: {turn.fate for turn in graph.turns if turn.prompt == tuple(turns[position][0])} for position in retried}
    for position, seen in fates.items():
        continued = any(parent == position for _, _, parent in turns)
        assert seen == ({"used", "abandoned"} if continued else {"ambiguous"})


def test_a_long_conversation_is_linked_turn_by_turn():
    ids = random.Random(1)
    prompt, calls = [ids.randrange(150_000) for _ in range(2_000)], []
    for index in range(200):
        sampled = [ids.randrange(150_000) for _ in range(60)]
        calls.append(call(index, prompt, sampled))
        prompt = [*prompt, *sampled, *(ids.randrange(150_000) for _ in range(180))]
    graph = build(calls)
    assert len(calls[-1].prompt_ids) == 2_000 + 199 * 240
    assert links(graph) == {index: index - 1 if index else None for index in range(200)}
    (row,) = training_rows(graph)
    assert sum(row.mask) == 200 * 60


def test_a_path_leads_from_the_root_to_the_turn():
    graph = build([call(0, [1], [2]), call(1, [1, 2, 3], [4])])
    assert [turn.call for turn in graph.path(graph.by_call[1])] == [0, 1]
    assert [turn.call for turn in graph.leaves] == [1]
