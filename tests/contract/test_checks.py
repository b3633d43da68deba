"""What the checks say where it is not plain: nothing to compare, nothing that happened, faults that harnesses really have."""

import json
from dataclasses import replace

import pytest

from pytest_harness.contract import judge, judge_one
from pytest_harness.evidence.notes import id_filled_in, not_passed_on
from pytest_harness.requirements import load_catalogue
from pytest_harness.saboteurs import apply
from pytest_harness.saboteurs.surgery import (
    RESULT,
    TRAJECTORY,
    edit_body,
    edit_delivered,
    edit_file,
    edit_forwarded,
    edit_replied,
    edit_request,
    replace_text,
    tool_calls,
    with_call,
    with_file,
    with_manifest,
)

CATALOGUE = load_catalogue()


def result(evidence, requirement):
    return judge_one(evidence, CATALOGUE[requirement]).result


def failed(evidence):
    return {judgement.requirement.id for judgement in judge(evidence, CATALOGUE) if judgement.result == "failed"}


def with_history(evidence, edit):
    for call in evidence.calls:
        evidence = with_call(evidence, edit_request(call, lambda body: edit(body["messages"])))
    return evidence


def with_steps(evidence, edit):
    return edit_file(evidence, TRAJECTORY, lambda document: [edit(step) for step in document["steps"]])


def test_an_engine_that_names_tokens_by_their_text_leaves_their_order_unverifiable(healthy):
    assert result(replace_text(healthy.pi(), "token_id:", "text "), "LGP-004") == "unverifiable"


def test_an_engine_without_usage_leaves_its_counts_not_exercised(healthy):
    evidence = replace_text(healthy.mini(), '"usage"', '"unused"')
    assert result(evidence, "TOK-004") == result(evidence, "STR-007") == "not_exercised"


def test_usage_in_a_stream_for_which_the_harness_did_not_ask_is_not_missed(healthy):
    evidence = healthy.pi()
    for call in evidence.calls:
        silent = edit_delivered(call, lambda parts: [part.pop("usage", None) for part in parts])
        evidence = with_call(evidence, edit_request(silent, lambda body: body.pop("stream_options")))
    assert result(evidence, "STR-007") == "not_exercised"


def test_logprobs_that_the_harness_asked_for_are_no_trace_of_the_capture(healthy):
    evidence = apply("leaked_logprobs", healthy.mini())
    asking = edit_request(evidence.calls[2], lambda body: body.update(logprobs=True))
    assert result(evidence, "STR-003") == "failed"
    assert result(with_call(evidence, asking), "STR-003") == "passed"


def test_a_null_field_of_the_capture_is_what_an_engine_sends_that_was_not_asked(healthy):
    evidence = healthy.mini()
    call = edit_delivered(evidence.calls[0], lambda parts: parts[0].update(prompt_token_ids=None))
    assert result(with_call(evidence, call), "STR-003") == "passed"


@pytest.mark.parametrize("value", [None, False])
def test_a_distorting_field_that_is_off_distorts_nothing(healthy, value):
    evidence = healthy.pi()
    call = edit_request(evidence.calls[0], lambda body: body.update(echo=value))
    assert result(with_call(evidence, call), "TOK-007") == "passed"


def test_a_turn_that_the_harness_dropped_from_its_history_is_found(healthy):
    def drop(messages):
        messages[:] = [message for message in messages if message["role"] in {"system", "user"}]

    evidence = with_history(healthy.pi(), drop)
    assert result(evidence, "PAR-005") == "failed"


def test_a_compacted_history_continues_nothing(healthy):
    def compact(messages):
        if len(messages) > 2:
            messages[:] = [messages[0], {"role": "user", "content": f"A summary of {len(messages)} messages."}]

    assert result(with_history(healthy.pi(), compact), "PAR-005") == "not_exercised"


