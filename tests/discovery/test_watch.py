"""Which channel and which key moved a request, whatever the harness made of its address."""

import httpx
import pytest

from pytest_harness.discovery.watch import Watch, new_keys

PORTS = {8601: "OPENAI_BASE_URL", 8602: "ANTHROPIC_BASE_URL"}
KEYS = new_keys(["OPENAI_API_KEY", "ANTHROPIC_API_KEY"])


@pytest.fixture
def watched():
    """A watch in front of an application that says 200, or what it is told; what it passed on, and how often it said "answered"."""
    passed: list[dict] = []
    answers: list[int] = []
    status = [200]

    async def engine(scope, receive, send):
        passed.append({name.decode(): value.decode() for name, value in scope["headers"]})
        await send({"type": "http.response.start", "status": status[0], "headers": []})
        await send({"type": "http.response.body", "body": b"{}", "more_body": False})

    watch = Watch(engine, "session-key", ports=PORTS, keys=KEYS, answered=lambda: answers.append(1))

    async def ask(url: str, method: str = "POST", **headers: str):
        transport = httpx.ASGITransport(watch)
        async with httpx.AsyncClient(transport=transport) as client:
            await client.request(method, url, headers={name.replace("_", "-"): value for name, value in headers.items()})
        return watch.requests[-1]

    ask.passed, ask.answers, ask.status = passed, answers, status
    return ask


async def test_the_port_says_the_channel_and_the_key_its_variable(watched):
    seen = await watched("http://127.0.0.1:8601/v1/chat/completions", authorization=f"Bearer {KEYS['OPENAI_API_KEY']}")
    assert (seen.channel, seen.dialect, seen.model_call, seen.answered) == ("OPENAI_BASE_URL", "chat", True, True)
    assert (seen.key, seen.key_header) == ("OPENAI_API_KEY", "authorization")
    assert watched.answers == [1]


async def test_the_key_is_known_in_each_header_and_in_the_query(watched):
    key = KEYS["ANTHROPIC_API_KEY"]
    seen = [
        await watched("http://127.0.0.1:8602/v1/messages", x_api_key=key),
        await watched("http://127.0.0.1:8602/v1beta/models/m:generateContent", x_goog_api_key=key),
        await watched(f"http://127.0.0.1:8602/v1beta/models/m:generateContent?key={key}"),
    ]
    assert [(each.key, each.key_header) for each in seen] == [
        ("ANTHROPIC_API_KEY", "x-api-key"),
        ("ANTHROPIC_API_KEY", "x-goog-api-key"),
        ("ANTHROPIC_API_KEY", "query"),
    ]
    assert [each.dialect for each in seen] == ["messages", "gemini", "gemini"]


async def test_what_is_passed_on_has_the_key_of_the_session_and_no_other(watched):
    await watched("http://127.0.0.1:8602/v1/messages", x_api_key="somebody's", authorization="Bearer else")
    assert watched.passed[0]["authorization"] == "Bearer session-key"
    assert "x-api-key" not in watched.passed[0]


async def test_a_foreign_key_is_none_of_ours(watched):
    seen = await watched("http://127.0.0.1:8601/v1/chat/completions", authorization="Bearer sk-foreign")
    assert (seen.key, seen.key_header) == (None, None)


async def test_a_refused_call_is_not_answered_and_a_probe_is_no_model_call(watched):
    watched.status[0] = 400
    assert not (await watched("http://127.0.0.1:8601/v1/chat/completions")).answered
    watched.status[0] = 200
    probe = await watched("http://127.0.0.1:8601/v1/models", method="GET")
    assert (probe.model_call, probe.answered) == (False, False)
    assert watched.answers == []


async def test_a_version_that_is_said_twice_is_the_same_route(watched):
    assert (await watched("http://127.0.0.1:8601/v1/v1/chat/completions")).path == "/v1/chat/completions"
