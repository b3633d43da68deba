"""ISO: one session is no other's, a key opens only its own, and no secret is told or kept."""

import concurrent.futures
import json

import pytest

from pytest_harness.engines.scripted import Fault
from pytest_harness.session.wire_marks import each_dialect, requirement
from pytest_harness.wire.outcome import Broken, eventually, expect, same
from pytest_harness.wire.upstream import Answer

CANARY = "sk-canary-of-the-harness-0123456789"


def chat_path(case, session):
    return "/" + case.url("chat", session).split("/", 3)[3]


@requirement("ISO-101")
@each_dialect
@pytest.mark.parametrize("key", [None, "", "sk-not-a-session", "Bearer"], ids=["none", "empty", "unknown", "word"])
def test_an_unknown_key_gets_401_and_records_nothing(case, dialect, key):
    stage, session = case.stage(), case.session()
    reply = case.http.post(case.url(dialect, session), case.body(stage, dialect), key=key)
    same(reply.status, 401, "the status")
    same(len(stage.served), 0, "requests to the engine")
    same(len(case.adapter.calls(session)), 0, "calls captured in another session")


@requirement("ISO-102")
@pytest.mark.parametrize(
    ("dialect", "header"),
    [
        ("chat", "authorization"),
        ("chat", "api-key"),
        ("messages", "x-api-key"),
        ("messages", "authorization"),
        ("gemini", "x-goog-api-key"),
        ("gemini", "key="),
    ],
)
def test_each_vendors_way_to_send_a_key_works(case, dialect, header):
    case.needs(dialect)
    stage, session = case.stage(), case.session()
    url = case.url(dialect, session)
    headers = {"content-type": "application/json"}
    if header == "key=":
        url += f"?key={session.key}"
    else:
        headers[header] = f"Bearer {session.key}" if header == "authorization" else session.key
    reply = case.http.send("POST", url, headers=headers, body=json.dumps(case.body(stage, dialect)).encode())
    same(reply.status, 200, f"the status of a request with its key in {header}")
    case.calls(session, 1)


@requirement("ISO-103")
@pytest.mark.parametrize("other", ["x-api-key", "x-goog-api-key", "api-key"])
def test_a_foreign_bearer_does_not_hide_a_valid_key(case, other):
    stage, session = case.stage(), case.session()
    headers = {other: session.key}
    reply = case.http.post(case.url("chat", session), case.body(stage), key=CANARY, headers=headers)
    same(reply.status, 200, f"the status of a request with a foreign bearer and its key in {other}")


@requirement("ISO-104")
@pytest.mark.parametrize(
    "key",
    [b"\xff\xfe\x80", "schlüssel".encode(), b"x" * 20000, b"../../../etc/passwd", b"' OR 1=1 --", b"%00", b"{}"],
    ids=["bytes", "umlaut", "long", "path", "sql", "percent", "braces"],
)
def test_a_hostile_key_is_refused_and_harms_nothing(case, key):
    stage, session = case.stage(), case.session()
    wire = case.wire(session)
    body = json.dumps(case.body(stage)).encode()
    headers = (b"authorization: Bearer " + key, "content-type: application/json", f"content-length: {len(body)}", "connection: close")
    wire.send(wire.head("POST", chat_path(case, session), *headers) + body)
    expect((status := wire.reply().status) in (400, 401, 431), "401, or 400 or 431", status)
    same(len(stage.served), 0, "requests to the engine")
    same(case.ask(stage, session).status, 200, "the status of the next, ordinary request")


@requirement("ISO-105")
@pytest.mark.parametrize(
    "path",
    ["/", "/health", "/healthz", "/v1/models", "/v1beta/models", "/sessions", "/metrics", "/docs", "/openapi.json", "/info", "/config"],
)
def test_nothing_is_told_without_a_key(case, path):
    session = case.session()
    reply = case.http.send("GET", session.root + path)
    told = f"{reply.headers} {reply.body.decode(errors='replace')}"
    engine = case.upstream.engine
    for name, secret in (
        ("address", engine.url.split("//")[1]),
        ("model", engine.model),
        ("key", engine.api_key),
        ("session", session.key),
    ):
        expect(secret not in told, f"no {name} of the engine or of a session without a key", told)


@requirement("ISO-106")
@each_dialect
def test_the_harnesss_credentials_stay_with_the_proxy(case, dialect):
    stage, session = case.stage(), case.session()
    headers = {"x-vendor-token": CANARY, "cookie": f"session={CANARY}", "openai-organization": CANARY, "x-forwarded-authorization": CANARY}
    reply = case.http.post(case.url(dialect, session), case.body(stage, dialect), key=session.key, headers=headers)
    same(reply.status, 200, "the status")
    served = stage.only
    told = f"{served.path} {served.headers} {served.raw.decode(errors='replace')}"
    expect(CANARY not in told, "a request to the engine without the harness's credentials", told)
    expect(session.key not in told, "a request to the engine without the session's key", told.replace(session.key, "<the session's key>"))
    same(served.headers.get("authorization"), f"Bearer {case.upstream.api_key}", "the engine's key")