def test_results_that_other_messages_part_from_their_calls_are_strays_and_the_calls_orphans(healthy):
    def part(messages):
        for position, message in enumerate(messages):
            if message["role"] == "tool":
                messages.insert(position, {"role": "user", "content": "Wait."})
                return

    evidence = with_history(healthy.pi(), part)
    assert result(evidence, "PAR-001") == result(evidence, "PAR-002") == "failed"


def test_a_last_call_that_is_never_answered_is_nobodys_orphan(healthy):
    assert result(healthy.mini(), "PAR-002") == "passed"


def test_a_field_may_be_left_out_only_if_a_note_names_it(healthy):
    evidence = healthy.mini()
    call = evidence.calls[0]
    call = call.model_copy(update={"received": edit_body(call.received, lambda body: body.update(_private=1))})
    assert result(with_call(evidence, call), "TOK-009") == "failed"
    noted = call.model_copy(update={"notes": (not_passed_on(["_private"]),)})
    assert result(with_call(evidence, noted), "TOK-009") == "passed"
    changed = edit_forwarded(noted, lambda body: body.update(_private=2))
    assert result(with_call(evidence, changed), "TOK-009") == "failed"


def test_an_id_that_the_engine_did_not_give_may_be_filled_in_if_a_note_names_it(healthy):
    evidence = healthy.mini()
    turn = next(call for call in evidence.calls if "tool_calls" in call.delivered.body)

    def forget(parts):
        for made in tool_calls(parts):
            made["id"] = None

    own = json.loads(turn.delivered.body)["choices"][0]["message"]["tool_calls"][0]["id"]
    filled = edit_replied(turn, forget)
    assert result(with_call(evidence, filled), "PAR-007") == "failed"
    noted = filled.model_copy(update={"notes": (id_filled_in(own, call=0),)})
    assert result(with_call(evidence, noted), "PAR-007") == "passed"
    renamed = turn.model_copy(update={"notes": noted.notes, "replied": edit_replied(turn, rename).replied})
    assert result(with_call(evidence, renamed), "PAR-007") == "failed"


def rename(parts):
    for made in tool_calls(parts):
        made["id"] = "call_of_the_engine"


def test_arguments_that_are_no_json_must_come_back_as_they_were(healthy):
    evidence = replace_text(healthy.mini(), '{\\"command\\": \\"ls -la\\"}', "{broken")
    assert result(evidence, "PAR-006") == result(evidence, "PAR-007") == "passed"

    def repair(messages):
        for message in messages:
            for call in message.get("tool_calls", ()):
                if call["function"]["arguments"] == "{broken":
                    call["function"]["arguments"] = "{}"

    assert result(with_history(evidence, repair), "PAR-006") == "failed"


def test_a_call_without_a_name_in_its_first_fragment_is_out_of_order(healthy):
    evidence = healthy.pi()
    nameless = edit_delivered(evidence.calls[0], lambda parts: tool_calls(parts)[0]["function"].pop("name"))
    assert result(with_call(evidence, nameless), "STR-006") == "failed"


def test_an_event_that_is_no_json_object_is_found(healthy):
    evidence = healthy.pi()
    call = evidence.calls[0]
    delivered = call.delivered.model_copy(update={"body": "data: {torn\n\n" + call.delivered.body})
    assert result(with_call(evidence, call.model_copy(update={"delivered": delivered})), "STR-005") == "failed"


def test_a_retry_whose_first_reply_never_arrived_is_no_fault(healthy):
    evidence = healthy.pi()
    renumbered = tuple(call.model_copy(update={"index": call.index + 1}) for call in evidence.calls)
    times = evidence.calls[0].times.model_copy(update={"delivered": None})
    lost = evidence.calls[0].model_copy(update={"delivery": "client_gone", "times": times})
    lost = replace_text(replace(evidence, calls=(lost,)), "chatcmpl-0", "chatcmpl-lost").calls[0]
    assert failed(replace(evidence, calls=(lost, *renumbered))) == set()


