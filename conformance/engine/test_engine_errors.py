"""ERR: what cannot be answered is refused with a status and an error that say why."""

import json

import pytest

from pytest_harness.session.case_marks import requirement
from pytest_harness.wire.outcome import NotExercised, expect

MOST_CONTEXT = 300_000
"""Longer contexts are not filled for a test."""
WORDS = ("context", "length", "token", "long")
GOOD = {"role": "user", "content": "Hello"}


def send(case, body):
    asking = case.asking
    headers = {"content-type": "application/json"}
    if asking.endpoint.api_key is not None:
        headers["authorization"] = f"Bearer {asking.endpoint.api_key}"
    return asking.http.send("POST", asking.url("/chat/completions"), headers=headers, body=body)


def refusal(reply):
    """The words of a refusal. Raises Broken unless it is one in the form that OpenAI's clients read."""
    seen = f"status {reply.status}: {reply.body[:300].decode(errors='replace')}"
    expect(400 <= reply.status < 500, "a status from 400 to 499", seen)
    error = reply.document.get("error") if isinstance(reply.document, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    expect(isinstance(message, str) and message, "an object `error` with a `message`", seen)
    return message


@requirement("ERR-201")
def test_a_prompt_beyond_the_context_is_refused_as_such(case):
    length = case.can.max_model_len
    if length is None or length > MOST_CONTEXT:
        raise NotExercised("the engine does not say how long its context is, or it is too long to be filled for a test")
    reply = case.asking.post(messages=[{"role": "user", "content": "pear " * (length + 64)}], max_tokens=1)
    message = refusal(reply)
    expect(reply.status in (400, 413, 422), "status 400", f"status {reply.status}: {message}")
    expect(any(word in message.lower() for word in WORDS), "words that say that the context is too short", message)


@requirement("ERR-202")
@pytest.mark.parametrize("body", [b'{"model": ', b"[]", b'{"messages": 1}', b"{}"], ids=["cut", "list", "number", "empty"])
def test_what_is_no_request_is_refused(case, body):
    if body.startswith(b'{"messages'):
        body = json.dumps({"model": case.asking.endpoint.model, "messages": 1}).encode()
    elif body == b"{}":
        body = json.dumps({"model": case.asking.endpoint.model}).encode()
    refusal(send(case, body))


@requirement("ERR-203")
@pytest.mark.parametrize(
    ("field", "value"), [("model", "no-such-model"), ("temperature", -1.0), ("top_p", 0.0), ("max_tokens", 0), ("n", 0), ("messages", [])]
)
def test_values_that_mean_nothing_are_refused(case, field, value):
    refusal(send(case, json.dumps(case.asking.body(**{"messages": [GOOD], "max_tokens": 1, field: value})).encode()))
