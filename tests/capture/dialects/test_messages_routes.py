"""Anthropic's routes, its errors, and the answers to what is no call, as its own SDK reads them."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import httpx2
import pytest

from pytest_harness.capture.dialects.base import RefusalError, Route
from pytest_harness.capture.dialects.messages import MESSAGES

VERSION = {"anthropic-version": "2023-06-01"}
OVERFLOW = (
    "This model's maximum context length is 4096 tokens. However, your prompt contains at least 4097 input tokens, which exceeds this "
    "limit even without any output tokens. Please reduce the length of the input prompt."
)


def client(body: bytes, status: int = 200) -> anthropic.Anthropic:
    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(status, headers={"content-type": "application/json"}, content=body)

    transport = httpx2.MockTransport(answer)
    return anthropic.Anthropic(
        api_key="k", base_url="http://proxy", max_retries=0, http_client=anthropic.DefaultHttpxClient(transport=transport)
    )


def raised(body: bytes, status: int) -> anthropic.APIStatusError:
    with client(body, status) as sdk, pytest.raises(anthropic.APIStatusError) as caught:
        sdk.messages.create(model="m", max_tokens=1, messages=[{"role": "user", "content": "x"}])
    return caught.value


@pytest.mark.parametrize("prefix", ["", "/v1"])
def test_routes_with_and_without_the_version(prefix):
    assert MESSAGES.route("POST", f"{prefix}/messages", {}) == Route("call")
    assert MESSAGES.route("POST", f"{prefix}/messages/count_tokens", {}) == Route("count")
    assert MESSAGES.route("GET", f"{prefix}/models", VERSION) == Route("models")
    assert MESSAGES.route("GET", f"{prefix}/models/org%2Fname", VERSION) == Route("model", model="org/name")


def test_the_probe_of_claude_code_is_answered():
    assert MESSAGES.route("HEAD", "/api/hello", {}) == Route("probe")
    assert MESSAGES.answer(Route("probe"), model="m", created=0.0, tokens=None)


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("GET", "/v1/messages", VERSION),
        ("POST", "/v1/messages/batches", VERSION),
        ("POST", "/v1/messages/", VERSION),
        ("POST", "/v1/complete", VERSION),
        ("POST", "/v1/chat/completions", VERSION),
        ("POST", "/v1/models", VERSION),
        ("GET", "/v1/models", {}),
        ("GET", "/v1/models/", VERSION),
        ("GET", "/v1/models/m", {}),
        ("POST", "/v1/files", VERSION),
        ("POST", "/v1/v1/messages", VERSION),
        ("POST", "/", VERSION),
    ],
)
def test_all_other_routes_are_none_of_anthropics(method, path, headers):
    assert MESSAGES.route(method, path, headers) is None


@pytest.mark.parametrize(
    ("status", "kind", "error"),
    [
        (400, "invalid_request_error", anthropic.BadRequestError),
        (401, "authentication_error", anthropic.AuthenticationError),
        (403, "permission_error", anthropic.PermissionDeniedError),
        (404, "not_found_error", anthropic.NotFoundError),
        (413, "request_too_large", anthropic.APIStatusError),
        (422, "invalid_request_error", anthropic.UnprocessableEntityError),
        (426, "invalid_request_error", anthropic.APIStatusError),
        (429, "rate_limit_error", anthropic.RateLimitError),
        (500, "api_error", anthropic.InternalServerError),
        (502, "api_error", anthropic.InternalServerError),
        (529, "overloaded_error", anthropic.APIStatusError),
    ],
)
def test_each_status_has_the_vendors_error(status, kind, error):
    body = MESSAGES.error(status, "Something is wrong.", code="refused", param="tools.0")
    told = json.loads(body)
    assert told["type"] == "error"
    assert told["error"] == {"type": kind, "message": "Something is wrong.", "code": "refused", "param": "tools.0"}
    assert told["request_id"].startswith("req_")
    caught = raised(body, status)
    assert isinstance(caught, error)
    assert "Something is wrong." in str(caught)


@pytest.mark.parametrize(
    ("body", "message", "engine_type", "code"),
    [
        (b'{"error":{"message":"Bad.","type":"BadRequestError","param":null,"code":400}}', "Bad.", "BadRequestError", "400"),
        (b'{"object":"error","message":"Bad.","type":"BadRequestError","code":"x"}', "Bad.", "BadRequestError", "x"),
        (b'{"detail":"Not Found"}', "Not Found", None, None),
        (b'{"error":"Bad."}', "Bad.", None, None),
        (b"<html>Bad Gateway</html>", "<html>Bad Gateway</html>", None, None),
        (b"\xff", "\ufffd", None, None),
        (b"[1]", "[1]", None, None),
    ],
)
def test_an_error_of_the_engine_keeps_its_message_type_and_code(body, message, engine_type, code):
    told = json.loads(MESSAGES.upstream_error(400, body))["error"]
    assert (told["message"], told.get("engine_type"), told.get("code")) == (message, engine_type, code)


@pytest.mark.parametrize(
    ("message", "prompt", "limit"),
    [
        (OVERFLOW, 4097, 4096),
        ("The decoder prompt (length 5000) is longer than the maximum model length of 4096.", 5000, 4096),
        ("This model's maximum context length is 4096 tokens. However, you requested 5100 tokens (5000 in the messages).", 5100, 4096),
    ],
)
def test_a_context_overflow_is_told_in_the_words_by_which_claude_code_compacts(message, prompt, limit):
    body = MESSAGES.upstream_error(400, json.dumps({"error": {"message": message, "type": "BadRequestError", "code": 400}}).encode())
    told = str(raised(body, 400))
    assert f"prompt is too long: {prompt} tokens > {limit} maximum" in told
    assert message.split(".")[0] in told


def test_another_refusal_of_the_engine_is_no_overflow():
    body = b'{"error":{"message":"max_tokens must be at least 1, got 0.","type":"BadRequestError"}}'
    assert "prompt is too long" not in MESSAGES.upstream_error(400, body).decode()


def answered(route: Route, **more: Any) -> bytes:
    return MESSAGES.answer(route, model="served", created=1_700_000_000.5, tokens=more.get("tokens"))


def test_a_count_is_read_by_the_sdk():
    with client(answered(Route("count"), tokens=728)) as sdk:
        assert sdk.messages.count_tokens(model="m", messages=[{"role": "user", "content": "x"}]).input_tokens == 728


def test_the_list_of_models_has_the_one_that_is_served():
    with client(answered(Route("models"))) as sdk:
        page = sdk.models.list()
        assert [model.id for model in page] == ["served"]
        assert not page.has_more


def test_one_model_is_read_by_the_sdk():
    with client(answered(Route("model", model="served"))) as sdk:
        model = sdk.models.retrieve("served")
    assert (model.type, model.id, model.created_at.isoformat()) == ("model", "served", "2023-11-14T22:13:20+00:00")


def test_a_model_that_is_not_served_is_not_found():
    with pytest.raises(RefusalError) as caught:
        answered(Route("model", model="claude-opus-5-5"))
    assert (caught.value.status, str(caught.value)) == (404, "model: claude-opus-5-5")
