"""Evidence that is odd and nobody's fault: what a real vLLM answers at its edges, what sane harnesses do, what passing errors leave."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_harness.contract import judge, judge_one
from pytest_harness.requirements import load_catalogue
from pytest_harness.saboteurs.extras import NEUTRAL, failed_call, last_call, plant, side_call, thinking
from pytest_harness.saboteurs.surgery import (
    edit_body,
    edit_delivered,
    edit_forwarded,
    edit_parts,
    edit_reply,
    edit_request,
    with_call,
    with_manifest,
)

CATALOGUE = load_catalogue()
QUESTION = {"role": "user", "content": "Go on."}


def failed(evidence):
    return {judgement.requirement.id for judgement in judge(evidence, CATALOGUE) if judgement.result in {"failed", "error"}}


def result(evidence, requirement):
    return judge_one(evidence, CATALOGUE[requirement]).result


def made(arguments, name="chatcmpl-tool-0a1b2c3d4e5f60718293a4b5c6d7e8f9"):
    return {"id": name, "type": "function", "function": {"name": "bash", "arguments": arguments}}


def test_a_named_tool_ends_in_stop_and_its_sampling_is_marked(healthy):
    choice = {"type": "function", "function": {"name": "bash"}}
    odd = side_call(healthy.mini(), calls=[made("{}")], text=None, tool_choice=choice, constraints=("tool_choice",))
    assert result(odd, "FIN-004") == result(odd, "LGP-009") == "passed"


def test_a_limit_that_the_engine_clamped_to_its_context_may_cut_early(healthy):
    odd = side_call(healthy.mini(), prompt=4000, sampled=90, finish="length", max_tokens=8192)
    assert failed(odd) == set()
    assert result(side_call(odd, finish="length"), "FIN-007") == "failed"


def test_a_reply_of_nothing_but_reasoning_that_was_cut_is_no_fault_of_a_side_call(healthy):
    odd = side_call(
        healthy.pi(), text=None, finish="length", max_tokens=9, edit=lambda reply: reply["choices"][0]["message"].update(reasoning="Hm.")
    )
    assert failed(odd) == set()


def test_arguments_that_break_off_at_the_limit_are_told_as_cut(healthy):
    assert failed(side_call(healthy.pi(), calls=[made('{"comm')], finish="length", max_tokens=9)) == set()


def test_broken_arguments_before_the_limit_are_the_models(healthy):
    assert failed(side_call(healthy.pi(), calls=[made('{"comm')], finish="tool_calls", max_tokens=10)) == set()


def test_a_limit_that_was_just_met_by_the_last_word_is_no_cut(healthy):
    assert failed(side_call(healthy.pi(), max_tokens=9)) == set()


@pytest.mark.parametrize("reason", [None, 151643])
def test_the_token_that_ended_a_reply_is_not_a_stop_string(healthy, reason):
    odd = side_call(healthy.pi(), edit=lambda reply: reply["choices"][0].update(stop_reason=reason))
    assert failed(last_call(odd, lambda call: edit_delivered(call, forget))) == set()


def forget(parts):
    parts[0]["choices"][0].pop("stop_reason")


def test_details_that_are_null_are_as_good_as_absent(healthy):
    odd = side_call(
        healthy.pi(), edit=lambda reply: reply["usage"].update(prompt_tokens_details=None, completion_tokens_details={"audio_tokens": None})
    )
    assert failed(last_call(odd, lambda call: edit_delivered(call, lambda parts: parts[0]["usage"].pop("prompt_tokens_details")))) == set()


def test_two_choices_that_were_asked_for_are_not_one_too_many(healthy):
    odd = side_call(healthy.pi(), n=2)

    def twice(parts):
        parts[0]["choices"].append({**parts[0]["choices"][0], "index": 1})

    doubled = last_call(odd, lambda call: edit_reply(call, twice))
    assert result(odd, "USE-004") == "failed"
    assert result(doubled, "USE-004") == "passed"


def test_reasoning_that_is_never_sent_back_and_white_space_around_it_are_free(healthy):
    assert result(thinking(healthy.pi(), "I look.", [None, None]), "USE-007") == "passed"
    trimmed = thinking(healthy.pi(), "I look.\n\n", ["I look.", "I look."])
    assert result(trimmed, "USE-006") == result(trimmed, "USE-007") == "passed"


def test_a_template_may_drop_reasoning_from_a_prompt_that_goes_on(healthy):
    messages = [QUESTION, {"role": "assistant", "content": "It is so.", "reasoning_content": "A long thought."}]
    first = side_call(healthy.pi(), messages=messages, prompt=40)
    assert failed(side_call(first, messages=[*messages, {"role": "assistant", "content": "Done."}], prompt=30)) == set()


def test_a_new_question_may_make_a_prompt_shorter(healthy):
    first = side_call(healthy.pi(), messages=[QUESTION], prompt=40)
    assert failed(side_call(first, messages=[QUESTION, {"role": "assistant", "content": "A short title."}, QUESTION], prompt=30)) == set()


def test_examples_in_the_first_request_were_made_by_nobody_and_are_free(healthy):
    examples = ({"role": "assistant", "content": None, "tool_calls": [made("{}", "example-1")]}, result_of("example-1"))
    assert failed(plant(healthy.pi(), *examples)) == set()


def result_of(name):
    return {"role": "tool", "tool_call_id": name, "content": [{"type": "text", "text": "nothing"}]}


def test_text_in_parts_is_the_same_text(healthy):
    def parted(body):
        for message in body["messages"]:
            if isinstance(message.get("content"), str):
                message["content"] = [{"type": "text", "text": message["content"]}]

    evidence = healthy.mini()
    assert failed(replace(evidence, calls=tuple(edit_request(call, parted) for call in evidence.calls))) == set()


def test_an_error_without_words_and_one_page_of_html_ask_for_nothing(healthy):
    odd = failed_call(healthy.pi(), 1, status=502)
    call = odd.calls[1]
    page = call.replied.model_copy(update={"body": "<html>Bad gateway</html>", "headers": {"content-type": "text/html"}})
    assert failed(with_call(odd, call.model_copy(update={"replied": page, "delivered": page}))) == set()
    assert result(with_call(odd, call.model_copy(update={"replied": page, "delivered": page})), "ERR-002") == "not_exercised"


def test_a_broken_connection_tells_that_a_call_failed(healthy):
    odd = failed_call(healthy.pi(), 1, outcome="cut_upstream")
    assert failed(with_call(odd, odd.calls[1].model_copy(update={"delivered": None}))) == set()


def test_a_stream_that_had_begun_tells_its_error_in_an_event(healthy):
    odd = failed_call(healthy.pi(), 1, outcome="cut_upstream")
    call = odd.calls[1]
    finished = {"index": 0, "delta": {"content": "I l"}, "finish_reason": None}
    body = f'data: {json.dumps({"choices": [finished]})}\n\ndata: {{"error": {{"message": "the reply broke off"}}}}\n\n'
    told = call.delivered.model_copy(update={"body": body, "status": 200, "headers": {"content-type": "text/event-stream"}})
    assert failed(with_call(odd, call.model_copy(update={"delivered": told}))) == set()


def test_another_5xx_is_still_a_5xx_and_another_4xx_another_error(healthy):
    odd = failed_call(healthy.pi(), 1, status=500)
    call = odd.calls[1]
    assert result(with_call(odd, told(call, 529)), "ERR-001") == "passed"
    assert result(with_call(odd, told(call, 400)), "ERR-001") == "failed"


def told(call, status):
    return call.model_copy(update={"delivered": call.delivered.model_copy(update={"status": status})})


def test_a_model_may_speak_of_an_error_that_it_saw(healthy):
    words = "The engine has run out of memory on device 0."
    evidence = failed_call(healthy.pi(), 0)

    def speak(parts):
        first = parts[0]["choices"][0]["delta"]
        first["content"] = f"{words} I go on. "

    def echo(body):
        for message in body["messages"]:
            if message["role"] == "assistant" and message.get("content") == "I look.":
                message["content"] = f"{words} I go on. I look."

    spoken = with_call(evidence, edit_reply(evidence.calls[1], speak))
    for call in spoken.calls[1:]:
        spoken = with_call(spoken, edit_request(spoken.calls[call.index], echo))
    assert result(spoken, "ERR-006") == "passed"


def test_a_busy_engine_that_is_asked_again_later_is_no_end(healthy):
    twice = failed_call(failed_call(healthy.mini(), 1, status=503), 1, status=429)
    assert failed(twice) == set()


def test_keep_alive_comments_in_a_stream_are_nothing(healthy):
    evidence = healthy.pi()
    call = evidence.calls[0]
    body = ": keep-alive\n\n" + call.delivered.body
    assert failed(with_call(evidence, call.model_copy(update={"delivered": call.delivered.model_copy(update={"body": body})}))) == set()


def test_an_event_without_id_and_model_belongs_to_the_stream_all_the_same(healthy):
    evidence = healthy.pi()
    call = evidence.calls[0]
    nameless = edit_parts(call.delivered, lambda parts: parts[-1].update(id="", model=""))
    assert failed(with_call(evidence, call.model_copy(update={"delivered": nameless}))) == set()


def test_a_session_that_trains_at_a_temperature_of_its_own_is_whole(healthy):
    evidence = healthy.trained(healthy.mini())
    cold = replace(evidence, calls=tuple(edit_forwarded(call, lambda body: body.update(temperature=0.6)) for call in evidence.calls))
    assert failed(cold) == set()
    assert result(cold, "LGP-007") == "passed"


def test_what_a_session_was_for_says_whether_neutral_sampling_is_due(healthy):
    evidence = healthy.mini()
    assert result(evidence, "LGP-007") == "not_exercised"
    assert result(with_manifest(evidence, purpose="eval"), "LGP-007") == "not_exercised"
    assert result(with_manifest(evidence, purpose="train"), "LGP-007") == "failed"
    assert result(with_manifest(healthy.trained(evidence), purpose="eval"), "LGP-007") == "passed"
    asked = tuple(edit_request(call, lambda body: body.update(NEUTRAL, temperature=1.0)) for call in evidence.calls)
    assert result(with_manifest(replace(evidence, calls=asked), purpose="train"), "LGP-007") == "passed"


def whole_instead(evidence, outcome="cut_upstream", edit=lambda _: None):
    """The second turn was streamed and broke off, and was asked for as a whole then."""
    cut = failed_call(evidence, 1, outcome=outcome, edit=edit)
    said = cut.calls[1].replied.model_copy(update={"body": 'data: {"error": {"message": "Connection closed."}}\n\n', "status": 200})
    cut = with_call(cut, cut.calls[1].model_copy(update={"replied": said, "delivered": said}))
    return with_call(cut, as_a_whole(cut.calls[2]))


def as_a_whole(call):
    return edit_request(call, lambda body: body.update(stream=False))


def test_a_turn_may_be_asked_for_as_a_whole_when_its_stream_broke_off(healthy):
    evidence = healthy.pi()
    assert result(whole_instead(evidence), "STR-001") == "passed"
    assert result(whole_instead(evidence, outcome="cancelled"), "STR-001") == "failed"
    assert result(whole_instead(evidence, edit=lambda body: body["messages"].pop()), "STR-001") == "failed"
    assert result(with_call(evidence, as_a_whole(evidence.calls[1])), "STR-001") == "failed"


def test_a_session_may_steer_its_engine_if_it_marks_the_calls(healthy):
    evidence = healthy.mini()
    steered = edit_forwarded(evidence.calls[0], lambda body: body.update(structured_outputs={"choice": ["I look."]}))
    assert {"TOK-009", "LGP-009"} <= failed(with_call(evidence, steered))
    assert failed(with_call(evidence, steered.model_copy(update={"constraints": ("structured_outputs",)}))) == set()


def test_what_the_proxy_adds_that_is_not_neutral_is_still_found(healthy):
    evidence = healthy.mini()
    added = with_call(evidence, edit_forwarded(evidence.calls[0], lambda body: body.update(top_p=0.9)))
    assert result(added, "TOK-009") == "failed"
    assert result(added, "LGP-007") == "not_exercised"


@pytest.mark.parametrize("fields", [{"tool_choice": "none"}, {"response_format": {"type": "text"}}, {"logit_bias": {}}, {"min_tokens": 0}])
def test_a_field_that_constrains_nothing_needs_no_mark(healthy, fields):
    assert failed(side_call(healthy.mini(), **fields)) == set()


def test_a_call_that_was_cut_in_the_middle_leaves_its_mark_in_the_text(healthy):
    cut = side_call(healthy.mini(), text='<tool_call>{"name": "ba', finish="length", max_tokens=9)
    assert failed(cut) == set()


def test_a_cut_reply_is_a_finding_only_if_the_agent_needs_it(healthy):
    assert result(side_call(healthy.mini(), finish="length", max_tokens=9), "FIN-008") == "passed"


def test_a_request_that_differs_is_not_the_one_that_was_refused(healthy):
    odd = failed_call(healthy.pi(), 1, status=400, message="The field `seed` is not supported.", edit=lambda body: body.update(seed=1))
    assert failed(odd) == set()


def test_a_last_call_that_was_refused_for_good_is_an_end(healthy):
    odd = failed_call(healthy.pi(), 3, status=401, message="The key is not valid.", edit=lambda body: body.update(seed=1))
    assert failed(odd) == set()


def test_a_conversation_without_a_turn_of_the_agent_says_nothing_of_it(healthy):
    evidence = replace(healthy.pi(), calls=())
    for requirement in ("TOK-013", "LGP-008", "FIN-008"):
        assert result(evidence, requirement) == "not_exercised"


@settings(max_examples=25, deadline=None)
@given(sampled=st.integers(1, 30), spare=st.integers(0, 30), limited=st.booleans(), text=st.text(st.characters(codec="ascii"), max_size=20))
def test_whatever_the_length_and_the_limit_a_reply_within_them_is_no_fault(healthy, sampled, spare, limited, text):
    fields = {"max_tokens": sampled + spare} if limited else {}
    odd = side_call(healthy.mini(), text=text, sampled=sampled, **fields)
    assert failed(odd) == set()


@settings(max_examples=25, deadline=None)
@given(total=st.integers(0, 20), part=st.integers(0, 20))
def test_a_part_of_a_count_may_be_anything_up_to_the_whole(healthy, total, part):
    odd = side_call(
        healthy.mini(), prompt=max(total, 1), edit=lambda reply: reply["usage"].update(prompt_tokens_details={"cached_tokens": part})
    )
    assert (result(odd, "USE-002") == "passed") is (part <= max(total, 1))


def test_a_body_that_is_no_json_is_no_traceback(healthy):
    evidence = healthy.pi()
    broken = edit_body(evidence.calls[0].received, lambda body: body.clear()).model_copy(update={"body": "{"})
    odd = with_call(evidence, evidence.calls[0].model_copy(update={"received": broken}))
    assert not [judgement for judgement in judge(odd, CATALOGUE) if judgement.result == "error"]


ODD = [None, True, -1, 1.5, "", [], {}, ["a"], {"a": 1}, [[]]]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_value_of_any_kind_in_any_place_of_a_message_breaks_no_check(healthy, data):
    evidence = healthy.eventful(healthy.mini())
    call = data.draw(st.sampled_from([call for call in evidence.calls if call.replied is not None]))
    name = data.draw(st.sampled_from(["received", "forwarded", "replied", "delivered"]))
    body = json.loads(getattr(call, name).body)
    place = body
    while True:
        key = data.draw(st.sampled_from(sorted(place)) if isinstance(place, dict) else st.integers(0, len(place) - 1))
        if not isinstance(place[key], dict | list) or not place[key] or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = data.draw(st.sampled_from(ODD))
    message = getattr(call, name).model_copy(update={"body": json.dumps(body)})
    odd = with_call(evidence, call.model_copy(update={name: message}))
    broken = [f"{each.requirement.id}: {each.reason}" for each in judge(odd, CATALOGUE) if each.result == "error"]
    assert broken == []


@pytest.mark.parametrize(
    ("constraints", "value", "said"),
    [(("structured_outputs",), 0.0, "not_exercised"), ((), 0.0, "failed"), (("structured_outputs",), -1.0, "failed")],
    ids=["forced", "free", "not certain"],
)
def test_logprobs_of_0_throughout_are_no_fault_only_where_every_token_was_forced(healthy, constraints, value, said):
    evidence = healthy.pi()
    calls = tuple(
        call.model_copy(
            update={
                "constraints": constraints,
                "samples": tuple(each.model_copy(update={"logprobs": (value,) * len(each.logprobs)}) for each in call.samples),
            }
        )
        for call in evidence.calls
    )
    assert result(replace(evidence, calls=calls), "LGP-005") == said