def test_a_call_that_the_engine_refused_and_the_harness_repeated_is_no_fault(healthy):
    evidence = healthy.mini()
    renumbered = tuple(call.model_copy(update={"index": call.index + 1}) for call in evidence.calls)
    error = evidence.calls[0].model_copy(
        update={"outcome": "upstream_error", "prompt_ids": None, "samples": (), "error": "500", "delivered": None}
    )
    assert failed(replace(evidence, calls=(error, *renumbered))) == set()


def test_a_trajectory_without_counts_is_unverifiable_never_a_match(healthy):
    evidence = with_steps(healthy.pi(), lambda step: step.pop("metrics", None))
    evidence = edit_file(evidence, TRAJECTORY, lambda document: document.pop("final_metrics"))
    evidence = edit_file(evidence, RESULT, lambda document: document.update(agent_result=None))
    assert result(evidence, "ATF-005") == result(evidence, "ATF-006") == "unverifiable"


def test_counts_that_are_all_zero_are_unverifiable_never_a_match(healthy):
    evidence = with_steps(healthy.pi(), lambda step: step.update(metrics={"prompt_tokens": 0, "completion_tokens": 0}))
    assert result(evidence, "ATF-005") == "unverifiable"


def test_one_step_with_zero_tokens_among_others_is_a_mismatch(healthy):
    def forget(step):
        if step["step_id"] == 3:
            step["metrics"] = {"prompt_tokens": 0, "completion_tokens": 0}

    assert result(with_steps(healthy.pi(), forget), "ATF-005") == "failed"


def test_steps_that_neither_count_their_calls_nor_name_them_are_unverifiable(healthy):
    def forget(step):
        for name in ("llm_call_count", "extra", "tool_calls", "observation"):
            step.pop(name, None)
        step["message"] = ""

    assert result(with_steps(healthy.pi(), forget), "ATF-002") == "unverifiable"


def test_steps_that_do_not_count_their_calls_are_counted_by_what_they_name(healthy):
    evidence = with_steps(healthy.pi(), lambda step: step.pop("llm_call_count", None))
    assert result(evidence, "ATF-002") == "passed"
    assert result(edit_file(evidence, TRAJECTORY, lambda document: document["steps"].pop()), "ATF-002") == "failed"


@pytest.mark.parametrize(
    ("stops", "logged", "expected"), [(1, 1, "passed"), (1, 0, "passed"), (2, 1, "passed"), (1, 2, "failed"), (0, 1, "failed")]
)
def test_stop_replies_of_the_proxy_may_be_logged_as_calls_but_no_others(healthy, stops, logged, expected):
    evidence = healthy.pi()
    nothing = {"outcome": "budget_stop", "forwarded": None, "replied": None, "prompt_ids": None, "samples": ()}
    calls = [
        evidence.calls[-1].model_copy(update={**nothing, "index": len(evidence.calls) + number, "id": f"stop-{number}"})
        for number in range(stops)
    ]

    def log(document):
        for _ in range(logged):
            step = {"step_id": len(document["steps"]) + 1, "source": "agent", "message": "The budget is used up.", "llm_call_count": 1}
            document["steps"].append(step)

    found = edit_file(replace(evidence, calls=(*evidence.calls, *calls)), TRAJECTORY, log)
    assert result(found, "ATF-002") == expected


def test_copied_context_is_no_call_of_this_trajectory(healthy):
    def copy(document):
        copied = {**document["steps"][1], "is_copied_context": True}
        document["steps"] = [copied, *document["steps"]]
        for number, step in enumerate(document["steps"], start=1):
            step["step_id"] = number

    assert failed(edit_file(healthy.pi(), TRAJECTORY, copy)) == set()


def test_a_trajectory_that_is_no_json_is_not_there(healthy):
    assert result(with_file(healthy.pi(), TRAJECTORY, "torn {"), "ATF-001") == "failed"


def test_an_unlinked_result_beside_a_linked_one_is_found(healthy):
    evidence = apply("unlinked_result", healthy.pi())
    (finding,) = judge_one(evidence, CATALOGUE["ATF-003"]).findings
    assert finding.seen == "1 that name none"


