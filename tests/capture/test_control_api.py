"""The admin API: who is let in, what is told, and what a session's life looks like from outside."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import httpx
import pytest

from pytest_harness.capture import CaptureProxy, Upstream
from pytest_harness.capture.control import BODY_LIMIT, Facts, control_app
from pytest_harness.capture.directory import SessionDirectory
from pytest_harness.evidence import Call
from pytest_harness.serving import BackgroundServer

ADMIN = "admin-key-canary-0123456789"
ENGINE = "engine-key-canary-9876543210"


class Server:
    """The admin API and the proxy in front of the fake engine."""

    def __init__(self, folder, engine_url: str, *, admin_key: str | None = ADMIN, level="tokens") -> None:
        upstream = Upstream(url=engine_url, model="served", api_key=ENGINE)
        self.sessions = SessionDirectory(folder, upstream, instance="server-1")
        self._capture = BackgroundServer(CaptureProxy(sessions=self.sessions)).start()
        self.capture_url = self._capture.listen().url
        facts = Facts(instance="server-1", capture_url=self.capture_url, level=level, engine={"url": engine_url, "model": "served"})
        self._control = BackgroundServer(control_app(self.sessions, facts, admin_key=admin_key)).start()
        headers = {} if admin_key is None else {"authorization": f"Bearer {admin_key}"}
        self.url = self._control.listen().url
        self.admin = httpx.Client(base_url=self.url, headers=headers, timeout=20, verify=False)

    def ask(self, key: str, **fields) -> httpx.Response:
        body = {"model": "any", "messages": [{"role": "user", "content": "Hello"}], **fields}
        headers = {"authorization": f"Bearer {key}"}
        return httpx.post(f"{self.capture_url}/v1/chat/completions", json=body, headers=headers, timeout=20, verify=False)

    def close(self) -> None:
        self.admin.close()
        self._control.close()
        self._capture.close()
        self.sessions.shut()


@pytest.fixture
def start(tmp_path, engine, engine_url) -> Iterator[type[Server]]:
    servers: list[Server] = []

    def start_one(**settings) -> Server:
        servers.append(Server(tmp_path / str(len(servers)), engine_url, **settings))
        return servers[-1]

    yield start_one
    for server in servers:
        server.close()


@pytest.fixture
def server(start) -> Server:
    return start()


def test_a_session_lives_from_its_creation_over_its_calls_to_its_deletion(server) -> None:
    created = server.admin.post("/sessions", json={"id": "attempt-1", "purpose": "train", "budget": {"calls": 5}})
    assert created.status_code == 201
    session = created.json()
    assert session["key"].startswith("sk-hc-")
    assert session["base_urls"] == {"openai": f"{server.capture_url}/v1", "anthropic": server.capture_url, "gemini": server.capture_url}
    assert server.ask(session["key"]).status_code == 200
    export = server.admin.get("/sessions/attempt-1/calls")
    assert export.headers["content-type"].startswith("application/x-ndjson")
    (call,) = [Call.model_validate_json(line) for line in export.text.splitlines()]
    assert call.prompt_ids == (1, 2, 3)
    shown = server.admin.get("/sessions/attempt-1").json()
    assert (shown["state"], shown["calls"]) == ("open", 1)
    assert "key" not in shown
    closed = server.admin.delete("/sessions/attempt-1").json()
    assert (closed["state"], closed["calls"]) == ("closed", 1)
    assert server.ask(session["key"]).status_code == 401
    assert server.admin.delete("/sessions/attempt-1").json() == closed
    assert len(server.admin.get("/sessions/attempt-1/calls").text.splitlines()) == 1


def test_open_sessions_are_listed_without_their_keys(server) -> None:
    keys = [server.admin.post("/sessions", json={"id": name}).json()["key"] for name in ("b", "a", "c")]
    server.admin.delete("/sessions/c")
    listed = server.admin.get("/sessions")
    assert [session["id"] for session in listed.json()["sessions"]] == ["a", "b"]
    assert not any(key in listed.text for key in keys)


def test_a_session_id_that_was_used_is_refused_also_after_its_deletion(server) -> None:
    assert server.admin.post("/sessions", json={"id": "attempt-1"}).status_code == 201
    for _ in range(2):
        refused = server.admin.post("/sessions", json={"id": "attempt-1"})
        assert refused.status_code == 409
        assert refused.json()["error"]["code"] == "id_used"
        server.admin.delete("/sessions/attempt-1")


ROUTES = [
    ("GET", "/sessions"),
    ("POST", "/sessions"),
    ("GET", "/sessions/attempt-1"),
    ("DELETE", "/sessions/attempt-1"),
    ("GET", "/sessions/attempt-1/calls"),
]


WRONG = [None, "", "Bearer", f"Bearer {ADMIN}x", f"Basic {ADMIN}", ADMIN, b"Bearer \xff\xfe", "Bearer é".encode()]


def test_without_the_admin_key_nothing_is_told_and_nothing_happens(server) -> None:
    server.admin.post("/sessions", json={"id": "attempt-1"})
    with httpx.Client(base_url=server.url, verify=False) as stranger:
        for method, path in ROUTES:
            for authorization in WRONG:
                headers = {"content-type": "application/json"} | ({} if authorization is None else {"authorization": authorization})
                reply = stranger.request(method, path, headers=headers, content=b"{}" if method == "POST" else None)
                assert reply.status_code == 401, (method, path, authorization)
                assert set(reply.json()) == {"error"}
    assert [session["id"] for session in server.admin.get("/sessions").json()["sessions"]] == ["attempt-1"]


def test_the_key_of_a_session_is_no_admin_key(server) -> None:
    key = server.admin.post("/sessions", json={}).json()["key"]
    assert httpx.get(f"{server.url}/sessions", headers={"authorization": f"Bearer {key}"}).status_code == 401


def test_health_tells_strangers_which_server_lives_and_nothing_of_the_engine(server, engine_url) -> None:
    stranger = httpx.get(f"{server.url}/health")
    assert stranger.json() == {"status": "ok", "instance": "server-1"}
    told = server.admin.get("/health").json()
    assert told["engine"] == {"url": engine_url, "model": "served"}
    assert told["sessions"] == 0


def test_no_reply_shows_the_engines_key(server) -> None:
    session = server.admin.post("/sessions", json={"id": "a"}).json()
    server.ask(session["key"])
    for path in ("/health", "/sessions", "/sessions/a", "/sessions/a/calls"):
        text = server.admin.get(path).text
        assert ENGINE not in text
        assert session["key"] not in text


def test_without_an_admin_key_only_loopback_names_are_let_in_and_no_browser_page(start) -> None:
    server = start(admin_key=None)
    assert server.admin.get("/sessions").status_code == 200
    assert server.admin.get("/sessions", headers={"host": "evil.example"}).status_code == 401
    assert server.admin.get("/sessions", headers={"origin": "http://evil.example"}).status_code == 401


NOT_A_SESSION = [
    (b"", "The body is no session"),
    (b"[]", "The body is no session"),
    (b"\xff", "The body is no session"),
    (b'{"purpose": "fun"}', "purpose"),
    (b'{"budget": {"calls": -1}}', "budget.calls"),
    (b'{"budget": {"calls": 1e400}}', "budget.calls"),
    (b'{"expires": {"idle": 0}}', "expires.idle"),
    (b'{"policy": {"temperature": 9}}', "policy.temperature"),
    (b'{"id": "../x"}', "id"),
    (b'{"sesion_id": "x"}', "sesion_id"),
]


def test_a_body_that_is_no_session_is_refused_naming_the_field(server) -> None:
    for body, named in NOT_A_SESSION:
        reply = server.admin.post("/sessions", content=body, headers={"content-type": "application/json"})
        assert reply.status_code == 400, body
        assert reply.json()["error"]["message"].startswith(named)
    assert server.admin.get("/sessions").json() == {"sessions": []}


def test_a_body_that_is_too_large_or_not_json_is_refused(server) -> None:
    large = json.dumps({"id": "x" * BODY_LIMIT})
    assert server.admin.post("/sessions", content=large, headers={"content-type": "application/json"}).status_code == 413
    assert server.admin.post("/sessions", content="{}", headers={"content-type": "text/plain"}).status_code == 415


def test_an_unknown_session_is_404(server) -> None:
    for name in ("absent", "..", "%2e%2e%2fx", "%00", ".keys", "%ff"):
        for method in ("GET", "DELETE"):
            assert server.admin.request(method, f"/sessions/{name}").status_code == 404, (method, name)


def test_unknown_routes_and_methods_get_one_sentence(server) -> None:
    assert server.admin.get("/nothing").json()["error"]["code"] == "not_found"
    wrong = server.admin.put("/sessions", json={})
    assert wrong.status_code == 405
    assert "PUT" in wrong.json()["error"]["message"]


def test_a_training_session_needs_a_server_that_returns_ids(start) -> None:
    server = start(level="logprobs")
    refused = server.admin.post("/sessions", json={"purpose": "train"})
    assert refused.status_code == 409
    assert "--level tokens" in refused.json()["error"]["message"]
    assert server.admin.post("/sessions", json={"budget": {"tokens": 5}}).status_code == 409
    assert server.admin.post("/sessions", json={"purpose": "eval", "budget": {"calls": 5}}).status_code == 201


def test_deleting_a_session_with_a_call_in_flight_ends_the_call_and_records_it(server, engine, make) -> None:
    gate = make.Gate()
    engine.answer = lambda body: make.Answer([gate, b"{}"])
    key = server.admin.post("/sessions", json={"id": "a"}).json()["key"]
    replies = []
    thread = threading.Thread(target=lambda: replies.append(server.ask(key)))
    thread.start()
    assert gate.reached.wait(20)
    assert server.admin.delete("/sessions/a").json()["state"] == "closed"
    thread.join(20)
    assert replies[0].status_code == 503
    (line,) = server.admin.get("/sessions/a/calls").text.splitlines()
    assert json.loads(line)["outcome"] == "cancelled"
