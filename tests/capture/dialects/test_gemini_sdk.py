"""google-genai as witness: what its own client sends is understood, and what it is sent it reads, in both modes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from google import genai
from google.genai import errors, types

from pytest_harness.capture.dialects.base import QUERY, RefusalError
from pytest_harness.capture.dialects.gemini import GeminiDialect

GEMINI = GeminiDialect()

Say = Callable[[dict[str, Any]], dict[str, Any]]


def completion(*messages: dict[str, Any], finish: str = "stop", **more: Any) -> dict[str, Any]:
    choices = [{"index": n, "message": {"role": "assistant", **message}, "finish_reason": finish} for n, message in enumerate(messages)]
    usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    return {"id": "chatcmpl-1", "object": "chat.completion", "model": "served", "choices": choices, "usage": usage, **more}


def call(name: str, arguments: str, call_id: str | None = "engine-1") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def chunks(document: dict[str, Any], size: int = 3) -> list[dict[str, Any]]:
    """The same reply as a stream, its strings cut in pieces."""

    def chunk(index: int, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": index, "delta": delta, "finish_reason": finish}
        return {"id": document["id"], "object": "chat.completion.chunk", "model": document["model"], "choices": [choice]}

    def cut(text: str | None) -> list[str]:
        return [text[at : at + size] for at in range(0, len(text or ""), size)]

    told = []
    for choice in document["choices"]:
        message, index = choice["message"], choice["index"]
        told.append(chunk(index, {"role": "assistant", "content": ""}))
        told += [chunk(index, {"reasoning": piece}) for piece in cut(message.get("reasoning"))]
        told += [chunk(index, {"content": piece}) for piece in cut(message.get("content"))]
        for number, made in enumerate(message.get("tool_calls") or []):
            head = {"id": made["id"], "type": "function", "index": number, "function": {"name": made["function"]["name"]}}
            told.append(chunk(index, {"tool_calls": [head]}))
            told += [
                chunk(index, {"tool_calls": [{"index": number, "function": {"arguments": piece}}]})
                for piece in cut(made["function"]["arguments"])
            ]
        told.append(chunk(index, {}, choice["finish_reason"]))
    told.append({"id": document["id"], "object": "chat.completion.chunk", "model": document["model"], "choices": []})
    return [*told[:-1], told[-1] | {"usage": document["usage"]}]


class Wire(httpx.BaseTransport):
    """The dialect as a server; ``say`` is the engine."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.told: list[bytes] = []
        self.say: Say = lambda chat: completion({"content": "Hello"})
        self.breaks = False

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        headers = {**{name.lower(): value for name, value in request.headers.items()}, QUERY: request.url.query.decode()}
        route = GEMINI.route(request.method, request.url.raw_path.decode().partition("?")[0], headers)
        assert route is not None, request.url
        try:
            if route.kind in ("models", "model"):
                return httpx.Response(200, content=GEMINI.answer(route, model="served", created=0, tokens=None))
            prepared, reply = GEMINI.prepare(request.content, route, created=0)
        except RefusalError as refusal:
            body = GEMINI.error(refusal.status, str(refusal), param=refusal.param)
            return httpx.Response(refusal.status, content=body, headers={"content-type": "application/json"})
        self.asked.append(prepared.chat)
        if route.kind == "count":
            return httpx.Response(200, content=GEMINI.answer(route, model="served", created=0, tokens=42))
        document = self.say(prepared.chat)
        if not prepared.streamed:
            self.told.append(reply.whole(document))
            return httpx.Response(200, content=self.told[-1])
        assert route.framing == "sse"
        told = [reply.opening(), *map(reply.chunk, chunks(document))]
        told.append(reply.error_event(502, "the engine broke off") if self.breaks else reply.closing())
        return httpx.Response(200, content=b"".join(told), headers={"content-type": "text/event-stream"})


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
def client(wire: Wire):
    http = httpx.Client(transport=wire)
    with genai.Client(api_key="key", http_options=types.HttpOptions(base_url="http://proxy", httpx_client=http)) as client:
        yield client
    http.close()


