"""Whose turn a call is: by header, by tools, by root, by the summary it wrote; and every label says why."""

from __future__ import annotations

import json

import pytest

from pytest_harness.graph import build, training_rows

SYSTEM = {"role": "system", "content": "You are an agent."}
TASK = {"role": "user", "content": "Do the task."}
ERRAND = [{"role": "system", "content": "You read files."}, {"role": "user", "content": "Read one."}]
TITLE = [{"role": "system", "content": "You name things."}, {"role": "user", "content": "Name this: do the task."}]
SUMMARY = "Two files were read so far, and what they say must still be written down."
DONE = {"role": "assistant", "content": "I look."}


def roles(*calls):
    return {turn.call: turn.role for turn in build(calls).turns}


def signs(*calls):
    return {turn.call: turn.sign for turn in build(calls).turns}


def reasons(*calls):
    return {turn.call: turn.why for turn in build(calls).turns}


def trained(*calls):
    return {call for row in training_rows(build(calls)) for call in row.calls if build(calls).by_call[call].trainable}


def agent(made):
    """Two turns of the agent, received at 0 and at 100."""
    return agent_with(made, ["bash"])


def agent_with(made, tools):
    """The same, with these tools."""
    return (
        made(0, [1], [2], messages=[SYSTEM, TASK], tools=tools),
        made(1, [1, 2, 3], [4], at=100.0, messages=[SYSTEM, TASK, DONE], tools=tools),
    )


@pytest.mark.parametrize(
    ("header", "value", "role"),
    [
        ("x-claude-code-agent-id", "a", "subagent"),
        ("x-claude-code-parent-agent-id", "a", "subagent"),
        ("x-parent-session-id", "s", "subagent"),
        ("x-codex-parent-thread-id", "t", "subagent"),
        ("x-openai-subagent", "collab_spawn", "subagent"),
        ("x-openai-subagent", "review", "subagent"),
        ("x-interaction-type", "conversation-subagent", "subagent"),
        ("x-openai-subagent", "compact", "side"),
        ("x-openai-subagent", "memory_consolidation", "side"),
        ("x-grok-req-id", "xai-turn-summary-7", "side"),
        ("x-grok-session-id", "", "side"),
    ],
)
def test_a_header_of_a_real_harness_tells_what_is_not_the_agents(made, header, value, role):
    calls = *agent(made), made(2, [1, 2, 3, 4, 9], [5], messages=[SYSTEM, TASK, DONE, TASK], headers={header: value})
    assert roles(*calls) == {0: "agent", 1: "agent", 2: role}
    assert header in reasons(*calls)[2]
    assert trained(*calls) == {0, 1}


@pytest.mark.parametrize("header", ["x-parent-session-id", "x-claude-code-agent-id"])
def test_a_header_that_is_blank_or_that_every_call_bears_tells_nothing(made, header):
    first, second = agent(made)
    for value, calls in ((" ", [first]), ("s", [first, second])):
        marked = [one.model_copy(update={"received": one.received.model_copy(update={"headers": {header: value}})}) for one in calls]
        assert set(roles(*marked, *(one for one in (first, second) if one not in calls)).values()) == {"agent"}


def test_a_title_call_without_tools_beside_an_agent_with_tools_is_a_side_call_wherever_it_stands(made):
    for at in (-1.0, 50.0, 500.0):
        calls = *agent(made), made(2, [7], [8], messages=TITLE, tools=[], at=at)
        assert roles(*calls) == {0: "agent", 1: "agent", 2: "side"}
        assert signs(*calls)[2] == "tools"
        assert trained(*calls) == {0, 1}


def test_a_title_call_is_a_side_call_where_nobody_has_tools(made):
    for at in (-1.0, 50.0, 500.0):
        calls = *agent_with(made, []), made(2, [7], [8], messages=TITLE, tools=[], at=at)
        assert roles(*calls) == {0: "agent", 1: "agent", 2: "side"}
        assert signs(*calls)[2] == "root"


