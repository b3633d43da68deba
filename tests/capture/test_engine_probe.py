"""What the probe finds out about an engine, and the sentence for each engine that will not do."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from pytest_harness.capture import UpstreamError
from pytest_harness.capture.probe import Mode, ProbeError, probe
from pytest_harness.engines.scripted import Fault, Script, ScriptedEngine, Step
from pytest_harness.serving import BackgroundServer

KEY = "engine-key-canary-0123456789"


class Engine:
    """The scripted engine, with what it says changed by the tests.

    ``omit`` names what its streams lose; ``top`` are the likeliest tokens that it tells, whatever the temperature.
    """

    def __init__(self) -> None:
        self.scripted = ScriptedEngine(Script((Step("Hi."),)), model="served", api_key=KEY)
        self.answers: dict[str, tuple[int, bytes]] = {}
        self.omit: set[str] = set()
        self.top: list[dict[str, object]] | None = None

    async def __call__(self, scope, receive, send) -> None:
        if scope["path"] in self.answers:
            status, body = self.answers[scope["path"]]
            await send({"type": "http.response.start", "status": status, "headers": []})
            await send({"type": "http.response.body", "body": body})
            return

        async def less(event) -> None:
            data = event.get("body", b"")
            if self.omit and data.startswith(b"data: {"):
                document = json.loads(data.removeprefix(b"data: "))
                for fields in (document, *document["choices"]):
                    for name in self.omit:
                        fields.pop(name, None)
                event = {**event, "body": b"data: " + json.dumps(document).encode() + b"\n\n"}
            if self.top is not None and data.startswith(b"{") and b'"chat.completion"' in data:
                document = json.loads(data)
                document["choices"][0]["logprobs"]["content"][0]["top_logprobs"] = self.top
                event = {**event, "body": json.dumps(document).encode()}
            await send(event if event["type"] == "http.response.body" else {**event, "headers": []})

        await self.scripted(scope, receive, less)


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Engine, str]]:
    engine = Engine()
    with BackgroundServer(engine) as server:
        yield engine, server.listen().url


@pytest.fixture
def engine(served) -> Engine:
    engine = served[0]
    engine.answers, engine.omit, engine.top, engine.scripted.faults = {}, set(), None, []
    return engine


@pytest.fixture
def url(served) -> str:
    return served[1]


@pytest.mark.parametrize("base", ["", "/", "/v1", "/v1/"])
def test_an_engine_that_returns_everything_may_train(engine, url, base) -> None:
    found = probe(url + base, api_key=KEY)
    assert (found.model, found.level) == ("served", "tokens")
    assert found.version
    assert found.logprobs == "processed"
    found.require("tokens", url)


def test_an_engine_without_ids_is_refused_for_training_naming_what_is_missing(engine, url) -> None:
    engine.scripted.faults = [Fault("null_ids")]
    found = probe(url, api_key=KEY)
    assert found.level == "logprobs"
    found.require("logprobs", url)
    with pytest.raises(ProbeError, match=r"no (prompt_)?token_ids.*level tokens.*return_token_ids.*--level logprobs"):
        found.require("tokens", url)


def test_an_engine_without_logprobs_is_refused_for_more_than_text(engine, url) -> None:
    engine.scripted.faults = [Fault("missing_logprobs")]
    found = probe(url, api_key=KEY)
    assert found.level == "text"
    found.require("text", url)
    for level in ("logprobs", "tokens"):
        with pytest.raises(ProbeError, match=r"no logprobs.*--max-logprobs.*--level text"):
            found.require(level, url)


@pytest.mark.parametrize(("lost", "named"), [({"token_ids"}, "token_ids"), ({"prompt_token_ids"}, "prompt_token_ids")])
def test_a_stream_that_loses_ids_is_told_apart_and_to_be_made_of_whole_replies(engine, url, lost, named) -> None:
    assert not probe(url, api_key=KEY).buffered
    engine.omit = lost
    found = probe(url, api_key=KEY)
    assert found.whole == Mode("tokens")
    assert found.streamed == Mode("logprobs", (named,))
    assert found.buffered
    found.require("tokens", url)


def test_ids_without_a_logprob_each_may_not_train(engine, url) -> None:
    engine.scripted.faults = [Fault("misaligned_logprobs")]
    found = probe(url, api_key=KEY)
    with pytest.raises(ProbeError, match="--return-tokens-as-token-ids"):
        found.require("tokens", url)


@pytest.mark.parametrize("key", [None, "wrong-engine-key"])
def test_a_wrong_key_is_said_in_a_sentence_that_does_not_show_it(engine, url, key) -> None:
    with pytest.raises(ProbeError, match="--llm-key-env") as refusal:
        probe(url, api_key=key)
    assert "wrong-engine-key" not in str(refusal.value)


def test_an_engine_that_is_not_there_is_said_in_a_sentence() -> None:
    with pytest.raises(ProbeError, match="cannot be reached"):
        probe("http://127.0.0.1:9")


def test_a_url_that_is_none_is_said_in_a_sentence() -> None:
    with pytest.raises(UpstreamError, match="write it like"):
        probe("engine:8000")


def test_a_model_that_is_not_served_is_refused_naming_those_that_are(engine, url) -> None:
    with pytest.raises(ProbeError, match="does not serve other; it serves served"):
        probe(url, model="other", api_key=KEY)


@pytest.mark.parametrize("data", [[], [{"id": "a"}, {"id": "b"}], [{"id": 1}], None])
def test_an_engine_of_no_or_several_models_needs_a_name(engine, url, data) -> None:
    engine.answers["/v1/models"] = (200, json.dumps({"data": data}).encode())
    with pytest.raises(ProbeError, match="--model"):
        probe(url, api_key=KEY)


def test_an_engine_that_lists_no_models_can_be_named_one(engine, url) -> None:
    engine.answers["/v1/models"] = (404, b"")
    assert probe(url, model="served", api_key=KEY).level == "tokens"
    with pytest.raises(ProbeError, match="--model"):
        probe(url, api_key=KEY)


def test_an_engine_that_refuses_the_request_is_quoted(engine, url) -> None:
    engine.answers["/v1/chat/completions"] = (400, b'{"error":{"message":"Unrecognized request argument: return_token_ids"}}')
    with pytest.raises(ProbeError, match=r"status 400.*Unrecognized request argument: return_token_ids"):
        probe(url, api_key=KEY)


@pytest.mark.parametrize("body", [b"<html>", b"null", b"{}", b'{"choices": 1}', b"[" * 100_000])
def test_something_that_is_no_engine_is_said_in_a_sentence(engine, url, body) -> None:
    engine.answers["/v1/chat/completions"] = (200, body)
    with pytest.raises(ProbeError, match="no chat completion"):
        probe(url, api_key=KEY)


def test_a_version_is_told_only_where_there_is_one(engine, url) -> None:
    engine.answers["/version"] = (200, b'{"version": null}')
    assert probe(url, api_key=KEY).version is None


def likely(*logprobs: object) -> list[dict[str, object]]:
    return [{"token": f"token_id:{number}", "logprob": logprob} for number, logprob in enumerate(logprobs)]


def test_raw_logprobs_may_not_train(engine, url) -> None:
    engine.top = likely(-0.1, -2.5, -4.0)
    found = probe(url, api_key=KEY)
    assert (found.level, found.logprobs) == ("tokens", "raw")
    with pytest.raises(ProbeError, match="--logprobs-mode processed_logprobs"):
        found.require("tokens", url)
    found.require("logprobs", url)


@pytest.mark.parametrize(
    "top",
    [[], likely(-0.1), likely(-0.1, -9999.0), likely(-1.0, -1.0), likely(-0.1, None), [{"token": "a"}], ["a"], likely("x", -1)],
)
def test_logprobs_that_cannot_be_measured_are_no_pass_and_no_failure(engine, url, top) -> None:
    engine.top = top
    found = probe(url, api_key=KEY)
    assert found.logprobs == "unknown"
    found.require("tokens", url)


class Unending:
    """Answers with a head, then with far too many bytes, or with none until the client hangs up."""

    def __init__(self, part: bytes, *, head: bool = True) -> None:
        self.part = part
        self.head = head

    async def __call__(self, scope, receive, send) -> None:
        await receive()
        if self.head:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(1000 if self.part else 0):  # an end after all, as a server is not told at once that nobody reads
            await send({"type": "http.response.body", "body": self.part, "more_body": True})
        await receive()


def test_a_reply_without_an_end_is_one_sentence_and_is_not_kept(monkeypatch) -> None:
    monkeypatch.setattr("pytest_harness.capture.probe._BYTES", 100_000)
    with BackgroundServer(Unending(b"x" * 10_000)) as server, pytest.raises(ProbeError, match="with more than 100000 bytes"):
        probe(server.listen().url)


@pytest.mark.parametrize("head", [True, False])
def test_an_engine_that_does_not_go_on_is_given_up_in_one_sentence(monkeypatch, head) -> None:
    monkeypatch.setattr("pytest_harness.capture.probe._SECONDS", 0.2)
    with BackgroundServer(Unending(b"", head=head)) as server, pytest.raises(ProbeError, match=r"no whole reply to .*/models within 0.2 s"):
        probe(server.listen().url)


@pytest.mark.parametrize(
    "url", ["http://[::1", "http://127.0.0.1:many", "http://127.0.0.1:99999", "http://user:hidden-word@[::1", "http://u:hidden-word/@h"]
)
def test_what_is_no_url_is_one_sentence_without_a_password(url) -> None:
    with pytest.raises(UpstreamError, match="write it like") as error:
        probe(url)
    assert "hidden" not in str(error.value)


def test_an_engine_that_streams_no_tools_is_asked_for_whole_replies() -> None:
    class Llama:
        """It refuses what llama.cpp refuses: https://github.com/ggml-org/llama.cpp/blob/master/tools/server/server-common.cpp."""

        def __init__(self, refused: bool) -> None:
            self.scripted, self.refused = ScriptedEngine(Script((Step("Hi."),))), refused

        async def __call__(self, scope, receive, send) -> None:
            event = await receive() if scope["method"] == "POST" else {"type": "http.request", "body": b"{}"}
            asked = json.loads(event["body"])
            if self.refused and asked.get("tools") and asked.get("stream"):
                await send({"type": "http.response.start", "status": 400, "headers": []})
                await send(
                    {"type": "http.response.body", "body": b'{"error": {"message": "logprobs is not supported with tools + stream"}}'}
                )
                return
            left = [event]

            async def again():
                return left.pop() if left else await receive()

            await self.scripted(scope, again, send)

    for refused in (True, False):
        with BackgroundServer(Llama(refused)) as server:
            found = probe(server.listen().url)
        assert (found.level, found.streamed.level, found.streams_tools, found.buffered) == ("tokens", "tokens", not refused, refused)


def test_an_engine_that_takes_no_tools_at_all_is_asked_for_streams() -> None:
    with BackgroundServer(ScriptedEngine(Script((Step("Hi."),)), auto_tools=False)) as server:
        found = probe(server.listen().url)
    assert (found.streams_tools, found.buffered) == (True, False)