def summed(responses) -> dict[str, Any]:
    """What a client has of a reply, be it one response or the chunks of a stream: neighbouring texts are one."""
    parts: dict[int, list[dict[str, Any]]] = {}
    endings: dict[int, Any] = {}
    usage = None
    for response in responses:
        usage = response.usage_metadata or usage
        for candidate in response.candidates:
            index = candidate.index or 0
            if candidate.finish_reason is not None:
                assert index not in endings
                endings[index] = (candidate.finish_reason, candidate.finish_message)
            for part in candidate.content.parts:
                told = part.model_dump(exclude_none=True)
                mine = parts.setdefault(index, [])
                if mine and "text" in told and "text" in mine[-1] and told.get("thought") == mine[-1].get("thought"):
                    mine[-1] |= told | {"text": mine[-1]["text"] + told["text"]}
                else:
                    mine.append(told)
    texts = {index: [part for part in mine if part.get("text") != "" or "thought_signature" in part] for index, mine in parts.items()}
    return {"parts": texts, "endings": endings, "usage": usage}


REPLIES = [
    completion({"content": "Hello ✓ \u2028 there"}),
    completion({"content": ""}),
    completion({"content": "", "reasoning": "only a thought"}),
    completion({"content": "An answer.", "reasoning": "A thought."}),
    completion({"content": "cut of", "reasoning": None}, finish="length"),
    completion({"content": None, "tool_calls": [call("ls", '{"path": "/tmp"}')]}, finish="tool_calls"),
    completion(
        {"content": "Two:\n", "reasoning": "hm", "tool_calls": [call("ls", '{"n":1.0}'), call("ls", "{}", "engine-2")]},
        finish="tool_calls",
    ),
    completion({"content": "one"}, {"content": "two", "tool_calls": [call("ls", "{}")]}),
    completion({"content": "Text", "tool_calls": [call("ls", '{"path": "/tm'), call("ls", "{}", "e")]}, finish="tool_calls"),
    completion({"content": None, "tool_calls": [call("ls", "[1, 2]")]}, finish="tool_calls"),
    completion({"content": None, "tool_calls": [call("ls", '{"path": "/tm')]}, finish="length"),
]


@pytest.mark.parametrize("document", REPLIES)
def test_a_stream_adds_up_to_the_whole_reply(client, wire, document):
    wire.say = lambda chat: document
    whole = client.models.generate_content(model="m", contents="hi")
    streamed = list(client.models.generate_content_stream(model="m", contents="hi"))
    assert summed(streamed) == summed([whole])


def test_the_whole_reply_says_what_the_engine_said(client, wire):
    wire.say = lambda chat: completion(
        {"content": "Two:", "reasoning": "hm", "tool_calls": [call("ls", '{"n": [1, null]}'), call("cat", "", "engine-2")]},
        finish="tool_calls",
        usage={
            "prompt_tokens": 11,
            "completion_tokens": 7,
            "total_tokens": 18,
            "prompt_tokens_details": {"cached_tokens": 4},
            "completion_tokens_details": {"reasoning_tokens": 2},
        },
    )
    response = client.models.generate_content(model="m", contents="hi")
    assert [(c.id, c.name, c.args) for c in response.function_calls] == [
        ("engine-1", "ls", {"n": [1, None]}),
        ("engine-2", "cat", {}),
    ]
    parts = response.candidates[0].content.parts
    assert [(part.text, part.thought) for part in parts[:2]] == [("hm", True), ("Two:", None)]
    assert response.candidates[0].finish_reason == types.FinishReason.STOP
    usage = response.usage_metadata
    assert (usage.prompt_token_count, usage.candidates_token_count, usage.total_token_count) == (11, 5, 18)
    assert (usage.thoughts_token_count, usage.cached_content_token_count) == (2, 4)
    assert (response.model_version, response.response_id) == ("served", "chatcmpl-1")


def test_a_usage_that_the_engine_did_not_count_is_absent(client, wire):
    wire.say = lambda chat: completion({"content": "x"}, usage=None)
    assert client.models.generate_content(model="m", contents="hi").usage_metadata is None


