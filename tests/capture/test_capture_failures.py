"""What the harness gets, and what is recorded, when the engine fails."""

from __future__ import annotations

import json
import socket

import openai
import pytest

MESSAGES = [{"role": "user", "content": "Hello"}]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("status", "raised"), [(400, openai.BadRequestError), (429, openai.RateLimitError), (503, openai.InternalServerError)]
)
def test_an_error_of_the_engine_reaches_the_harness_as_it_was(harness, engine, make, status, raised, stream) -> None:
    body = b'{"error": {"message": "maximum context length is 4096", "code": 7, "type": "BadRequestError", "param": "input_tokens"}}'
    engine.answer = lambda _: make.Answer([body], status, {"content-type": "application/json", "retry-after": "7", "set-cookie": "a=b"})
    with pytest.raises(raised, match="maximum context length") as error:
        harness.sdk.chat.completions.create(model="any", messages=MESSAGES, stream=stream)
    assert error.value.response.content == body
    assert error.value.response.headers["retry-after"] == "7"
    assert "set-cookie" not in error.value.response.headers
    [call] = harness.session.close()
    assert (call.outcome, call.delivery, call.replied.status, call.delivered.status) == ("upstream_error", "delivered", status, status)
    assert call.replied.headers["set-cookie"] == "<redacted>"
    assert len(engine.requests) == 1


def test_an_error_page_keeps_its_status_and_its_text(harness, engine, make) -> None:
    engine.answer = lambda _: make.Answer([b"<html>Bad gateway</html>"], 502, {"content-type": "text/html"})
    reply = harness.ask()
    assert (reply.status_code, reply.text, reply.headers["content-type"]) == (502, "<html>Bad gateway</html>", "text/html")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "body",
    [
        b"<html>hello</html>",
        b"null",
        b"",
        b"[]",
        b"{}",
        b'{"choices": []}',
        b'{"choices": null}',
        b'{"choices": [1]}',
        b'{"choices": [{}]}',
        b"\xff",
        b'{"cho',
    ],
)
def test_a_reply_that_is_none_becomes_an_error_that_the_sdk_raises(harness, engine, make, body, stream) -> None:
    engine.answer = lambda _: make.Answer([body])
    with pytest.raises(openai.InternalServerError, match="not a chat completion"):
        harness.sdk.chat.completions.create(model="any", messages=MESSAGES, stream=stream)
    [call] = harness.session.close()
    assert (call.outcome, call.delivery, call.delivered.status, call.replied.status) == ("malformed_upstream", "delivered", 502, 200)
    assert call.samples == ()
    assert call.error


@pytest.mark.parametrize("status", [204, 302])
def test_a_status_that_is_neither_success_nor_error_is_malformed(harness, engine, make, status) -> None:
    engine.answer = lambda _: make.Answer([], status, {"location": "http://127.0.0.1:1/elsewhere"})
    reply = harness.ask()
    assert reply.status_code == 502
    assert "location" not in reply.headers
    assert harness.session.close()[0].outcome == "malformed_upstream"


@pytest.mark.parametrize("bad", ["<html>", "null", '{"choices": 5}', '{"x": 1}', '{"choices": [nul'])
def test_a_malformed_event_ends_the_stream_with_an_error_and_no_end_mark(harness, engine, make, bad) -> None:
    engine.answer = lambda _: make.Answer([*make.events()[:2], make.event(bad), *make.events()[2:]], headers=make.SSE)
    seen = []
    with pytest.raises(openai.APIError, match="not a chat completion"):
        seen.extend(harness.sdk.chat.completions.create(model="any", messages=MESSAGES, stream=True))
    assert len(seen) == 2
    [call] = harness.session.close()
    assert (call.outcome, call.delivery) == ("malformed_upstream", "delivered")
    assert "[DONE]" not in call.delivered.body
    assert call.samples[0].token_ids == (7,)


