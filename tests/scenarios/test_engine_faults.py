"""The engine fails as a scenario says: in that turn, so often, and in that way, on an engine of our own and on one behind a relay."""

import json

import httpx
import pytest

from pytest_harness.capture import Upstream
from pytest_harness.engines.scripted import Script, ScriptedEngine
from pytest_harness.evidence import EngineFault
from pytest_harness.rollouts.engines import SharedEngine, engine_of
from pytest_harness.rollouts.faults import FaultyEngine, Relay
from pytest_harness.serving import BackgroundServer

TOOL = {"type": "function", "function": {"name": "bash", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}}}
TASK = {"role": "user", "content": "Do it."}
FIRST = [TASK]
SECOND = [TASK, {"role": "assistant", "content": "I look."}]
SCRIPT = Script.for_seam([("I look.", ["ls"]), ("All of it is done now.", [])], shell_tool="bash", instruction="Do it.")
BUSY = EngineFault(turn=2, kind="error", status=429, message="Too many requests are running.", retry_after=1)
CUT = EngineFault(turn=2, kind="cut", after=3)


@pytest.fixture(params=["our own engine", "an engine behind a relay"])
def engine(request):
    """Makes an engine with faults, and says how to ask it."""
    servers = []

    def serve(app):
        servers.append(BackgroundServer(app).start())
        return servers[-1].listen().url

    def start(*faults):
        scripted = ScriptedEngine(SCRIPT, api_key="sk-engine")
        inner = (
            scripted if request.param == "our own engine" else Relay(Upstream(url=serve(scripted), model="scripted", api_key="sk-engine"))
        )
        url = serve(FaultyEngine(inner, SCRIPT, faults, room=4096))

        def ask(messages, *, stream=False, tools=(TOOL,)):
            body = {"model": "scripted", "messages": messages, "stream": stream, **({"tools": list(tools)} if tools else {})}
            return httpx.post(f"{url}/v1/chat/completions", json=body, headers={"authorization": "Bearer sk-engine"})

        ask.url = url
        return ask

    yield start
    for server in reversed(servers):
        server.close()


def test_the_turn_fails_as_often_as_it_is_told_and_is_answered_then(engine):
    ask = engine(BUSY.model_copy(update={"times": 2}))
    assert ask(FIRST).status_code == 200
    for _ in range(2):
        reply = ask(SECOND)
        assert (reply.status_code, reply.headers["retry-after"]) == (429, "1")
        assert reply.json()["error"]["message"] == "Too many requests are running."
    assert ask(SECOND).json()["choices"][0]["message"]["content"] == "All of it is done now."


def test_an_error_without_a_time_to_come_back_has_no_such_header(engine):
    reply = engine(EngineFault(turn=1, kind="error", status=500, message="Lost."))(FIRST)
    assert reply.status_code == 500
    assert "retry-after" not in reply.headers


def test_a_side_call_meets_no_fault_and_uses_none_up(engine):
    ask = engine(EngineFault(turn=1, kind="error", status=503, message="Away."))
    assert ask(FIRST, tools=()).status_code == 200
    assert ask([{"role": "user", "content": "A title, please."}]).status_code == 200
    assert ask(FIRST).status_code == 503


def test_a_stream_breaks_off_after_so_many_events(engine):
    ask = engine(CUT)
    body = {"model": "scripted", "messages": SECOND, "tools": [TOOL], "stream": True}
    asking = httpx.stream("POST", f"{ask.url}/v1/chat/completions", json=body, headers={"authorization": "Bearer sk-engine"})
    seen = b""
    with pytest.raises(httpx.RemoteProtocolError), asking as reply:  # noqa: PT012 - it breaks off while it is read
        for piece in reply.iter_bytes():
            seen += piece
    assert seen.count(b"data: ") == 3
    assert b"[DONE]" not in seen
    assert "[DONE]" in ask(SECOND, stream=True).text


def test_a_reply_that_is_not_streamed_breaks_off_in_the_middle(engine):
    ask = engine(CUT)
    with pytest.raises(httpx.RemoteProtocolError):
        ask(SECOND)
    assert ask(SECOND).status_code == 200


