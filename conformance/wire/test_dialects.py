"""DIA: every dialect says the same to the engine, refuses what it cannot say, and serves nothing that is not captured."""

import gzip
import json
import zlib

import pytest

from pytest_harness.session.wire_marks import each_dialect, requirement
from pytest_harness.wire.encodings import brotli_stored, zstd_stored
from pytest_harness.wire.outcome import Broken, expect, same
from pytest_harness.wire.talks import SdkError

OTHERS = pytest.mark.parametrize("dialect", ["responses", "messages", "gemini"])
STEPS = (("I look.", ["ls -la", "cat 'é.txt'"]), ("Then one more.", ["true"]), ("Done ✓.", ()))

SCHEMA = {"type": "object", "properties": {"command": {"type": "string", "description": "The command."}}, "required": ["command"]}
TOOL = {"name": "bash", "description": "Run a command in a shell."}
WORDS = "You work in a shell. " * 20
COUNTING = {
    "messages": (
        "/v1/messages/count_tokens",
        "input_tokens",
        {"system": ("system", WORDS), "tools": ("tools", [{**TOOL, "input_schema": SCHEMA}])},
    ),
    "gemini": (
        "/v1beta/models/any-model:countTokens",
        "totalTokens",
        {
            "system": ("systemInstruction", {"parts": [{"text": WORDS}]}),
            "tools": ("tools", [{"functionDeclarations": [{**TOOL, "parameters": SCHEMA}]}]),
        },
    ),
}
"""By dialect: the route for counting, where the number stands, and what else is part of a prompt."""


def conversation(case, dialect, stage, *, tools):
    session = case.session()
    talk = case.talk(dialect, stage, session, tools=tools, system="You work in a shell.")
    for turn in range(3):
        said = talk.ask(streamed=turn % 2 == 1)
        if said.calls:
            talk.results([f"result {turn} of {number}" for number in range(len(said.calls))])
        else:
            talk.user("Go on.")
    return session


@requirement("DIA-101")
@OTHERS
def test_the_same_text_has_the_same_capture_in_every_dialect(case, dialect):
    case.needs("chat", dialect)
    stage = case.stage(("One.", ()), ("Two ✓.", ()), ("Three.", ()))
    captured = [case.calls(conversation(case, each, stage, tools=False), 3) for each in ("chat", dialect)]
    for number, (chat, other) in enumerate(zip(*captured, strict=True), start=1):
        same(other.prompt_ids, chat.prompt_ids, f"the prompt ids of turn {number}")
        same(other.samples[0].token_ids, chat.samples[0].token_ids, f"the sampled ids of turn {number}")


@requirement("DIA-102")
@OTHERS
def test_the_same_calls_and_results_reach_the_engine_from_every_dialect(case, dialect):
    case.needs("chat", dialect)
    said = []
    for each in ("chat", dialect):
        stage = case.stage(*STEPS)
        conversation(case, each, stage, tools=True)
        body = stage.answered[-1].body
        said.append(([neutral(message, stage.tag) for message in body["messages"]], [tool_facts(tool) for tool in body.get("tools", ())]))
    same(said[1][0], said[0][0], "the messages of the last request to the engine")
    same(said[1][1], said[0][1], "the tools of the last request to the engine")


def neutral(message, tag):
    content = message.get("content") or ""
    text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
    calls = [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in message.get("tool_calls") or ()]
    if message["role"] == "tool" and text.startswith("{"):
        text = json.loads(text).get("output", text)  # gemini's results are objects
    return message["role"], text.replace(tag, ""), calls


def tool_facts(tool):
    function = tool["function"]
    parameters = {name: value for name, value in function["parameters"].items() if name != "additionalProperties"}
    return function["name"], function.get("description"), parameters


@requirement("DIA-103")
@pytest.mark.parametrize(
    ("dialect", "fields"),
    [
        ("responses", {"previous_response_id": "resp_123"}),
        ("responses", {"conversation": "conv_123"}),
        ("responses", {"prompt": {"id": "pmpt_123"}}),
        ("responses", {"background": True, "store": True}),
        ("responses", {"input": [{"type": "item_reference", "id": "msg_123"}]}),
        ("messages", {"container": "container_123"}),
        ("messages", {"mcp_servers": [{"type": "url", "url": "https://example.org", "name": "x"}]}),
        ("gemini", {"cachedContent": "cachedContents/123"}),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
def test_state_that_only_the_vendor_has_is_refused(case, dialect, fields):
    case.needs(dialect)
    stage, session = case.stage(), case.session()
    reply = case.ask(stage, session, dialect, **fields)
    expect(400 <= reply.status < 500, "a refusal (4xx)", f"status {reply.status}: {reply.body.decode(errors='replace')}")
    same(len(stage.served), 0, "requests to the engine")


@requirement("DIA-104")
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/embeddings"),
        ("POST", "/v1/completions"),
        ("POST", "/v1/moderations"),
        ("POST", "/v1/batches"),
        ("POST", "/v1/responses/compact"),
        ("POST", "/v1/messages/batches"),
        ("POST", "/v1beta/models/any-model:embedContent"),
        ("POST", "/tokenize"),
        ("GET", "/v1/files"),
        ("POST", "/v1/chat/completions/batch"),
    ],
)
def test_other_routes_are_closed_and_never_a_call(case, method, path):
    stage, session = case.stage(), case.session()
    body = {**case.body(stage), "input": "x", "prompt": stage.tag}
    if method == "POST":
        reply = case.http.post(session.root + path, body, key=session.key)
    else:
        reply = case.http.send(method, session.root + path, headers={"authorization": f"Bearer {session.key}"})
    expect(reply.status in (400, 404, 405, 501), "404, 405 or 501", f"status {reply.status}: {reply.body.decode(errors='replace')}")
    same(len(stage.served), 0, "requests to the engine")
    same(len(case.complete(session)), 0, "captured calls")


