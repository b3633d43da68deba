"""Who is let in, and that nobody else learns anything."""

from __future__ import annotations

import socket

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_harness.capture import JournalError, Upstream, UpstreamError
from pytest_harness.capture.sessions import Sessions

CHANNELS = ["x-api-key", "api-key", "x-goog-api-key"]


@pytest.mark.parametrize("key", [None, "sk-hc-guessed", "é", "Bearer"])
@pytest.mark.parametrize("route", ["/v1/chat/completions", "/v1/models", "/v1/models/served", "/", "/health", "/v1/embeddings"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_unknown_key_gets_401_and_nothing_else(harness, engine, engine_url, method, route, key) -> None:
    headers = {} if key is None else {"authorization": b"Bearer " + key.encode("utf-8")}
    reply = httpx.request(method, harness.url + route, headers=headers, content=b"{}" if method == "POST" else None)
    assert reply.status_code == 401
    assert reply.json()["error"]["code"] == "invalid_api_key"
    assert set(reply.json()["error"]) == {"message", "type", "param", "code"}
    assert "served" not in reply.text
    assert engine_url not in reply.text
    assert harness.recorded() == ()
    assert engine.requests == []


@pytest.mark.parametrize("channel", CHANNELS)
def test_a_key_is_taken_from_every_usual_header(harness, channel) -> None:
    reply = httpx.get(f"{harness.url}/v1/models", headers={channel: harness.session.key})
    assert reply.status_code == 200


def test_a_foreign_key_in_one_header_does_not_hide_a_valid_one_in_another(harness) -> None:
    reply = httpx.get(f"{harness.url}/v1/models", headers={"authorization": "Bearer other", "x-api-key": harness.session.key})
    assert reply.status_code == 200


def test_hostile_key_bytes_get_401(harness) -> None:
    address = httpx.URL(harness.url)
    with socket.create_connection((address.host, address.port), timeout=20) as connection:
        connection.sendall(b"GET /v1/models HTTP/1.1\r\nhost: x\r\nx-api-key: \xff\xfe\x80\r\nauthorization: Bearer\xff \xc3\r\n\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 401")


@given(key=st.binary(max_size=200))
def test_looking_up_any_bytes_never_raises(key) -> None:
    assert Sessions().find(key) is None


def test_a_closed_session_is_unknown(harness) -> None:
    assert harness.ask().status_code == 200
    assert len(harness.session.close()) == 1
    assert harness.ask().status_code == 401
    assert harness.http.get("/v1/models").status_code == 401
    assert len(harness.session.close()) == 1


def test_keys_are_long_and_differ(open_harness) -> None:
    keys = {open_harness().session.key for _ in range(5)}
    assert len(keys) == 5
    assert all(key.startswith("sk-hc-") and len(key) >= 6 + 32 for key in keys)


def test_no_repr_shows_a_secret(harness, make) -> None:
    text = repr(harness.session) + repr(harness.session.upstream) + str(harness.session.__dict__)
    assert make.ENGINE_KEY not in text
    assert harness.session.key not in repr(harness.session)


def test_a_journal_belongs_to_one_session(proxy, harness) -> None:
    with pytest.raises(JournalError, match="belongs to one session"):
        proxy.open_session(harness.session.upstream, journal=harness.session.journal.path)


@pytest.mark.parametrize("url", ["ftp://engine", "engine:8000", "http://user:word@engine", "http://engine/v1?key=1"])
def test_an_engine_url_that_cannot_be_used_is_refused_in_a_sentence(url) -> None:
    with pytest.raises(UpstreamError, match="engine's URL") as refusal:
        Upstream(url=url, model="served")
    assert "word" not in str(refusal.value)


@pytest.mark.parametrize(
    ("base", "expected"), [("http://e", "http://e/v1/x"), ("http://e/", "http://e/v1/x"), ("http://e/api/v3/", "http://e/api/v3/x")]
)
def test_v1_is_added_to_a_base_url_without_a_path(base, expected) -> None:
    assert Upstream(url=base, model="served").endpoint("/x") == expected


def test_an_engine_key_with_a_line_end_is_refused_without_being_shown() -> None:
    with pytest.raises(UpstreamError, match="control characters") as refusal:
        Upstream(url="http://engine", model="served", api_key="secret-key\n")
    assert "secret-key" not in str(refusal.value)