@pytest.mark.parametrize(("text", "rewards"), [("1", {"reward": 1.0}), ("-7.5\n", {"reward": -7.5}), ("banana", None)])
def test_what_the_verifier_wrote_is_what_the_result_has(healthy, text, rewards):
    evidence = with_file(healthy.pi(), "trial/verifier/reward.txt", text)
    evidence = edit_file(evidence, RESULT, lambda document: document.update(verifier_result={"rewards": rewards}))
    assert result(evidence, "REW-001") == "passed"


@pytest.mark.parametrize("rewards", [{"reward": 0.0}, {"reward": 1.0, "style": 1.0}, {}, None])
def test_what_the_verifier_did_not_write_is_found(healthy, rewards):
    evidence = edit_file(healthy.pi(), RESULT, lambda document: document.update(verifier_result={"rewards": rewards}))
    assert result(evidence, "REW-001") == "failed"


def test_text_that_is_no_number_gives_no_reward(healthy):
    evidence = with_file(healthy.pi(), "trial/verifier/reward.txt", "banana")
    assert result(evidence, "REW-001") == "failed"


def test_a_model_that_went_its_own_way_is_not_held_to_the_reward_of_the_script(healthy):
    assert result(apply("another_command", apply("wrong_reward", healthy.pi())), "REW-003") == "not_exercised"


def test_a_missing_verdict_is_an_exception_where_the_scenario_foresees_one(healthy):
    evidence = healthy.pi(graded=False)
    scenario = evidence.manifest.scenario.model_copy(update={"reward": 1.0})
    assert result(evidence, "SEA-004") == "passed"
    assert result(with_manifest(evidence, scenario=scenario), "SEA-004") == "failed"


@pytest.mark.parametrize(
    ("version", "expected"), [("1.6.0", "passed"), ("v1.6.0", "passed"), ("", "failed"), ("Unknown", "failed"), ("1.6.1", "failed")]
)
def test_the_version_is_known_and_the_log_does_not_contradict_it(healthy, version, expected):
    evidence = with_manifest(healthy.pi(), versions={"harness": version, "harbor": "0.26.0"})
    assert result(evidence, "SEA-005") == expected


@pytest.mark.parametrize(
    ("logged", "expected"),
    [
        ("agent, version 1.6.0", "passed"),
        ("Agent v1.6.0 (2026.7.20)\nPython: 3.12.1", "passed"),
        ("unknown", "passed"),
        ("agent, version 1.6.01", "failed"),
        ("agent 11.6.0", "failed"),
        ("1.6.0.1", "failed"),
        ("1.6.0-beta", "failed"),
        ("agent", "failed"),
    ],
)
def test_a_log_may_name_the_version_in_a_sentence(healthy, logged, expected):
    evidence = edit_file(healthy.pi(), TRAJECTORY, lambda document: document["agent"].update(version=logged))
    assert result(evidence, "SEA-005") == expected


def test_a_model_list_is_no_call_in_another_dialect(healthy):
    evidence = healthy.pi()
    listing = evidence.calls[0].model_copy(update={"index": 3, "method": "GET", "path": "/v1/models", "samples": (), "prompt_ids": None})
    assert failed(replace(evidence, calls=(*evidence.calls, listing))) == set()


def test_a_key_is_never_shown_by_the_finding_that_found_it(healthy):
    for name in ("key_in_log", "key_in_request"):
        findings = judge_one(apply(name, healthy.pi()), CATALOGUE["ISO-001"]).findings
        assert findings
        assert "saboteur" not in json.dumps([str(finding) for finding in findings])


def test_a_break_in_the_chain_is_named_with_its_place(healthy):
    (finding,) = judge_one(apply("rewritten_history", healthy.pi()), CATALOGUE["GRF-001"]).findings
    assert finding.seen == "another id at position 1"
    assert finding.call == 2
