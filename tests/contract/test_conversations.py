"""What the checks say of side calls, subagents, compactions, branches and retries where it is not plain."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pytest_harness.contract import judge_one
from pytest_harness.contract.chat_wire import conversation
from pytest_harness.requirements import load_catalogue
from pytest_harness.saboteurs import apply
from pytest_harness.saboteurs.extras import side_call
from pytest_harness.saboteurs.surgery import edit_forwarded, edit_request, with_call, with_prompt

CATALOGUE = load_catalogue()


def result(evidence, requirement):
    return judge_one(evidence, CATALOGUE[requirement]).result


def findings(evidence, requirement):
    return [str(finding) for finding in judge_one(evidence, CATALOGUE[requirement]).findings]


def with_headers(evidence, index, headers):
    call = evidence.calls[index]
    return with_call(evidence, call.model_copy(update={"received": call.received.model_copy(update={"headers": headers})}))


def test_the_agents_conversation_leaves_out_title_subagent_lost_reply_and_summary(healthy):
    assert [turn.call.index for turn in conversation(healthy.in_company())] == [1, 4, 6]


def test_without_ids_the_agents_turns_are_those_that_offer_tools(healthy):
    evidence = side_call(healthy.pi())
    bare = tuple(call.model_copy(update={"prompt_ids": None, "samples": ()}) for call in evidence.calls)
    assert [turn.call.index for turn in conversation(replace(evidence, calls=bare))] == [0, 1, 2]


def test_a_compaction_is_no_break_of_the_chain_but_a_rewritten_history_is(healthy):
    evidence = healthy.in_company()
    assert result(evidence, "GRF-001") == "passed"

    def forget(body):
        body["messages"][1]["content"] = "Do the task, please."

    assert result(with_call(evidence, edit_request(evidence.calls[6], forget)), "GRF-001") == "failed"


def compacted_after_the_first_turn(healthy, words):
    """As by opencode 1.18.33 and Kilo 7.7.7 after an overflow: a call without tools sums up, and the new history has its words where
    another has the first turn, so that it is as long as one that goes on."""
    first, summing, last = (healthy.in_company().calls[index] for index in (1, 5, 6))
    unmarked = summing.received.model_copy(update={"headers": first.received.headers})
    summing = edit_request(summing.model_copy(update={"received": unmarked}), lambda body: body.pop("tools"))
    told = [{"role": "user", "content": "What was done?"}, {"role": "assistant", "content": words}, {"role": "user", "content": "Go on."}]
    last = edit_request(last, lambda body: body["messages"].__setitem__(slice(1, None), told))
    calls = [call.model_copy(update={"index": index}) for index, call in enumerate((first, summing, last))]
    return replace(healthy.in_company(), calls=tuple(calls))


@pytest.mark.parametrize(("requirement", "judged"), [("GRF-001", "passed"), ("PAR-005", "not_exercised"), ("PAR-013", "not_exercised")])
def test_a_summary_in_the_place_of_the_first_turn_is_no_turn_that_lost_its_calls(healthy, requirement, judged):
    assert result(compacted_after_the_first_turn(healthy, f"I see. {healthy.SUMMARY}"), requirement) == judged


@pytest.mark.parametrize("requirement", ["GRF-001", "PAR-005", "PAR-013"])
def test_a_first_turn_that_came_back_in_words_that_nobody_wrote_is_found(healthy, requirement):
    words = "Two files are there, and one of them is empty, I think."
    assert result(compacted_after_the_first_turn(healthy, words), requirement) == "failed"


def test_a_branch_that_the_harness_went_back_from_is_named_with_its_reason(healthy):
    """Call 2 goes on from call 0 once more, and repeats nothing of call 1."""
    evidence = healthy.mini()
    first, second, last = evidence.calls
    prompt = [*first.prompt_ids, *first.samples[0].token_ids]
    back = with_prompt(last, [*prompt, *range(4001, 4001 + len(last.prompt_ids) - len(prompt))])
    asked = json.loads(second.received.body)["messages"]
    back = edit_request(back, lambda body: body.update(messages=[*asked[:-1], {**asked[-1], "content": "cut"}]))
    (finding,) = findings(replace(evidence, calls=(first, second, back)), "GRF-007")
    assert "calls.ndjson line 2" in finding
    assert "the harness went back to call 0 and on to call 2" in finding


def test_a_rewritten_echo_is_named_as_a_turn_that_nothing_continues(healthy):
    (finding,) = findings(apply("rewritten_echo", healthy.pi()), "GRF-007")
    assert "no later prompt begins with its" in finding


def test_a_system_prompt_that_differs_where_nothing_breaks_is_free(healthy):
    evidence = healthy.pi()
    changed = edit_forwarded(evidence.calls[1], lambda body: body["messages"][0].update(content="You are another agent."))
    assert result(with_call(evidence, changed), "GRF-006") == "passed"


def test_a_nonce_is_shown_with_the_place_where_it_differs(healthy):
    assert "character 0" in findings(apply("nonce_in_the_system_prompt", healthy.pi()), "GRF-006")[0]


def test_white_space_and_new_messages_in_a_history_are_no_graft(healthy):
    evidence = healthy.pi()

    def spread(body):
        body["messages"][1]["content"] = [{"type": "text", "text": "Do  the\n"}, {"type": "text", "text": "task."}]
        body["messages"].insert(2, {"role": "user", "content": "By the way."})

    assert result(with_call(evidence, edit_request(evidence.calls[1], spread)), "GRF-008") == "failed"  # call 2 has lost what was put in
    both = with_call(evidence, edit_request(evidence.calls[1], spread))
    assert result(with_call(both, edit_request(both.calls[2], spread)), "GRF-008") == "passed"


def test_ids_that_continue_under_a_prompt_without_an_assistant_are_a_graft(healthy):
    (finding,) = findings(apply("compaction_grafted", healthy.in_company()), "GRF-008")[:1]
    assert "a message of the assistant, as its ids continue call 5" in finding


@pytest.mark.parametrize("path", ["/v1/messages/count_tokens", "/v1/responses/input_tokens", "/v1/embeddings"])
def test_ids_under_a_route_that_samples_nothing_are_found(healthy, path):
    evidence = side_call(healthy.pi())
    assert result(with_call(evidence, evidence.calls[-1].model_copy(update={"path": path})), "SID-001") == "failed"


def test_a_subagent_that_no_header_names_is_found_by_the_turn_that_waits_for_it(healthy):
    evidence = healthy.in_company()
    headers = {name: value for name, value in evidence.calls[2].received.headers.items() if name != "x-parent-session-id"}
    (finding,) = findings(with_headers(evidence, 2, headers), "SID-002")
    assert "began while call 1 was yet to be continued by call 3" in finding


def test_a_side_call_of_another_session_is_nobodys_concern_but_a_turn_of_the_agent_is(healthy):
    evidence = healthy.in_company()
    other = {**evidence.calls[0].received.headers, "x-session-id": "s-9"}
    assert result(with_headers(evidence, 0, other), "SID-003") == "passed"
    assert result(with_headers(evidence, 4, {**evidence.calls[4].received.headers, "x-session-id": "s-9"}), "SID-003") == "failed"


def test_a_compaction_may_begin_a_session_of_its_own(healthy):
    evidence = healthy.in_company()
    headers = {**evidence.calls[6].received.headers, "x-session-id": "s-3"}
    assert result(with_headers(evidence, 6, headers), "SID-003") == "passed"


def test_an_undelivered_call_with_a_time_of_delivery_contradicts_itself(healthy):
    evidence = healthy.pi()
    denied = evidence.calls[2].model_copy(update={"delivery": "client_gone"})
    assert result(with_call(evidence, denied), "CAN-002") == "failed"


def test_a_retry_of_a_lost_reply_is_what_a_retry_is_for(healthy):
    assert result(healthy.in_company(), "CAN-003") == "passed"
    assert result(healthy.pi(), "CAN-003") == "not_exercised"


def test_a_key_that_comes_again_with_its_retry_is_what_a_key_is_for(healthy):
    assert result(healthy.in_company(), "CAN-004") == "passed"
    assert result(healthy.pi(), "CAN-004") == "not_exercised"


def test_calls_that_are_out_of_order_leave_a_gap(healthy):
    evidence = healthy.pi()
    assert result(replace(evidence, calls=(evidence.calls[0], evidence.calls[2], evidence.calls[1])), "CAN-001") == "failed"