def test_of_two_single_turns_without_tools_the_longer_prompt_is_the_agents(made):
    """aider edits in one call, and asks for the words of its commit in another."""
    edit = made(0, [1, 2, 3, 4], [5], messages=[SYSTEM, TASK], tools=[])
    commit = made(1, [7, 8], [9], messages=TITLE, tools=[])
    assert roles(edit, commit) == {0: "agent", 1: "side"}
    swapped = commit.model_copy(update={"index": 0}), edit.model_copy(update={"index": 1})
    assert roles(*swapped) == {0: "side", 1: "agent"}


def test_a_subagent_with_the_agents_tools_is_told_by_the_turn_that_waits_for_it(made):
    calls = *agent(made), made(2, [7], [8], messages=ERRAND, at=20.0), made(3, [7, 8, 6], [5], messages=[*ERRAND, DONE], at=30.0)
    assert roles(*calls) == {0: "agent", 1: "agent", 2: "subagent", 3: "subagent"}
    assert reasons(*calls)[3] == "began while call 0 was yet to be continued by call 1"
    assert trained(*calls) == {0, 1}


def test_a_subagent_after_which_the_agent_never_goes_on_is_told_by_how_it_opens(made):
    calls = *agent(made), made(2, [7], [8], messages=ERRAND, at=200.0)
    assert roles(*calls)[2] == "subagent"
    assert reasons(*calls)[2] == "another system prompt and another first message than call 0"
    assert trained(*calls) == {0, 1}


def test_an_agent_that_ends_while_it_waits_for_a_long_subagent_is_still_the_agent(made):
    calls = (
        made(0, [1], [2], messages=[SYSTEM, TASK], tools=["bash", "task"]),
        made(1, [7], [8], messages=ERRAND),
        made(2, [7, 8, 6], [5], messages=[*ERRAND, DONE]),
    )
    assert roles(*calls) == {0: "agent", 1: "subagent", 2: "subagent"}


def test_a_title_call_with_a_tool_of_its_own_does_not_become_the_agent_by_coming_first(made):
    calls = made(2, [7], [8], messages=TITLE, tools=["title"], at=-1.0), *agent_with(made, ["bash", "edit"])
    assert roles(*calls) == {0: "agent", 1: "agent", 2: "subagent"}


def test_a_title_call_that_was_lost_and_retried_is_not_the_agents_where_nobody_has_tools(made):
    title = [made(index, [7], [8 + index], messages=TITLE, tools=[], at=-10.0 + index) for index in (2, 3)]
    title[0] = title[0].model_copy(update={"delivery": "unknown"})
    assert roles(*agent_with(made, []), *title) == {0: "agent", 1: "agent", 2: "side", 3: "side"}


def test_two_conversations_with_one_system_prompt_stay_apart(made):
    """The subagent has its caller's instructions, and its tools."""
    errand = [SYSTEM, ERRAND[1]]
    calls = *agent(made), made(2, [1, 9], [8], messages=errand, at=20.0), made(3, [1, 9, 8, 7], [5], messages=[*errand, DONE], at=30.0)
    graph = build(calls)
    assert {turn.call: turn.parent for turn in graph.turns} == {0: None, 1: 0, 2: None, 3: 2}
    assert {turn.call for turn in graph.turns if turn.role == "subagent"} == {2, 3}


def test_a_compaction_opens_a_root_of_the_agent_and_the_old_one_is_kept(made):
    ask = {"role": "user", "content": "Sum up."}
    told = {"role": "user", "content": f"So far: {SUMMARY} Go on."}
    calls = (
        *agent(made),
        made(2, [1, 2, 3, 4, 5], [6], at=200.0, messages=[SYSTEM, TASK, DONE, DONE, ask], text=f"<summary>{SUMMARY}</summary>"),
        made(3, [1, 9], [8], at=300.0, messages=[SYSTEM, told]),
        made(4, [1, 9, 8], [7], at=400.0, messages=[SYSTEM, told, DONE]),
    )
    assert roles(*calls) == {0: "agent", 1: "agent", 2: "side", 3: "agent", 4: "agent"}
    assert signs(*calls) == {0: "", 1: "", 2: "summary", 3: "summary", 4: ""}
    assert reasons(*calls)[2] == "wrote the summary that call 3 begins anew with"
    assert reasons(*calls)[3] == "begins anew with the summary of call 2"
    assert [row.calls for row in training_rows(build(calls))] == [(0, 1), (3, 4)]