@requirement("ISO-107")
def test_no_credential_is_kept(case):
    stage, session = case.stage(), case.session()
    url = case.url("chat", session) + f"?key={CANARY}&note=1"
    headers = {"x-api-key": CANARY, "cookie": f"session={CANARY}"}
    case.http.post(url, case.body(stage), key=session.key, headers=headers)
    case.calls(session, 1)
    kept = case.adapter.export(session).decode(errors="replace")
    for name, secret in (("the engine's key", case.upstream.api_key), ("a foreign credential", CANARY)):
        expect(secret not in kept, f"an export without {name}", kept[max(0, kept.find(secret) - 100) :].replace(secret, f"<{name}>"))


@requirement("ISO-108")
def test_the_sessions_key_is_not_kept(case):
    stage, session = case.stage(), case.session()
    case.talk("chat", stage, session).ask()
    case.calls(session, 1)
    kept = case.adapter.export(session).decode(errors="replace")
    at = kept.find(session.key)
    expect(
        at < 0,
        "an export without the key that opens the session",
        kept[max(0, at - 60) : at + 80].replace(session.key, "<the session's key>"),
    )


@requirement("ISO-109")
@pytest.mark.parametrize("where", ["error", "header"])
def test_the_engines_key_is_not_handed_on(case, where):
    secret = case.upstream.api_key
    if where == "error":
        stage = case.stage(faults=[Fault("status", status=400, message=f"Incorrect API key provided: {secret}.")])
    else:
        stage = case.stage(
            answer=lambda _body: Answer(b'{"error": {"message": "No."}}', 400, (("content-type", "application/json"), ("x-debug", secret)))
        )
    reply = case.ask(stage, case.session())
    told = f"{reply.headers} {reply.body.decode(errors='replace')}"
    expect(secret not in told, "a reply without the engine's key", told.replace(secret, "<the engine's key>"))


@requirement("ISO-110")
def test_an_ended_sessions_key_is_unknown(case):
    stage, session = case.stage(), case.session()
    same(case.ask(stage, session).status, 200, "the status before the end of the session")
    case.adapter.delete_session(session)
    same(case.ask(stage, session).status, 401, "the status after the end of the session")
    same(len(stage.served), 1, "requests to the engine")


@requirement("ISO-111")
def test_a_session_can_end_with_a_call_in_flight(case):
    case.needs("chat")
    gate = case.gate()
    stage, session = case.stage(faults=[Fault("slow", event=gate)]), case.session()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        running = pool.submit(case.ask, stage, session)
        expect(gate.reached.wait(10), "a request that reaches the engine", "none")
        ended = pool.submit(case.adapter.delete_session, session)
        # Either the end waits for the call, or it cuts the call short: both are clean. Only a hang or a torn reply is not.
        eventually(lambda: running.done() or ended.done(), bool, 2)
        gate.open()
        ended.result(timeout=40)
        reply = running.result(timeout=20)
    expect(reply.status == 200 or reply.status in (401, 409, 410, 499, 502, 503), "the reply, or a clean error", f"status {reply.status}")
    reply.document  # noqa: B018 - raises if it is no JSON
    same(case.ask(stage, session).status, 401, "the status of the next request")


@requirement("ISO-112")
def test_sessions_at_the_same_time_do_not_mix(case):
    case.needs("chat")
    gate = case.gate()
    count = 24
    stages = [case.stage((f"Answer number {number}.", ()), faults=[Fault("slow", event=gate)]) for number in range(count)]
    sessions = [case.session() for _ in stages]
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        asked = [pool.submit(case.ask, stage, session) for stage, session in zip(stages, sessions, strict=True)]
        for stage in stages:
            stage.await_requests(1)
        gate.open()
        replies = [each.result(timeout=30) for each in asked]
    for number, (stage, session, reply) in enumerate(zip(stages, sessions, replies, strict=True)):
        same(reply.status, 200, f"the status of session {number}")
        same(reply.document["choices"][0]["message"]["content"], f"Answer number {number}.", f"the reply of session {number}")
        case.calls_as_served(session, stage)


@requirement("ISO-113")
def test_no_state_of_the_engine_passes_from_one_session_to_another(case):
    cookie = (("content-type", "application/json"), ("set-cookie", "tracker=canary-cookie; Path=/"))
    model = case.stage()
    case.ask(model, case.session())
    body = bytes(model.last.sent)
    stage = case.stage(answer=lambda _body: Answer(body, headers=cookie))
    reply = case.ask(stage, case.session())
    if "set-cookie" in reply.headers:
        raise Broken("a reply without the engine's cookie", reply.headers["set-cookie"])
    case.ask(stage, case.session())
    expect("canary-cookie" not in stage.last.headers.get("cookie", ""), "a request to the engine without a cookie", stage.last.headers)