@pytest.mark.parametrize(
    ("arguments", "finish", "reason"), [('{"a": ', "tool_calls", "MALFORMED_FUNCTION_CALL"), ("7", "length", "MAX_TOKENS")]
)
def test_arguments_that_are_no_object_are_told_as_malformed(client, wire, arguments, finish, reason):
    wire.say = lambda chat: completion({"content": None, "tool_calls": [call("ls", arguments)]}, finish=finish)
    response = client.models.generate_content(model="m", contents="hi")
    candidate = response.candidates[0]
    assert candidate.finish_reason.value == reason
    told = json.loads(wire.told[-1])["candidates"][0]  # google-genai leaves the message out
    assert told["finishMessage"] == f"Malformed function call: ls({arguments})"
    assert not any(part.function_call for part in candidate.content.parts)


def test_a_call_without_a_name_is_told_as_malformed(client, wire):
    calls = [{"id": "e", "function": {"arguments": '{"a": 1}'}}, call("ls", "{}")]
    wire.say = lambda chat: completion({"content": None, "tool_calls": calls})
    candidate = client.models.generate_content(model="m", contents="hi").candidates[0]
    assert candidate.finish_reason.value == "MALFORMED_FUNCTION_CALL"
    assert json.loads(wire.told[-1])["candidates"][0]["finishMessage"] == 'Malformed function call: ({"a": 1})'


@pytest.mark.parametrize("streamed", [False, True])
def test_a_chat_with_function_calling_gives_the_engine_its_own_turns_back(client, wire, streamed):
    turns = [
        {
            "content": "Let me look.\n",
            "reasoning": "think",
            "tool_calls": [call("read", '{"path":  "a", "n": 1.0}'), call("read", "", "e2")],
        },
        {"content": "Done.", "reasoning": "more"},
        {"content": "Bye."},
    ]
    wire.say = lambda chat: completion(turns[sum(message["role"] == "assistant" for message in chat["messages"])])
    chat = client.chats.create(model="m", config={"system_instruction": "Be brief.", "tools": [_declared()]})

    def send(message):
        return list(chat.send_message_stream(message)) if streamed else [chat.send_message(message)]

    calls = [made for response in send("start") for made in response.function_calls or []]
    answers = [types.Part.from_function_response(name=made.name, response={"output": f"result {n}"}) for n, made in enumerate(calls)]
    for made, answer in zip(calls, answers, strict=True):
        answer.function_response.id = made.id
    send(answers)
    send("thanks")
    assert wire.asked[-1]["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "start"},
        {
            "role": "assistant",
            "content": "Let me look.\n",
            "reasoning_content": "think",
            "tool_calls": [call("read", '{"path":  "a", "n": 1.0}'), call("read", "", "e2")],
        },
        {"role": "tool", "tool_call_id": "engine-1", "content": "result 0"},
        {"role": "tool", "tool_call_id": "e2", "content": "result 1"},
        {"role": "assistant", "content": "Done.", "reasoning_content": "more"},
        {"role": "user", "content": "thanks"},
    ]


def _declared() -> types.Tool:
    schema = types.Schema(type="OBJECT", properties={"path": types.Schema(type="STRING", nullable=True)}, required=["path"])
    return types.Tool(function_declarations=[types.FunctionDeclaration(name="read", description="Reads.", parameters=schema)])


def test_automatic_function_calling_runs_the_function_and_answers_by_id(client, wire):
    def read(path: str) -> str:
        """Reads a file."""
        return f"content of {path}"

    turns = [{"content": None, "tool_calls": [call("read", '{"path": "a"}')]}, {"content": "Done."}]
    wire.say = lambda chat: completion(turns[sum(message["role"] == "assistant" for message in chat["messages"])])
    assert client.models.generate_content(model="m", contents="go", config={"tools": [read]}).text == "Done."
    assert wire.asked[-1]["messages"][-1] == {"role": "tool", "tool_call_id": "engine-1", "content": '{"result": "content of a"}'}
    assert wire.asked[0]["tools"][0]["function"]["parameters"]["properties"] == {"path": {"type": "string"}}