@pytest.mark.parametrize("cut", [False, True])
def test_a_stream_that_ends_early_is_cut_and_what_came_is_recorded(harness, engine, make, cut) -> None:
    engine.answer = lambda _: make.Answer(make.events()[:5], headers=make.SSE, cut=cut)
    seen = []
    with pytest.raises(openai.APIError, match="broke off"):
        seen.extend(harness.sdk.chat.completions.create(model="any", messages=MESSAGES, stream=True))
    assert all(chunk.choices[0].finish_reason is None for chunk in seen)
    [call] = harness.session.close()
    assert (call.outcome, call.samples[0].token_ids) == ("cut_upstream", (7, 8, 9, 4))
    assert "[DONE]" not in call.delivered.body


def test_a_whole_reply_that_ends_early_is_cut(harness, engine, make) -> None:
    engine.answer = lambda _: make.Answer([b'{"choices"'], headers={"content-length": "500"}, cut=True)
    assert harness.ask().json()["error"]["code"] == "cut_upstream"
    [call] = harness.session.close()
    assert (call.outcome, call.replied.body) == ("cut_upstream", '{"choices"')


def test_an_error_inside_a_stream_is_the_engine_s_own(harness, engine, make) -> None:
    error = make.event(json.dumps({"error": {"message": "out of memory", "code": 500}}))
    engine.answer = lambda _: make.Answer([*make.events()[:2], error, make.event("[DONE]")], headers=make.SSE)
    with pytest.raises(openai.APIError, match="out of memory"):
        list(harness.sdk.chat.completions.create(model="any", messages=MESSAGES, stream=True))
    [call] = harness.session.close()
    assert (call.outcome, "out of memory" in call.error) == ("upstream_error", True)
    assert call.delivered.body.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize("stream", [False, True])
def test_an_engine_that_is_not_there_is_502_and_its_address_stays_ours(open_harness, stream) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    harness = open_harness(url=f"http://127.0.0.1:{port}")
    reply = harness.ask(stream=stream)
    assert (reply.status_code, reply.json()["error"]["code"]) == (502, "unreachable_upstream")
    assert str(port) not in reply.text
    [call] = harness.session.close()
    assert (call.outcome, call.replied, call.delivery) == ("unreachable_upstream", None, "delivered")
    assert call.forwarded is not None


def test_an_engine_that_hangs_up_without_a_word_is_cut(open_harness) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        harness = open_harness(url=f"http://127.0.0.1:{listening.getsockname()[1]}")
        with harness.connect(b"{}") as connection:
            engine_side = listening.accept()[0]
            engine_side.recv(65536)
            engine_side.close()
            assert connection.recv(65536).startswith(b"HTTP/1.1 502")
    assert harness.session.close()[0].outcome == "cut_upstream"


def test_text_in_an_error_changes_no_later_request(harness, engine, make) -> None:
    error = json.dumps({"error": {"message": "Unsupported parameter: 'logprobs'", "param": "logprobs"}}).encode()
    engine.answer = lambda _: make.Answer([error], 400)
    harness.ask()
    engine.answer = lambda _: make.whole()
    assert harness.ask().status_code == 200
    first, second = (request.body for request in engine.requests)
    assert first == second


def test_hostile_text_where_a_word_belongs_does_not_lose_the_call(harness, engine, make) -> None:
    document = make.completion(prompt_token_ids=[1])
    document["choices"][0]["finish_reason"] = "\ud800"
    odd = {"x-odd": "\xff", "content-type": "application/json"}
    engine.answer = lambda _: make.Answer([json.dumps(document).encode()], headers=odd)
    assert harness.ask().status_code == 200
    [call] = harness.session.close()
    assert (call.outcome, call.samples[0].finish_reason) == ("complete", "\\ud800")
    assert "x-odd" in call.replied.headers


@pytest.mark.parametrize("depth", range(200, 3000, 400))
def test_deep_json_is_passed_on_or_refused_but_never_lost(harness, engine, make, depth) -> None:
    nested = "[" * depth + "]" * depth
    engine.answer = lambda _: make.Answer([b'{"choices": [{"message": {}, "token_ids": [1], "deep": ' + nested.encode() + b"}]}"])
    request = f'{{"deep": {nested}}}'
    assert harness.http.post("/v1/chat/completions", content=request).status_code in (200, 400, 502)
    assert harness.ask().status_code in (200, 502)
    assert {call.outcome for call in harness.session.close()} <= {"complete", "refused", "malformed_upstream"}
