"""TOK and LGP: what was sampled is captured as it was served, whatever the harness says and however it asks."""

import math

import pytest

from pytest_harness.engines.scripted import Fault
from pytest_harness.session.wire_marks import both_modes, each_dialect, requirement
from pytest_harness.wire.outcome import expect, same

STEPS = (("I look: ✓ 完了.", ["ls -la", "cat 'é.txt'"]), ("Done.", ()))
SYSTEM = "You work in a shell."


def two_turns(case, dialect, streamed, **options):
    stage = case.stage(*STEPS, **options)
    session = case.session()
    talk = case.talk(dialect, stage, session, tools=True, system=SYSTEM)
    talk.ask(streamed=streamed)
    talk.results(["a b", "c"])
    talk.ask(streamed=streamed)
    return stage, session


@requirement("TOK-101")
@each_dialect
@both_modes
def test_captured_ids_are_the_engines(case, dialect, streamed):
    stage, session = two_turns(case, dialect, streamed)
    case.calls_as_served(session, stage)


@requirement("TOK-102")
@both_modes
def test_every_answered_call_is_captured_once(case, streamed):
    stage, session = case.stage(), case.session()
    for number in range(6):
        talk = case.talk("chat", stage, session, text=f"Question {number}")
        talk.ask(streamed=streamed)
    same(len(case.calls(session, 6)), 6, "captured calls")


@requirement("TOK-103")
@both_modes
@pytest.mark.parametrize(
    "fields",
    [{"return_token_ids": False, "logprobs": False}, {"return_token_ids": None, "logprobs": None, "top_logprobs": None}],
    ids=["false", "null"],
)
def test_a_client_cannot_switch_the_capture_off(case, fields, streamed):
    stage, session = case.stage(), case.session()
    reply = case.ask(stage, session, stream=streamed, **fields)
    same(reply.status, 200, "the status")
    case.captured_as_served(case.calls(session, 1)[0], stage.answered[0])


@requirement("TOK-104")
@each_dialect
def test_the_engine_is_asked_for_the_model_it_serves(case, dialect):
    stage = case.stage()
    case.talk(dialect, stage, model="gpt-of-the-harness").ask()
    same(stage.only.body.get("model"), case.upstream.engine.model, "the model that the engine is asked for")


@requirement("TOK-105")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("truncate_prompt_tokens", 5),
        ("echo", True),
        ("prompt_logprobs", 1),
        ("chat_template", "{{ 1 }}"),
        ("add_generation_prompt", False),
        ("continue_final_message", True),
    ],
)
def test_a_client_cannot_distort_the_prompt_unseen(case, field, value):
    stage, session = case.stage(), case.session()
    reply = case.ask(stage, session, **{field: value})
    if 400 <= reply.status < 500:
        return
    expect(field not in stage.only.body, f"a refusal, or a request without {field}", stage.only.body)


@requirement("TOK-106")
@both_modes
def test_ids_that_the_engine_did_not_send_are_not_made_up(case, streamed):
    stage, session = case.stage(faults=[Fault("null_ids")]), case.session()
    said = case.talk("chat", stage, session).ask(streamed=streamed)
    same(said.text, "A plain answer.", "the reply to the harness")
    for call in case.adapter.calls(session):
        expect(not call.prompt_ids, "no prompt ids", call.prompt_ids)
        for sample in call.samples:
            expect(not sample.token_ids, "no sampled ids", sample.token_ids)


@requirement("TOK-107")
def test_messages_and_tools_reach_the_engine_unchanged(case):
    stage, session = case.stage(), case.session()
    call = {"id": "call_1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
    messages = [
        {"role": "system", "content": "First."},
        {"role": "user", "content": [{"type": "text", "text": f"Hello ({stage.tag})"}, {"type": "text", "text": " there"}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "a\nb"},
        {"role": "assistant", "content": "  Spaces stay. "},
        {"role": "developer", "content": "From now on in German."},
        {"role": "user", "content": "Next."},
        {"role": "system", "content": "A late word."},
        {"role": "user", "content": "Go on."},
    ]
    parameters = {"type": "object", "properties": {"b": {"type": "string"}, "a": {"type": ["integer", "null"], "x-note": "kept"}}}
    tools = [{"type": "function", "function": {"name": "bash", "description": "Run.", "parameters": parameters}}]
    reply = case.ask(stage, session, messages=messages, tools=tools)
    same(reply.status, 200, "the status")
    forwarded = stage.only.body
    same([message.get("role") for message in forwarded["messages"]], [message["role"] for message in messages], "the roles")
    same(forwarded["messages"], messages, "the messages that the engine got")
    same(forwarded.get("tools"), tools, "the tools that the engine got")


@requirement("LGP-101")
@each_dialect
@both_modes
def test_captured_logprobs_are_the_engines_one_for_each_id(case, dialect, streamed):
    stage, session = two_turns(case, dialect, streamed)
    for call, served in zip(case.calls(session, 2), stage.answered, strict=True):
        same(list(call.samples[0].logprobs or ()), list(served.logprobs()), "captured logprobs")
        same(len(call.samples[0].logprobs or ()), len(served.ids()), "logprobs, one for each id that was sampled")


@requirement("LGP-102")
@both_modes
@pytest.mark.parametrize("kind", ["misaligned_logprobs", "missing_logprobs"])
def test_lost_logprobs_are_not_filled_in(case, kind, streamed):
    stage, session = case.stage(faults=[Fault(kind)]), case.session()
    case.talk("chat", stage, session).ask(streamed=streamed)
    served = stage.answered[0].logprobs()
    for call in case.adapter.calls(session):
        for sample in call.samples:
            expect(not sample.logprobs or tuple(sample.logprobs) == served, f"none, or the {len(served)} that were served", sample.logprobs)


@requirement("LGP-103")
@both_modes
def test_a_client_that_asks_for_logprobs_gets_them(case, streamed):
    stage, session = case.stage(), case.session()
    reply = case.ask(stage, session, stream=streamed, logprobs=True, top_logprobs=2)
    same(reply.status, 200, "the status")
    documents = [event for event in reply.events if event != "[DONE]"] if streamed else [reply.document]
    entries = [
        entry
        for document in documents
        for choice in document.get("choices", ())
        for entry in (choice.get("logprobs") or {}).get("content") or ()
    ]
    same([entry["logprob"] for entry in entries], list(stage.answered[0].logprobs()), "the logprobs that the harness gets")
    expect(all(len(entry["top_logprobs"]) == 2 for entry in entries), "two top logprobs for each token", entries)


@requirement("LGP-104")
@both_modes
@pytest.mark.parametrize("kind", ["nan_logprob", "positive_logprob"])
def test_an_impossible_logprob_neither_costs_the_reply_nor_is_repaired(case, kind, streamed):
    stage, session = case.stage(faults=[Fault(kind, after=1)]), case.session()
    said = case.talk("chat", stage, session).ask(streamed=streamed)
    same(said.text, "A plain answer.", "the reply to the harness")
    bad = stage.answered[0].logprobs()[1]
    for call in case.adapter.calls(session):
        for sample in call.samples:
            seen = sample.logprobs[1] if sample.logprobs and len(sample.logprobs) > 1 else None
            kept = seen is None or seen == bad or (isinstance(seen, float) and math.isnan(seen) and math.isnan(bad))
            expect(kept, f"{bad}, or no logprob", seen)