def test_all_settings_reach_the_engine(client, wire):
    config = types.GenerateContentConfig(
        temperature=0.5,
        top_p=0.9,
        top_k=40,
        max_output_tokens=100,
        stop_sequences=["END"],
        candidate_count=2,
        seed=3,
        presence_penalty=0.1,
        frequency_penalty=0.2,
        response_logprobs=True,
        logprobs=2,
        response_mime_type="application/json",
        response_schema=types.Schema(type="OBJECT", properties={"a": types.Schema(type="INTEGER")}),
        tools=[_declared()],
        tool_config=types.ToolConfig(function_calling_config={"mode": "ANY", "allowed_function_names": ["read"]}),
        thinking_config=types.ThinkingConfig(thinking_level="LOW", include_thoughts=True),
        safety_settings=[types.SafetySetting(category="HARM_CATEGORY_HARASSMENT", threshold="BLOCK_NONE")],
    )
    client.models.generate_content(model="m", contents="hi", config=config)
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    parameters = {"type": "object", "properties": {"path": {"type": ["string", "null"]}}, "required": ["path"]}
    assert wire.asked[0] == {
        "messages": [{"role": "user", "content": "hi"}],
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 40,
        "max_tokens": 100,
        "stop": ["END"],
        "n": 2,
        "seed": 3,
        "presence_penalty": 0.1,
        "frequency_penalty": 0.2,
        "logprobs": True,
        "top_logprobs": 2,
        "response_format": {"type": "json_schema", "json_schema": {"name": "response", "schema": schema}},
        "reasoning_effort": "low",
        "tools": [{"type": "function", "function": {"name": "read", "description": "Reads.", "parameters": parameters}}],
        "tool_choice": {"type": "function", "function": {"name": "read"}},
    }


def test_logprobs_that_were_asked_for_are_told(client, wire):
    content = [{"token": "a", "logprob": -0.5, "top_logprobs": [{"token": "b", "logprob": -1.0}]}, {"token": "c", "logprob": -1.5}]
    document = completion({"content": "ac"})
    document["choices"][0]["logprobs"] = {"content": content}
    wire.say = lambda chat: document
    config = {"response_logprobs": True, "logprobs": 1}
    candidate = client.models.generate_content(model="m", contents="hi", config=config).candidates[0]
    assert [(c.token, c.log_probability) for c in candidate.logprobs_result.chosen_candidates] == [("a", -0.5), ("c", -1.5)]
    assert candidate.logprobs_result.top_candidates[0].candidates[0].token == "b"
    assert candidate.avg_logprobs == -1.0
    assert client.models.generate_content(model="m", contents="hi").candidates[0].logprobs_result is None


def test_an_image_of_any_bytes_reaches_the_engine_as_a_data_url(client, wire):
    parts = [types.Part.from_text(text="see"), types.Part.from_bytes(data=b"\xfb\xff\xfe\x00", mime_type="image/png")]
    client.models.generate_content(model="m", contents=parts)
    assert wire.asked[0]["messages"][0]["content"] == [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,+//+AA=="}},
    ]


def test_thoughts_are_kept_back_from_a_client_that_refuses_them_and_still_come_back(client, wire):
    turns = [{"content": "A.", "reasoning": "hidden"}, {"content": "B."}]
    wire.say = lambda chat: completion(turns[sum(message["role"] == "assistant" for message in chat["messages"])])
    chat = client.chats.create(model="m", config={"thinking_config": {"include_thoughts": False}})
    response = chat.send_message("hi")
    assert [part.text for part in response.candidates[0].content.parts] == ["A."]
    chat.send_message("again")
    assert wire.asked[-1]["messages"][1] == {"role": "assistant", "content": "A.", "reasoning_content": "hidden"}


def test_an_error_body_and_an_error_in_a_stream_are_raised(client, wire):
    with pytest.raises(errors.ClientError) as caught:
        client.models.generate_content(model="m", contents="hi", config={"cached_content": "cachedContents/1"})
    assert (caught.value.code, caught.value.status) == (400, "INVALID_ARGUMENT")
    assert "cachedContent is not supported" in caught.value.message
    wire.breaks = True
    with pytest.raises(errors.ServerError) as broken:
        list(client.models.generate_content_stream(model="m", contents="hi"))
    assert (broken.value.code, broken.value.status, broken.value.message) == (502, "UNAVAILABLE", "the engine broke off")


def test_tokens_are_counted_and_models_listed(client, wire):
    assert client.models.count_tokens(model="m", contents="hi").total_tokens == 42
    assert [model.name for model in client.models.list()] == ["models/served"]
    assert client.models.get(model="served").name == "models/served"
    with pytest.raises(errors.ClientError) as caught:
        client.models.get(model="other")
    assert caught.value.code == 404
