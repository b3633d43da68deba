"""What Gemini's clients ask, as chat completions say it; what cannot be said is refused in Google's words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_harness.capture.dialects.base import QUERY, RefusalError, Route
from pytest_harness.capture.dialects.gemini import GeminiDialect
from pytest_harness.capture.dialects.gemini_schema import json_schema

GEMINI = GeminiDialect()

CALL = Route("call", model="m", streamed=False)
HI = {"role": "user", "parts": [{"text": "hi"}]}


def prepared(body: dict[str, Any]):
    return GEMINI.prepare(json.dumps({"contents": [HI]} | body).encode(), CALL, created=0)[0]


def chat(**body: Any) -> dict[str, Any]:
    return prepared(body).chat


def refusal(**body: Any) -> str:
    with pytest.raises(RefusalError) as caught:
        chat(**body)
    assert caught.value.status == 400
    return str(caught.value)


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


def model(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def call(name: str, call_id: str | None = None, **args: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": args} | ({} if call_id is None else {"id": call_id})}


def response(name: str, output: Any, call_id: str | None = None) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": output} | ({} if call_id is None else {"id": call_id})}


def test_snake_case_and_camel_case_and_nulls_say_the_same():
    camel = {
        "contents": [HI, model(call("a")), {"role": "user", "parts": [response("a", {"x_y": 1})]}],
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "generationConfig": {"maxOutputTokens": 5, "stopSequences": ["x"], "topP": None},
        "tools": [{"functionDeclarations": [{"name": "a", "parametersJsonSchema": {"type": "object", "properties": {"a_b": {}}}}]}],
        "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
    }
    snake = {
        "contents": [
            {"parts": [{"text": "hi"}], "role": None},
            model({"function_call": {"name": "a", "args": {}}}),
            user({"function_response": {"name": "a", "response": {"x_y": 1}}}),
        ],
        "system_instruction": {"parts": [{"text": "Be brief."}]},
        "generation_config": {"max_output_tokens": 5.0, "stop_sequences": ["x"]},
        "tools": [{"function_declarations": [{"name": "a", "parameters_json_schema": {"type": "object", "properties": {"a_b": {}}}}]}],
        "tool_config": {"function_calling_config": {"mode": "auto"}},
        "cached_content": None,
    }
    assert chat(**camel) == chat(**snake)
    assert chat(**camel)["messages"][0] == {"role": "system", "content": "Be brief."}
    assert chat(**camel)["messages"][-1]["content"] == '{"x_y": 1}'
    assert "is given twice" in refusal(generationConfig={"topK": 1, "top_k": 2})


@pytest.mark.parametrize(
    "instruction", ["Be brief.", {"parts": [{"text": "Be brief."}]}, {"parts": {"text": "Be brief."}}, [{"text": "Be brief."}]]
)
def test_a_system_instruction_comes_in_all_its_forms(instruction):
    assert chat(systemInstruction=instruction)["messages"][0] == {"role": "system", "content": "Be brief."}


def test_results_are_paired_by_id_and_told_in_the_order_of_the_calls():
    contents = [
        HI,
        model(call("a", "x"), call("a", "y"), call("b", "z")),
        user(response("b", {"output": "3"}, "z"), response("a", {"output": "2"}, "y")),
        user(response("a", {"output": "1"}, "x"), {"text": "and now?"}),
    ]
    assert chat(contents=contents)["messages"][2:] == [
        {"role": "tool", "tool_call_id": "x", "content": "1"},
        {"role": "tool", "tool_call_id": "y", "content": "2"},
        {"role": "tool", "tool_call_id": "z", "content": "3"},
        {"role": "user", "content": "and now?"},
    ]


def test_results_without_ids_are_paired_by_name_and_order():
    contents = [
        HI,
        model(call("a"), call("b"), call("a")),
        user(response("a", {"output": "1"}), response("a", {"output": "3"}), response("b", {})),
    ]
    messages = chat(contents=contents)["messages"]
    assert [(m["tool_call_id"], m["content"]) for m in messages[2:]] == [
        ("gemini-call-0", "1"),
        ("gemini-call-1", "{}"),
        ("gemini-call-2", "3"),
    ]


def test_ids_of_ours_are_the_same_in_every_longer_request():
    turn = [model(call("a")), user(response("a", {"output": "1"}))]
    first, second = chat(contents=[HI, *turn])["messages"], chat(contents=[HI, *turn, *turn])["messages"]
    assert second[: len(first)] == first
    assert second[-1]["tool_call_id"] == "gemini-call-1"


def test_an_id_that_a_client_uses_again_is_told_only_once():
    turn = [model(call("a", "same")), user(response("a", {"output": "1"}, "same"))]
    ids = [m["tool_call_id"] for m in chat(contents=[HI, *turn, *turn])["messages"] if m["role"] == "tool"]
    assert ids == ["same", "gemini-call-1"]


COUNTS = "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn."


@pytest.mark.parametrize(
    ("contents", "words"),
    [
        ([HI, model(call("a"), call("b")), user(response("a", {}))], COUNTS),
        ([HI, model(call("a")), user(response("a", {}), response("a", {}))], COUNTS),
        ([HI, model(call("a")), user({"text": "never mind"})], COUNTS),
        ([HI, model(call("a"))], COUNTS),
        ([HI, model(call("a", "x")), user(response("a", {}, "other"))], COUNTS),
        ([HI, model(call("a")), user(response("b", {}))], COUNTS),
        ([HI, model(call("a", "x"), call("a", "y")), user(response("a", {}, "x"), response("a", {}, "x"))], COUNTS),
        ([user(response("a", {}))], "Please ensure that function response turn comes immediately after a function call turn."),
        ([HI, model({"text": "x"}), user(response("a", {}))], "Please ensure that function response turn comes immediately"),
        ([{"role": "assistant", "parts": [{"text": "x"}]}], "Please use a valid role: user, model."),
        ([], "contents is not specified"),
        ([user()], "contents.parts must not be empty"),
        ([user({})], "required oneof field 'data' must have one initialized field"),
        ([user({"text": "a", "inlineData": {"mimeType": "image/png", "data": ""}})], "a part has one content"),
        ([user({"fileData": {"fileUri": "files/1"}})], "contents[0].parts[0].fileData is not supported"),
        ([user({"inlineData": {"mimeType": "application/pdf", "data": ""}})], "Unsupported MIME type: application/pdf"),
        ([HI, model({"executableCode": {"code": "1"}})], "executableCode is not supported"),
        ([HI, model({"functionCall": {"args": {}}})], "Name cannot be empty"),
        ([user({"text": 3})], "contents[0].parts[0].text is a whole number; it must be a string"),
    ],
)
def test_contents_that_chat_cannot_say_are_refused(contents, words):
    assert words in refusal(contents=contents)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"contents": None}, "contents is not specified"),
        ({"contents": "hi"}, "contents is a string; it must be a list"),
        ({"cachedContent": "cachedContents/1"}, "cachedContent is not supported"),
        ({"tools": [{"googleSearch": {}}]}, "tools[0].googleSearch is a tool that Google's server runs"),
        ({"tools": [{"code_execution": {}}]}, "tools[0].codeExecution is a tool"),
        ({"tools": [{"urlContext": {}}]}, "tools[0].urlContext is a tool"),
        ({"tools": [{"functionDeclarations": [{}]}]}, "tools[0].functionDeclarations[0].name: Name cannot be empty"),
        ({"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}}, "mode ANY needs functionDeclarations"),
        ({"toolConfig": {"functionCallingConfig": {"mode": "SOME"}}}, "it must be one of AUTO, ANY"),
        ({"toolConfig": {"functionCallingConfig": {"allowedFunctionNames": ["a"]}}}, "only allowed with mode ANY or VALIDATED"),
        ({"toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["a"]}}}, '"a" is not declared in tools'),
        ({"generationConfig": {"responseModalities": ["IMAGE"]}}, "the model answers in text only"),
        ({"generationConfig": {"responseMimeType": "text/x.enum"}}, "responseMimeType text/x.enum is not supported"),
        ({"generationConfig": {"responseSchema": {}}}, "only allowed with generationConfig.responseMimeType application/json"),
        ({"generationConfig": {"temperature": "hot"}}, "generationConfig.temperature is a string; it must be a number"),
        ({"generationConfig": {"speechConfig": {"a": 1}}}, "generationConfig.speechConfig is not supported"),
    ],
)
def test_requests_that_chat_cannot_say_are_refused(body, words):
    assert words in refusal(**body)


def test_a_body_that_is_no_json_object_is_refused():
    for body in (b"", b"[]", b"{", b"\xff"):
        with pytest.raises(RefusalError):
            GEMINI.prepare(body, CALL, created=0)


@pytest.mark.parametrize(
    ("config", "choice", "offered"),
    [
        ({}, None, ["a", "b", "c"]),
        ({"mode": "AUTO"}, "auto", ["a", "b", "c"]),
        ({"mode": "ANY"}, "required", ["a", "b", "c"]),
        ({"mode": "NONE"}, "none", ["a", "b", "c"]),
        ({"mode": "ANY", "allowedFunctionNames": ["b"]}, {"type": "function", "function": {"name": "b"}}, ["a", "b", "c"]),
        ({"mode": "ANY", "allowedFunctionNames": ["b", "c"]}, "required", ["b", "c"]),
        ({"mode": "VALIDATED", "allowedFunctionNames": ["b"]}, "auto", ["b"]),
    ],
)
def test_the_tool_choice_is_told(config, choice, offered):
    tools = [{"functionDeclarations": [{"name": name} for name in "ab"]}, {"functionDeclarations": [{"name": "c"}]}]
    said = chat(tools=tools, toolConfig={"functionCallingConfig": config})
    assert said.get("tool_choice") == choice
    assert [tool["function"]["name"] for tool in said["tools"]] == offered


@pytest.mark.parametrize("tools", [[], [{"functionDeclarations": []}], None])
def test_no_tools_are_no_field(tools):
    assert chat(tools=tools, toolConfig={"functionCallingConfig": {"mode": "AUTO"}}).keys() == {"messages"}


def test_what_the_engine_is_not_told_is_noted():
    body = {
        "generationConfig": {"thinkingConfig": {"thinkingBudget": 100}, "mediaResolution": "MEDIA_RESOLUTION_LOW"},
        "xPrivate": {"a": 1},
        "safetySettings": [{"category": "x"}],
        "contents": [HI, model(call("a"), {"text": "after"}), user({"text": "before"}, response("a", {}))],
    }
    said = prepared(body)
    assert said.chat.keys() == {"messages"}
    assert len(said.notes) == 5
    for words in ("thinkingBudget", "mediaResolution", "xPrivate", "contents[1].parts[1].text", "contents[2]"):
        assert any(words in note for note in said.notes)


def test_a_response_with_pictures_keeps_them():
    parts = [{"inlineData": {"mimeType": "image/png", "data": "AA"}}]
    result = {"functionResponse": {"name": "a", "response": {"output": "see"}, "parts": parts}}
    assert chat(contents=[HI, model(call("a")), user(result)])["messages"][-1]["content"] == [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
    ]


def test_a_failure_keeps_its_name():
    contents = [HI, model(call("a")), user(response("a", {"error": "no such file"}))]
    assert chat(contents=contents)["messages"][-1]["content"] == '{"error": "no such file"}'


def test_a_foreign_signature_says_nothing_and_a_broken_one_of_ours_is_refused():
    foreign = model({"text": "x", "thoughtSignature": "skip_thought_signature_validator"}, {"thoughtSignature": "c2lnbmVk"})
    assert chat(contents=[HI, foreign])["messages"][1] == {"role": "assistant", "content": "x"}
    broken = model({"text": "x", "thoughtSignature": "aGFybmVzcy1jb25mb3JtYW5jZToxOnt9fQ=="})
    assert "Corrupted thought signature." in refusal(contents=[HI, broken])


def test_a_schema_of_googles_becomes_json_schema_at_every_depth():
    schema = {
        "type": "OBJECT",
        "description": "STRING stays in texts",
        "properties": {
            "type": {"type": "STRING", "enum": ["STRING", "b"], "format": "enum", "nullable": True},
            "list": {"type": "ARRAY", "items": {"type": "INTEGER", "format": "int32"}, "minItems": "1", "max_items": 3},
            "either": {"anyOf": [{"type": "NUMBER"}, {"type": "BOOLEAN"}], "nullable": True},
            "snake_case": {"type": ["STRING", "NULL"], "example": "STRING", "default": {"type": "STRING"}},
            "free": {"type": "OBJECT", "additionalProperties": {"type": "STRING"}, "nullable": False},
        },
        "required": ["type"],
        "propertyOrdering": ["list", "type", "either", "snake_case", "free"],
    }
    said = json_schema(schema, "here")
    assert said == {
        "type": "object",
        "description": "STRING stays in texts",
        "properties": {
            "type": {"type": ["string", "null"], "enum": ["STRING", "b", None], "format": "enum"},
            "list": {"type": "array", "items": {"type": "integer", "format": "int32"}, "minItems": 1, "maxItems": 3},
            "either": {"anyOf": [{"type": "number"}, {"type": "boolean"}, {"type": "null"}]},
            "snake_case": {"type": ["string", "null"], "examples": ["STRING"], "default": {"type": "STRING"}},
            "free": {"type": "object", "additionalProperties": {"type": "string"}},
        },
        "required": ["type"],
    }
    assert list(said["properties"]) == schema["propertyOrdering"]


def test_a_schema_without_end_is_refused():
    schema: dict[str, Any] = {"type": "STRING"}
    for _ in range(100):
        schema = {"type": "ARRAY", "items": schema}
    assert "nested more than" in refusal(tools=[{"functionDeclarations": [{"name": "a", "parameters": schema}]}])


@pytest.mark.parametrize("prefix", ["", "/v1", "/v1beta", "/v1alpha", "/v1/v1beta"])
@pytest.mark.parametrize("name", ["m", "org/m:7b", "org%2Fm%3A7b"])
def test_the_routes_of_a_model(prefix, name):
    model_name = "m" if name == "m" else "org/m:7b"
    path = f"{prefix}/models/{name}"
    assert GEMINI.route("POST", f"{path}:generateContent", {}) == Route("call", model_name, streamed=False)
    assert GEMINI.route("POST", f"{path}:countTokens", {}) == Route("count", model_name, streamed=False)
    assert GEMINI.route("POST", f"{path}:streamGenerateContent", {QUERY: "key=1&alt=sse"}) == Route("call", model_name, streamed=True)
    json_stream = Route("call", model_name, streamed=True, framing="json")
    assert GEMINI.route("POST", f"{path}:streamGenerateContent", {}) == json_stream
    assert GEMINI.route("GET", path, {"x-goog-api-key": "k"}) == Route("model", model_name)
    assert GEMINI.route("GET", f"{prefix}/models", {QUERY: "key=k"}) == Route("models")
    assert (GEMINI.route("GET", f"{prefix}/models", {}) is not None) == ("beta" in prefix or "alpha" in prefix)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1beta/models/m:embedContent"),
        ("POST", "/v1beta/models/m"),
        ("POST", "/v1beta/models/:generateContent"),
        ("POST", "/v1beta/models"),
        ("GET", "/v1beta/files"),
        ("POST", "/v1/chat/completions"),
        ("DELETE", "/v1beta/models/m"),
    ],
)
def test_other_routes_are_none(method, path):
    assert GEMINI.route(method, path, {"x-goog-api-key": "k"}) is None


def test_a_count_may_wrap_its_request():
    body = json.dumps({"generateContentRequest": {"contents": [HI], "systemInstruction": "s"}}).encode()
    said = GEMINI.prepare(body, Route("count", model="m"), created=0)[0].chat
    assert [message["role"] for message in said["messages"]] == ["system", "user"]


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (400, "INVALID_ARGUMENT"),
        (401, "UNAUTHENTICATED"),
        (404, "NOT_FOUND"),
        (429, "RESOURCE_EXHAUSTED"),
        (503, "UNAVAILABLE"),
        (500, "INTERNAL"),
    ],
)
def test_an_engines_error_keeps_status_message_type_and_code(status, name):
    body = json.dumps({"error": {"message": "no", "type": "SomeError", "code": status, "param": None}}).encode()
    error = json.loads(GEMINI.upstream_error(status, body))["error"]
    assert (error["code"], error["status"], error["message"]) == (status, name, "no")
    assert error["details"][0]["reason"] == "SomeError"
    assert error["details"][0]["metadata"] == {"code": str(status)}


def test_an_overflow_is_told_in_googles_words_and_the_engines():
    message = "This model's maximum context length is 4096 tokens. However, your prompt contains at least 4097 input tokens."
    body = json.dumps({"error": {"message": message, "type": "BadRequestError", "code": 400}}).encode()
    told = json.loads(GEMINI.upstream_error(400, body))["error"]["message"]
    assert told == f"The input token count exceeds the maximum number of tokens allowed. {message}"