def test_a_summary_told_under_another_system_prompt_is_still_the_agents(made):
    told = [{"role": "system", "content": "nonce 2"}, {"role": "user", "content": f"{SUMMARY}"}]
    calls = *agent(made), made(2, [7], [8], at=200.0, messages=TITLE, tools=[], text=SUMMARY), made(3, [6], [5], at=300.0, messages=told)
    assert roles(*calls) == {0: "agent", 1: "agent", 2: "side", 3: "agent"}
    assert signs(*calls)[2] == "tools"


def test_a_subagent_that_is_offered_more_tools_than_the_agent_that_waits_for_it_is_none_the_less_a_subagent(made):
    """As that of qwen-code 0.24.4: 17 tools, where the agent has 14, and no header tells one from the other."""
    more = ["bash", "fetch", "monitor"]
    calls = (
        made(0, [1], [2], messages=[SYSTEM, TASK]),
        made(1, [7], [8], messages=ERRAND, tools=more),
        made(2, [7, 8, 9], [5], messages=[*ERRAND, DONE], tools=more),
        made(3, [1, 2, 3], [4], messages=[SYSTEM, TASK, DONE]),
    )
    assert roles(*calls) == {0: "agent", 1: "subagent", 2: "subagent", 3: "agent"}
    assert trained(*calls) == {0, 3}


def test_a_summary_that_was_asked_for_twice_is_written_by_two_side_calls(made):
    """As by claude-code 2.1.332 after an overflow: both prompts are its own, both offer the agent's tools, both replies are the same."""
    ask, told = {"role": "user", "content": "Respond with text only: sum it up."}, {"role": "user", "content": f"So far: {SUMMARY}"}
    cut = {"role": "user", "content": "[earlier conversation truncated for compaction retry]"}
    calls = (
        *agent(made),
        made(2, [1, 7, 5], [6], at=200.0, messages=[SYSTEM, cut, DONE, ask], text=SUMMARY),
        made(3, [1, 7, 6], [6], at=210.0, messages=[SYSTEM, cut, DONE, ask], text=SUMMARY),
        made(4, [1, 9], [8], at=300.0, messages=[SYSTEM, told]),
        made(5, [1, 9, 8], [7], at=400.0, messages=[SYSTEM, told, DONE]),
    )
    assert roles(*calls) == {0: "agent", 1: "agent", 2: "side", 3: "side", 4: "agent", 5: "agent"}
    assert reasons(*calls)[3] == "wrote the summary that call 4 begins anew with"
    assert reasons(*calls)[4] == "begins anew with the summary of call 3"
    assert trained(*calls) == {0, 1, 4, 5}


def test_a_compaction_after_the_first_turn_is_one_though_the_rest_is_longer(made):
    told = {"role": "user", "content": SUMMARY}
    calls = (
        made(0, [1], [2], messages=[SYSTEM, TASK]),
        made(1, [7], [8], messages=TITLE, tools=[], text=SUMMARY),
        made(2, [1, 9], [8], messages=[SYSTEM, told]),
        made(3, [1, 9, 8], [7], messages=[SYSTEM, told, DONE]),
    )
    assert roles(*calls) == {0: "agent", 1: "side", 2: "agent", 3: "agent"}
    assert reasons(*calls)[0] == ""
    assert reasons(*calls)[2] == "begins anew with the summary of call 1"


def words(text):
    """A history that opens with these words of the assistant's, as opencode and Kilo write the summary."""
    return [SYSTEM, {"role": "user", "content": "What was done?"}, {"role": "assistant", "content": text}, TASK]


def test_a_summary_may_be_told_as_the_models_own_first_words(made):
    calls = (
        made(0, [1], [2], messages=[SYSTEM, TASK]),
        made(1, [7], [8], messages=TITLE, tools=[], text=SUMMARY),
        made(2, [1, 9], [8], messages=words(SUMMARY)),
        made(3, [1, 9], [5], messages=words(SUMMARY)),
        made(4, [1, 9, 5, 6], [7], messages=[*words(SUMMARY), DONE]),
    )
    assert signs(*calls) == {0: "", 1: "tools", 2: "summary", 3: "summary", 4: ""}
    assert reasons(*calls)[3] == "begins anew with the summary of call 1"
    assert roles(*calls)[1] == "side"


