"""What is answered on which route, and what never becomes a call."""

from __future__ import annotations

import gzip
import zlib

import brotli
import pytest
import zstandard


@pytest.mark.parametrize("prefix", ["", "/v1"])
def test_models_are_answered_with_the_served_name(harness, engine, prefix) -> None:
    listed = harness.http.get(f"{prefix}/models").json()
    assert [model["id"] for model in listed["data"]] == ["served"]
    assert harness.http.get(f"{prefix}/models/org/whatever").json()["id"] == "served"
    assert harness.http.head(f"{prefix}/models").status_code == 200
    assert harness.recorded() == ()
    assert engine.requests == []


def test_the_sdk_lists_the_model(harness) -> None:
    assert [model.id for model in harness.sdk.models.list()] == ["served"]


@pytest.mark.parametrize(
    "route", ["/v1/embeddings", "/v1/completions", "/v1/moderations", "/health", "/", "/v1/chat/completions/", "/v2/models"]
)
def test_every_other_route_is_404_and_never_a_call(harness, engine, route) -> None:
    reply = harness.http.post(route, json={})
    assert reply.status_code == 404
    assert reply.json()["error"]["type"] == "invalid_request_error"
    assert harness.recorded() == ()
    assert engine.requests == []


@pytest.mark.parametrize(("method", "route", "allowed"), [("GET", "/v1/chat/completions", "POST"), ("POST", "/v1/models", "GET, HEAD")])
def test_a_wrong_method_is_405(harness, method, route, allowed) -> None:
    reply = harness.http.request(method, route)
    assert (reply.status_code, reply.headers["allow"]) == (405, allowed)
    assert "error" in reply.json()


def test_chat_completions_answer_with_and_without_v1(harness, engine) -> None:
    for path in ("/chat/completions", "/v1/chat/completions?api-version=1"):
        assert harness.http.post(path, json={"messages": []}).status_code == 200
    assert [call.path for call in harness.recorded()] == ["/chat/completions", "/v1/chat/completions?api-version=1"]
    assert {request.path for request in engine.requests} == {"/v1/chat/completions"}


@pytest.mark.parametrize("body", [b"{", b"", b"\xff", b"[1]", b"null", b"[" * 50_000])
def test_a_body_that_is_no_json_object_is_400_and_recorded_as_refused(harness, engine, body) -> None:
    reply = harness.http.post("/v1/chat/completions", content=body)
    assert reply.status_code == 400
    assert "JSON" in reply.json()["error"]["message"]
    [call] = harness.session.close()
    assert (call.outcome, call.delivery, call.forwarded, call.replied) == ("refused", "delivered", None, None)
    assert call.delivered.status == 400
    assert engine.requests == []


def test_a_body_over_the_limit_is_413(harness, engine) -> None:
    def pieces():
        for _ in range(20):
            yield b" " * 10_000

    for content in (b" " * 100_001, pieces()):
        assert harness.http.post("/v1/chat/completions", content=content).status_code == 413
    assert [call.outcome for call in harness.session.close()] == ["refused", "refused"]
    assert engine.requests == []


ENCODERS = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.compress,
    "gzip, zstd": lambda body: zstandard.compress(gzip.compress(body)),
    "identity": bytes,
}


@pytest.mark.parametrize("encoding", ENCODERS)
def test_a_compressed_body_is_read(harness, engine, encoding) -> None:
    body = ENCODERS[encoding](b'{"messages": [], "user": "\xc3\xa9"}')
    assert harness.http.post("/v1/chat/completions", content=body, headers={"content-encoding": encoding}).status_code == 200
    assert engine.requests[0].body["user"] == "é"
    [call] = harness.session.close()
    assert call.received.body == '{"messages": [], "user": "é"}'
    assert call.received.headers["content-encoding"] == encoding


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
def test_a_body_that_decompresses_to_more_than_the_limit_is_413(harness, engine, encoding) -> None:
    body = ENCODERS[encoding](b" " * 5_000_000)
    assert len(body) < 100_000
    assert harness.http.post("/v1/chat/completions", content=body, headers={"content-encoding": encoding}).status_code == 413
    assert engine.requests == []


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
@pytest.mark.parametrize("cut", [-3, 0])
def test_a_body_that_is_not_compressed_as_it_says_is_400(harness, engine, encoding, cut) -> None:
    body = ENCODERS[encoding](b'{"messages": []}')[:cut] if cut else b"plain"
    assert harness.http.post("/v1/chat/completions", content=body, headers={"content-encoding": encoding}).status_code == 400
    assert engine.requests == []


def test_an_unknown_encoding_is_415(harness, engine) -> None:
    reply = harness.http.post("/v1/chat/completions", content=b"{}", headers={"content-encoding": "compress"})
    assert reply.status_code == 415
    assert "zstd" in reply.json()["error"]["message"]
    assert harness.session.close()[0].outcome == "refused"
    assert engine.requests == []
