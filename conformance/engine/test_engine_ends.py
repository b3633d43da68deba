"""FIN: every reply says why it ended, a cut one says that it was cut, and nothing that was sampled is lost at the end."""

import re

import pytest

from pytest_harness.session.case_marks import requirement
from pytest_harness.session.wire_marks import both_modes
from pytest_harness.wire.outcome import NotExercised, eventually, expect, same

REASONS = ("stop", "length", "tool_calls", "function_call", "content_filter")
limits = pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
RUNNING = re.compile(r"^(?:vllm:num_requests_running|sglang:num_running_reqs)(?:\{[^}]*\})? ([0-9.e+]+)$", re.MULTILINE)
NOTICED_SEC = 10.0


@requirement("FIN-201")
@both_modes
@pytest.mark.parametrize("kind", ["text", "call", "sampled"])
def test_every_reply_says_why_it_ended_once(case, kind, streamed):
    fields = {"max_tokens": 8} if kind == "sampled" else case.of(kind).fields
    choice = case.ask(streamed=streamed, **fields).only
    same(len(choice.finishes), 1, f"finish reasons, one alone among {choice.finishes}")
    expect(choice.finish in REASONS, f"one of {', '.join(REASONS)}", choice.finish)


def cut_at(case, way, most, streamed, name="max_tokens"):
    fields = {**way.fields, "max_tokens": None, name: most}
    return case.ask(streamed=streamed, **fields).only


@requirement("FIN-202")
@both_modes
def test_a_cut_text_says_length(case, streamed):
    way = case.can.text()
    whole = case.ask(way).only
    if len(case.ids(whole)) <= 4:
        raise NotExercised("the model said so little that nothing can be cut")
    choice = cut_at(case, way, 3, streamed)
    same(choice.finish, "length", "the finish reason of a text that met its limit")


@requirement("FIN-203")
@both_modes
@pytest.mark.parametrize("part", [0.5, 0.8], ids=["half", "most"])
def test_a_cut_call_says_length_and_never_that_it_is_one(case, part, streamed):
    way = case.can.calling()
    whole = case.ask(way).only
    choice = cut_at(case, way, max(1, int(len(case.ids(whole)) * part)), streamed)
    same(choice.finish, "length", "the finish reason of a call that met its limit")


@requirement("FIN-204")
@both_modes
@limits
@pytest.mark.parametrize("most", [1, 5])
def test_no_reply_is_longer_than_its_limit(case, most, name, streamed):
    choice = cut_at(case, case.can.text(), most, streamed, name)
    expect(len(case.ids(choice)) <= most, f"at most {most} ids under {name}", f"{len(case.ids(choice))} ids")


def stopped(case, streamed):
    """A reply that a stop string ended, the string, and what was said without it."""
    fields = {**case.can.text().fields, "seed": 11}
    whole = case.ask(**fields).only
    text = whole.content
    words = re.findall(r"\w{3,}", text[4:])
    if not words or case.ask(**fields).only.content != text:
        raise NotExercised("the model says too little, or not the same twice, so that nothing to stop at is known")
    stop = words[min(1, len(words) - 1)]
    return case.ask(streamed=streamed, **fields, stop=[stop]), stop, text


@requirement("FIN-205")
@both_modes
def test_a_stop_string_ends_the_reply_before_it(case, streamed):
    said, stop, text = stopped(case, streamed)
    same(said.only.content, text[: text.find(stop)], f"the text before {stop!r}")
    same(said.only.finish, "stop", "the finish reason")


@requirement("FIN-206")
@both_modes
def test_no_id_is_lost_at_a_stop_string(case, streamed):
    said, stop, _ = stopped(case, streamed)
    case.counted(said)
    same(len(case.entries(said.only)), len(case.ids(said.only)), "logprobs, one for each id")
    decoded = case.asking.decoded(case.ids(said.only))
    expect(decoded is None or stop in decoded, f"ids up to the end of {stop!r}, which was sampled", decoded)


@requirement("FIN-207")
@both_modes
def test_the_stop_string_that_was_met_is_told(case, streamed):
    said, stop, _ = stopped(case, streamed)
    same(said.only.stop_reason, stop, "stop_reason")


@requirement("FIN-208")
@both_modes
def test_a_reply_with_calls_says_so(case, streamed):
    choice = case.ask(case.can.calling(), streamed=streamed).only
    expect(choice.calls, "a tool call", choice.content)
    same(choice.finish, "tool_calls", "the finish reason")


def running(case):
    """The requests that the engine works on, by its own count; None where it does not tell."""
    asking = case.asking
    reply = asking.http.send("GET", asking.beside("/metrics"))
    found = RUNNING.findall(reply.body.decode(errors="replace")) if reply.status == 200 else []
    return sum(map(float, found)) if found else None


@requirement("FIN-209")
def test_a_request_whose_client_has_gone_ends(case):
    if running(case) is None:
        raise NotExercised("the engine tells at /metrics no number of requests that it works on")
    if not eventually(lambda: running(case) == 0, bool, NOTICED_SEC):
        raise NotExercised("others ask the engine at the same time")
    asking = case.asking
    body = asking.body(
        stream=True, max_tokens=min(20_000, (case.can.max_model_len or 2_048) - 1_000), ignore_eos=True, logprobs=None, top_logprobs=None
    )
    with asking.http.stream(asking.url("/chat/completions"), body, key=asking.endpoint.api_key) as pieces:
        next(pieces)
        at_work = running(case)
    if not at_work:
        raise NotExercised("the request had ended before its client could go")
    left = eventually(lambda: running(case), lambda count: count == 0, NOTICED_SEC)
    same(left, 0.0, f"requests at work {NOTICED_SEC:.0f} s after their client has gone")
