"""FIN and USE: how a reply ended, how long it may be, what it cost, and several replies at once."""

import copy

import pytest

from pytest_harness.session.wire_marks import both_modes, each_dialect, requirement
from pytest_harness.wire.outcome import expect, same

LONG = ("One two three four five six seven eight nine ten.", ())


@requirement("FIN-101")
@each_dialect
@both_modes
def test_a_truncated_reply_is_told_as_one(case, dialect, streamed):
    stage, session = case.stage(LONG), case.session()
    said = case.talk(dialect, stage, session).ask(streamed=streamed, limit=4)
    same(said.finish, "length", "how the SDK says it ended")
    call = case.calls(session, 1)[0]
    same((call.samples[0].finish_reason, len(call.samples[0].token_ids or ())), ("length", 4), "captured finish reason and sampled ids")


@requirement("FIN-102")
@each_dialect
@both_modes
@pytest.mark.parametrize(("commands", "finish"), [((), "stop"), (("ls",), "tool_calls")], ids=["stop", "tool_calls"])
def test_the_captured_finish_reason_is_the_engines(case, dialect, streamed, commands, finish):
    stage, session = case.stage(("Some text.", commands)), case.session()
    said = case.talk(dialect, stage, session, tools=True).ask(streamed=streamed)
    same(said.finish, finish, "how the SDK says it ended")
    same(case.calls(session, 1)[0].samples[0].finish_reason, stage.answered[0].finish(), "the captured finish reason")


@requirement("FIN-103")
@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_either_name_of_the_limit_is_obeyed(case, name):
    stage, session = case.stage(LONG), case.session()
    reply = case.ask(stage, session, **{name: 3})
    same(reply.status, 200, "the status")
    same(len(stage.answered[0].ids()), 3, "tokens that the engine sampled")


@requirement("FIN-104")
@pytest.mark.parametrize("dialect", ["chat", "responses", "gemini"])
def test_a_limit_that_nobody_set_is_not_made_up(case, dialect):
    stage, session = case.stage(), case.session()
    case.needs(dialect)
    same(case.ask(stage, session, dialect).status, 200, "the status")
    body = stage.only.body
    limits = {name: body[name] for name in ("max_tokens", "max_completion_tokens") if body.get(name) is not None}
    expect(not limits, "a request to the engine without a limit", limits)


@requirement("FIN-105")
@pytest.mark.parametrize(
    ("dialect", "fields"),
    [
        ("chat", {"stop": ["five"]}),
        ("messages", {"stop_sequences": ["five"]}),
        ("gemini", {"generationConfig": {"stopSequences": ["five"]}}),
    ],
    ids=["chat", "messages", "gemini"],
)
def test_a_stop_sequence_ends_the_reply_and_is_told(case, dialect, fields):
    case.needs(dialect)
    stage, session = case.stage(LONG), case.session()
    reply = case.ask(stage, session, dialect, **fields)
    same(reply.status, 200, "the status")
    document = reply.document
    if dialect == "messages":
        same((document["stop_reason"], document["stop_sequence"]), ("stop_sequence", "five"), "stop_reason and stop_sequence")
        text = "".join(block.get("text", "") for block in document["content"])
    elif dialect == "gemini":
        text = "".join(part.get("text", "") for part in document["candidates"][0]["content"]["parts"])
    else:
        text = document["choices"][0]["message"]["content"]
    same(text, "One two three four ", "the text before the stop sequence")
    case.calls_as_served(session, stage)


@requirement("USE-101")
@each_dialect
@both_modes
def test_the_harness_is_told_the_engines_usage(case, dialect, streamed):
    stage = case.stage(("Some text.", ["ls", "pwd"]))
    said = case.talk(dialect, stage, tools=True).ask(streamed=streamed)
    usage = stage.answered[0].usage
    same((said.prompt_tokens, said.sampled_tokens), (usage["prompt_tokens"], usage["completion_tokens"]), "usage as the SDK tells it")


@requirement("USE-102")
@pytest.mark.parametrize(
    ("dialect", "details"),
    [
        ("chat", None),
        ("responses", ("input_tokens_details", "cached_tokens")),
        ("messages", "cache_read_input_tokens"),
        ("gemini", "cachedContentTokenCount"),
    ],
    ids=["chat", "responses", "messages", "gemini"],
)
def test_cached_tokens_are_told(case, dialect, details):
    def change(document):
        if document.get("usage"):
            document["usage"]["prompt_tokens_details"] = {"cached_tokens": 5}

    case.needs(dialect)
    stage = case.stage(change=change)
    document = case.ask(stage, case.session(), dialect).document
    usage = document["usageMetadata" if dialect == "gemini" else "usage"]
    if dialect == "chat":
        seen = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
    elif dialect == "responses":
        seen = (usage.get(details[0]) or {}).get(details[1])
    else:
        seen = usage.get(details)
    same(seen, 5, "cached tokens")


@requirement("USE-103")
@both_modes
def test_several_choices_are_refused_or_all_captured(case, streamed):
    stage, session = case.stage(), case.session()
    reply = case.ask(stage, session, n=3, stream=streamed)
    if 400 <= reply.status < 500:
        return
    documents = [event for event in reply.events if event != "[DONE]"] if streamed else [reply.document]
    delivered = {choice["index"] for document in documents for choice in document["choices"]}
    same(delivered, {0, 1, 2}, "the choices that the harness gets")
    call = case.calls(session, 1)[0]
    same(len(call.samples), 3, "captured choices")
    for index, sample in enumerate(call.samples):
        same(list(sample.token_ids or ()), list(stage.answered[0].ids(index)), f"the captured ids of choice {index}")


@requirement("USE-104")
def test_no_choice_is_delivered_uncaptured(case):
    def change(document):
        if len(document["choices"]) == 1:
            document["choices"].append({**copy.deepcopy(document["choices"][0]), "index": 1})

    stage, session = case.stage(change=change), case.session()
    reply = case.ask(stage, session)
    if reply.status != 200:
        return
    delivered = len(reply.document["choices"])
    calls = case.complete(session)
    captured = len(calls[0].samples) if calls else 0
    expect(delivered <= captured, "no more choices delivered than captured", f"{delivered} delivered, {captured} captured")


@requirement("USE-105")
@both_modes
def test_usage_that_contradicts_the_ids_changes_no_id(case, streamed):
    def change(document):
        if document.get("usage"):
            document["usage"]["completion_tokens"] += 3

    stage, session = case.stage(change=change), case.session()
    case.talk("chat", stage, session).ask(streamed=streamed)
    case.calls_as_served(session, stage)