@requirement("DIA-105")
@pytest.mark.parametrize(("dialect", "path"), [("chat", "/chat/completions"), ("responses", "/responses"), ("messages", "/messages")])
def test_a_path_without_v1_is_the_same_route(case, dialect, path):
    case.needs(dialect)
    stage, session = case.stage(), case.session()
    reply = case.http.post(session.root + path, case.body(stage, dialect), key=session.key)
    same(reply.status, 200, f"the status of POST {path}")
    case.calls(session, 1)


@requirement("DIA-106")
@pytest.mark.parametrize(
    ("dialect", "names"),
    [
        ("chat", ["n", "stop", "max_tokens", "temperature", "stream", "tools", "tool_choice", "stream_options", "response_format"]),
        (
            "responses",
            ["tools", "max_output_tokens", "instructions", "previous_response_id", "stream", "temperature", "metadata", "reasoning"],
        ),
        ("gemini", ["tools", "systemInstruction", "generationConfig", "safetySettings", "toolConfig"]),
    ],
    ids=["chat", "responses", "gemini"],
)
def test_a_null_field_is_like_an_absent_one(case, dialect, names):
    case.needs(dialect)
    stage, session = case.stage(), case.session()
    for fields in ({}, dict.fromkeys(names)):
        reply = case.ask(stage, session, dialect, **fields)
        expect(reply.status == 200, "status 200", f"status {reply.status}: {reply.body.decode(errors='replace')}")
    first, second = case.calls_as_served(session, stage)
    same(second.prompt_ids, first.prompt_ids, "the prompt ids with null fields")


@requirement("DIA-107")
@pytest.mark.parametrize(
    ("name", "encode"), [("gzip", gzip.compress), ("deflate", zlib.compress), ("br", brotli_stored), ("zstd", zstd_stored)]
)
def test_a_compressed_request_is_read(case, name, encode):
    stage, session = case.stage(), case.session()
    headers = {"content-type": "application/json", "content-encoding": name, "authorization": f"Bearer {session.key}"}
    reply = case.http.send("POST", case.url("chat", session), headers=headers, body=encode(json.dumps(case.body(stage)).encode()))
    expect(reply.status == 200, "status 200", f"status {reply.status}: {reply.body.decode(errors='replace')}")
    case.calls(session, 1)


@requirement("DIA-108")
def test_a_request_that_unpacks_without_end_is_refused(case):
    stage, session = case.stage(), case.session()
    text = json.dumps(case.body(stage, padding="")).encode().replace(b'"padding": ""', b'"padding": "' + b" " * (300 << 20) + b'"')
    bomb = gzip.compress(text, 1)
    headers = {"content-type": "application/json", "content-encoding": "gzip", "authorization": f"Bearer {session.key}"}
    reply = case.http.send("POST", case.url("chat", session), headers=headers, body=bomb)
    expect(reply.status in (400, 413, 415), "413", f"status {reply.status}")
    same(len(stage.served), 0, "requests to the engine")
    same(case.ask(stage, session).status, 200, "the status of the next request")


@requirement("DIA-109")
def test_a_request_that_is_too_large_is_told_so_at_once(case):
    session = case.session()
    wire = case.wire(session)
    path = "/" + case.url("chat", session).split("/", 3)[3]
    headers = (f"authorization: Bearer {session.key}", "content-type: application/json", f"content-length: {1 << 40}")
    wire.send(wire.head("POST", path, *headers) + b'{"model": "x", ')
    same(wire.reply().status, 413, "the status of a request that announces 2^40 bytes")


@requirement("DIA-110")
def test_a_websocket_is_declined_at_once(case):
    case.needs("responses")
    session = case.session()
    wire = case.wire(session)
    headers = ("connection: Upgrade", "upgrade: websocket", "sec-websocket-version: 13", "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==")
    wire.send(wire.head("GET", "/v1/responses", *headers, f"authorization: Bearer {session.key}"))
    status = wire.reply().status
    expect(400 <= status < 500, "a status of 4xx, as 426", status)


