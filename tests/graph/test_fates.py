"""What became of a reply, and why: branches that were left, choices of which one was taken, and rows that say what they cannot replay."""

from __future__ import annotations

from pytest_harness.graph import build, training_rows

TASK = {"role": "user", "content": "Do the task."}
DONE = {"role": "assistant", "content": "I look."}
AGAIN = {"role": "user", "content": "Shorter, please."}


def fates(*calls):
    return {turn.call: turn.fate for turn in build(calls).turns}


def trained(*calls):
    graph = build(calls)
    return {call for row in training_rows(graph) for call in row.calls if graph.by_call[call].trainable}


def left_branch(made, *, echoed=False):
    """Call 0; calls 1 and 2 on from it; then call 3 on from call 0 again."""
    back = [TASK, DONE, DONE, AGAIN] if echoed else [TASK, DONE, AGAIN]
    return (
        made(0, [1], [2], messages=[TASK]),
        made(1, [1, 2, 3], [4], messages=[TASK, DONE, TASK]),
        made(2, [1, 2, 3, 4, 5], [6], messages=[TASK, DONE, TASK, DONE]),
        made(3, [1, 2, 7], [8], messages=back),
    )


def test_a_branch_of_two_turns_that_the_harness_went_back_from_is_abandoned(made):
    calls = left_branch(made)
    assert fates(*calls) == {0: "used", 1: "abandoned", 2: "abandoned", 3: "used"}
    assert build(calls).by_call[2].why == "the harness went back to call 0 and on to call 3"
    assert [row.calls for row in training_rows(build(calls))] == [(0, 3)]


def test_a_branch_whose_reply_the_other_repeats_in_its_own_words_was_used(made):
    """Arguments written anew break the prefix, not the conversation."""
    assert set(fates(*left_branch(made, echoed=True)).values()) == {"used"}


def test_branches_that_run_side_by_side_are_both_used(made):
    calls = left_branch(made)
    beside = calls[3].model_copy(update={"times": calls[3].times.model_copy(update={"received": 15.0})})
    assert set(fates(*calls[:3], beside).values()) == {"used"}


def test_a_side_call_on_a_turn_leaves_no_branch_behind(made):
    side = made(3, [1, 2, 7], [8], messages=[TASK, DONE, AGAIN], headers={"x-grok-req-id": "xai-turn-summary-1"})
    assert fates(*left_branch(made)[:3], side) == {0: "used", 1: "used", 2: "used", 3: "used"}


def test_the_first_of_two_equal_prompts_that_were_both_continued_was_left(made):
    calls = (
        made(0, [1], [2], messages=[TASK]),
        made(1, [1, 2], [3], messages=[TASK, DONE]),
        made(2, [1, 2, 3], [4], messages=[TASK, DONE, DONE]),
        made(3, [1, 2], [5], messages=[TASK, DONE]),
        made(4, [1, 2, 5], [6], messages=[TASK, DONE, DONE]),
    )
    assert fates(*calls) == {0: "used", 1: "abandoned", 2: "abandoned", 3: "used", 4: "used"}


def test_of_several_choices_the_one_that_is_continued_is_the_turn(made):
    calls = made(0, [1], [2], [3]), made(1, [1, 3, 4], [5])
    graph = build(calls)
    assert (graph.by_call[0].choice, graph.by_call[0].sampled, graph.by_call[1].parent) == (1, (3,), 0)
    (row,) = training_rows(graph)
    assert (row.ids, row.mask) == ((1, 3, 4, 5), (0, 1, 0, 1))


def test_of_several_choices_that_are_all_continued_the_first_is_the_turn_and_the_others_forks_begin_anew(made):
    first, later = [TASK], [TASK, DONE]
    calls = made(0, [1], [2], [3], messages=first), made(1, [1, 3, 4], [5], messages=later), made(2, [1, 2, 4], [6], messages=later)
    graph = build(calls)
    assert {turn.call: (turn.choice, turn.parent) for turn in graph.turns} == {0: (0, None), 1: (0, None), 2: (0, 0)}
    assert sum(sum(row.mask) for row in training_rows(graph)) == 3


def test_of_several_choices_none_of_which_is_continued_none_is_trained(made):
    assert fates(made(0, [1], [2], [3])) == {0: "ambiguous"}
    assert training_rows(build([made(0, [1], [2], [3])])) == ()


def test_a_truncated_turn_is_trained_and_says_so_and_a_constrained_one_is_not(made):
    cut, forced = made(0, [1], [2], finish="length"), made(1, [1, 2], [3], constraints=("tool_choice",))
    graph = build([cut, forced])
    assert [(turn.truncated, turn.constrained, turn.trainable) for turn in graph.turns] == [(True, False, True), (False, True, False)]


def test_a_row_with_an_image_says_that_it_cannot_be_replayed_from_its_ids(made):
    image = {"role": "user", "content": [{"type": "text", "text": "Look."}, {"type": "image_url", "image_url": {"url": "data:,"}}]}
    plain, seen = made(0, [1], [2], messages=[TASK]), made(1, [7], [8], messages=[TASK, DONE, image])
    assert {row.calls: row.replayable for row in training_rows(build([plain, seen]))} == {(0,): True, (1,): False}


def test_nothing_stands_between_a_turn_and_a_prompt_that_is_exactly_its_end(made):
    calls = made(0, [1], [2, 3]), made(1, [1, 2, 3], [4])
    (row,) = training_rows(build(calls))
    assert (row.ids, row.mask) == ((1, 2, 3, 4), (0, 1, 1, 1))
    assert [(turn.prompt_length, turn.length) for turn in build(calls).turns] == [(1, 3), (3, 4)]