def test_first_words_that_the_agent_itself_said_are_no_summary(made):
    """A nonce in front of a history that goes on: the wire holds the same words, and the chain is broken."""
    calls = made(0, [1], [2], messages=[SYSTEM, TASK], text=SUMMARY), made(1, [3, 9], [8], messages=words(SUMMARY))
    assert signs(*calls)[1] == ""
    assert reasons(*calls)[1] == "begins anew"


def test_words_that_an_earlier_history_opened_with_are_no_summary_once_more(made):
    """A plan that a call without tools wrote stands first in each history, and a nonce in front breaks the chain."""
    plan = made(0, [7], [8], messages=TITLE, tools=[], text=SUMMARY)
    calls = plan, *(made(index, [index, 20], [9], messages=words(SUMMARY)) for index in (1, 2, 3))
    assert signs(*calls) == {0: "tools", 1: "", 2: "", 3: ""}


def test_a_history_that_is_summed_up_twice_in_the_same_words_begins_anew_twice(made):
    calls = (
        made(0, [1], [2], messages=[SYSTEM, TASK]),
        made(1, [7], [8], messages=TITLE, tools=[], text=SUMMARY),
        made(2, [1, 9], [8], messages=words(SUMMARY)),
        made(3, [7, 7], [8], messages=[*TITLE, DONE], tools=[], text=SUMMARY),
        made(4, [1, 5], [8], messages=[*words(SUMMARY), TASK]),
    )
    assert signs(*calls) == {0: "", 1: "tools", 2: "summary", 3: "tools", 4: "summary"}


def test_a_history_written_out_in_words_is_no_summary(made):
    """Every earlier reply is told, so no single one was written to be."""
    said = [f"I have read file number {number} from its first to its last line." for number in range(3)]
    calls = [
        made(
            number,
            [number + 1],
            [9],
            messages=[SYSTEM, {"role": "user", "content": " ".join(["Do it.", *said[:number]])}],
            text=said[number],
        )
        for number in range(3)
    ]
    assert (roles(*calls)[2], signs(*calls)[2]) == ("agent", "")


def test_a_nonce_in_every_system_prompt_leaves_all_turns_the_agents(made):
    calls = [made(n, [n + 1], [9], messages=[{"role": "system", "content": f"nonce {n}"}, TASK, *[DONE] * n]) for n in range(5)]
    assert roles(*calls) == dict.fromkeys(range(5), "agent")
    assert list(reasons(*calls).values()) == ["", *["begins anew"] * 4]


def test_a_history_that_was_rewritten_once_and_back_is_the_agents(made):
    calls = *agent(made), made(2, [6], [5], at=50.0, messages=[SYSTEM, TASK, DONE])
    assert roles(*calls)[2] == "agent"
    assert reasons(*calls)[2] == "begins anew"


@pytest.mark.parametrize(
    "other",
    [
        {"path": "/v1/messages/count_tokens", "dialect": "messages"},
        {"path": "/v1beta/models/m:countTokens", "dialect": "gemini"},
        {"path": "/v1/responses/input_tokens", "dialect": "responses"},
        {"path": "/v1/embeddings"},
        {"method": "GET", "path": "/v1/models"},
        {"outcome": "budget_stop"},
    ],
)
def test_what_is_no_answered_model_call_is_never_a_turn(made, other):
    assert build([made(0, [1], [2], **other)]).turns == ()


def test_the_answer_of_a_stream_is_read_for_its_summary(made):
    call = made(2, [7], [8], at=200.0, messages=TITLE, tools=[])
    parts = [{"choices": [{"index": 0, "delta": {"content": part}}]} for part in (SUMMARY[:20], SUMMARY[20:])]
    body = "".join(f"data: {json.dumps(part)}\n\n" for part in parts) + "data: [DONE]\n\n"
    streamed = call.model_copy(update={"replied": call.replied.model_copy(update={"body": body})})
    told = made(3, [1, 9], [5], at=300.0, messages=[SYSTEM, {"role": "user", "content": SUMMARY}])
    assert reasons(*agent(made), streamed, told)[3] == "begins anew with the summary of call 2"