@requirement("DIA-111")
@pytest.mark.parametrize(
    ("dialect", "path", "listed"),
    [("chat", "/v1/models", "data"), ("messages", "/v1/models", "data"), ("gemini", "/v1beta/models", "models")],
)
def test_models_are_listed_as_the_vendor_does_and_are_no_call(case, dialect, path, listed):
    case.needs(dialect)
    session = case.session()
    headers = {"authorization": f"Bearer {session.key}"} | ({"anthropic-version": "2023-06-01"} if dialect == "messages" else {})
    reply = case.http.send("GET", session.root + path, headers=headers)
    same(reply.status, 200, f"the status of GET {path}")
    expect(isinstance(reply.document, dict) and reply.document.get(listed), f"a list of models in {listed}", reply.document)
    same(len(case.complete(session)), 0, "captured calls")


@requirement("DIA-112")
@pytest.mark.parametrize("dialect", COUNTING)
def test_counting_tokens_is_no_call(case, dialect):
    case.needs(dialect)
    path, field, _ = COUNTING[dialect]
    stage, session = case.stage(), case.session()
    reply = case.http.post(session.root + path, case.body(stage, dialect), key=session.key)
    same(reply.status, 200, f"the status of POST {path}")
    count = reply.document.get(field) if isinstance(reply.document, dict) else None
    expect(type(count) is int and count > 0, f"a number of tokens in {field}", reply.document)
    same(len(case.complete(session)), 0, "captured calls")


@requirement("DIA-117")
@pytest.mark.parametrize("dialect", COUNTING)
@pytest.mark.parametrize("part", ["system", "tools"])
def test_a_count_is_of_the_whole_prompt(case, dialect, part):
    case.needs(dialect)
    stage, session = case.stage(), case.session()
    path, field, parts = COUNTING[dialect]
    counts = []
    for fields in ({}, dict([parts[part]])):
        reply = case.http.post(session.root + path, case.body(stage, dialect, **fields), key=session.key)
        same(reply.status, 200, f"the status of POST {path}")
        count = reply.document.get(field) if isinstance(reply.document, dict) else None
        expect(type(count) is int, f"a number of tokens in {field}", reply.document)
        counts.append(count)
    expect(counts[1] > counts[0], f"more than the {counts[0]} tokens without {part}", counts[1])


@requirement("DIA-113")
@each_dialect
def test_private_fields_do_not_reach_the_engine(case, dialect):
    stage, session = case.stage(), case.session()
    case.needs(dialect)
    reply = case.ask(stage, session, dialect, _private_marker="canary-of-the-client", x_internal={"trace": "canary-of-the-client"})
    if 400 <= reply.status < 500:
        return
    expect(b"canary-of-the-client" not in stage.only.raw, "a request to the engine without the client's private fields", stage.only.raw)


@requirement("DIA-114")
@each_dialect
@pytest.mark.parametrize("body", [b"{", b"[]", b'"text"', b"{}", b"\xff\xfe"], ids=["cut", "list", "text", "empty", "binary"])
def test_a_malformed_request_is_refused_in_the_dialects_shape(case, dialect, body):
    session = case.session()
    headers = {"content-type": "application/json", "authorization": f"Bearer {session.key}"}
    reply = case.http.send("POST", case.url(dialect, session), headers=headers, body=body)
    expect(400 <= reply.status < 500, "a refusal (4xx)", f"status {reply.status}: {reply.body.decode(errors='replace')}")
    document = reply.document
    expect(isinstance(document, dict) and isinstance(document.get("error"), dict), "an object with an object `error`", document)
    expect(document["error"].get("message"), "an error with a message", document)
    same(len(case.complete(session)), 0, "captured calls")


@requirement("DIA-115")
@pytest.mark.parametrize(
    ("dialect", "tool"),
    [
        ("chat", {"type": "custom", "custom": {"name": "apply_patch"}}),
        ("responses", {"type": "custom", "name": "apply_patch", "format": {"type": "text"}}),
        ("responses", {"type": "web_search"}),
        ("responses", {"type": "mcp", "server_label": "apply_patch", "server_url": "https://example.org"}),
        ("messages", {"type": "web_search_20250305", "name": "web_search"}),
        ("gemini", {"googleSearch": {}}),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value.values()), None) or next(iter(value)),
)
def test_a_tool_that_cannot_be_offered_is_never_dropped_in_silence(case, dialect, tool):
    case.needs(dialect)
    stage, session = case.stage(), case.session()
    reply = case.ask(stage, session, dialect, tools=[tool])
    if 400 <= reply.status < 500:
        return
    noted = any(call.notes for call in case.calls(session, 1))
    expect(
        noted or stage.last.body.get("tools"), "a refusal (4xx), a note, or a request to the engine that offers the tool", stage.last.body
    )


@requirement("DIA-116")
@each_dialect
def test_the_sdk_raises_an_error_for_an_unknown_key(case, dialect):
    stage, session = case.stage(), case.session()
    talk = case.talk(dialect, stage, type(session)("sk-unknown-key", session.root, session.base_urls))
    try:
        talk.ask()
    except SdkError as error:
        same(error.status, 401, "the status that the SDK tells")
    else:
        raise Broken("an error of the SDK", talk.last)