def test_an_overflow_is_told_in_the_engines_own_words(engine):
    ask = engine(EngineFault(turn=2, kind="overflow"))
    reply = ask(SECOND)
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "input_tokens")
    assert "maximum context length is 4096 tokens" in reply.json()["error"]["message"]
    assert ask(SECOND).status_code == 200


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (EngineFault(turn=1, kind="empty"), ("stop", "", [])),
        (EngineFault(turn=1, kind="unknown_tool"), ("tool_calls", None, [("consult_the_oracle", '{"question": "Which number is it?"}')])),
        (EngineFault(turn=1, kind="length", after=3), ("length", "I look.", [])),
        (
            EngineFault(turn=1, kind="malformed"),
            ("stop", 'I look.\n<tool_call>\n{"name": "bash", "arguments": {"command": "ls"\n</tool_call>', []),
        ),
    ],
)
def test_the_engine_says_itself_once_what_a_fault_has_it_say(engine, fault, told):
    ask = engine(fault)
    for expected in (told, ("tool_calls", "I look.\n", [("bash", '{"command": "ls"}')])):
        choice = ask(FIRST).json()["choices"][0]
        calls = [(call["function"]["name"], call["function"]["arguments"]) for call in choice["message"].get("tool_calls") or []]
        assert (choice["finish_reason"], choice["message"]["content"], calls) == expected


def test_a_malformed_call_is_streamed_letter_for_letter(engine):
    text = engine(EngineFault(turn=1, kind="malformed"))(FIRST, stream=True).text
    chunks = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    deltas = [call for chunk in chunks for choice in chunk["choices"] for call in choice["delta"].get("tool_calls") or []]
    assert "".join(call["function"].get("arguments") or "" for call in deltas) == '{"command": "ls"'


def test_what_is_no_chat_request_is_left_to_the_engine(engine):
    ask = engine(EngineFault(turn=1, kind="error", status=500, message="Lost."))
    reply = httpx.post(f"{ask.url}/v1/chat/completions", content=b"[1", headers={"authorization": "Bearer sk-engine"})
    assert reply.status_code == 400


def test_a_relay_knows_the_chat_route_alone():
    with BackgroundServer(Relay(Upstream(url="http://127.0.0.1:9", model="none"))) as server:
        assert httpx.get(f"{server.listen().url}/v1/models").status_code == 404


def test_an_engine_that_is_not_there_is_not_there_behind_a_relay_either():
    with BackgroundServer(FaultyEngine(Relay(Upstream(url="http://127.0.0.1:9", model="none")), SCRIPT, (), room=4096)) as server:
        url = server.listen().url
        assert httpx.post(f"{url}/v1/chat/completions", json={"messages": FIRST}).status_code == 500


def test_an_overflow_of_a_rollout_names_the_room_that_its_engine_has():
    with engine_of(SCRIPT, None, salt="", faults=(EngineFault(turn=1, kind="overflow"),)) as engine:
        headers = {"authorization": f"Bearer {engine.upstream.api_key}"}
        body = {"model": engine.upstream.model, "messages": FIRST, "tools": [TOOL]}
        told = httpx.post(engine.upstream.completions, headers=headers, json=body).json()["error"]["message"]
        served = httpx.get(engine.upstream.completions.replace("/chat/completions", "/models"), headers=headers).json()["data"][0]
    assert f"maximum context length is {served['max_model_len']} tokens" in told


@pytest.mark.parametrize("faults", [(), (BUSY,)])
def test_a_shared_engine_is_asked_directly_unless_there_are_faults(tmp_path, faults):
    (tmp_path / "log").touch()
    with BackgroundServer(ScriptedEngine(SCRIPT, api_key="sk-engine")) as server:
        url = server.listen().url
        shared = SharedEngine(url, "sk-engine", "scripted", str(tmp_path / "log"), {}, {})
        with engine_of(SCRIPT, shared, salt="", faults=faults) as engine:
            assert (engine.upstream.url == url) == (not faults)
            assert engine.upstream.api_key == "sk-engine"
            body = json.dumps({"model": "scripted", "messages": SECOND, "tools": [TOOL]})
            reply = httpx.post(engine.upstream.completions, content=body, headers=dict(engine.upstream.headers()))
            assert reply.status_code == (429 if faults else 200)
