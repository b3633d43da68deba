"""A Responses request as a chat request: each field is carried, noted or refused; none is dropped."""

from __future__ import annotations

import json

import httpx
import openai
import pytest

from pytest_harness.capture.dialects.base import RefusalError, Route
from pytest_harness.capture.dialects.responses import ResponsesDialect

DIALECT = ResponsesDialect()
BASH = {"type": "function", "name": "bash", "description": "Run.", "parameters": {"type": "object"}, "strict": False}
IMAGE = "data:image/png;base64,AAAA"


def prepare(**fields):
    body = json.dumps({"model": "m", "input": "hi", **fields}).encode()
    return DIALECT.prepare(body, Route("call"), created=1)[0]


def chat(**fields):
    return prepare(**fields).chat


def messages(*items, **fields):
    return chat(input=list(items), **fields)["messages"]


def refusal(**fields):
    with pytest.raises(RefusalError) as caught:
        prepare(**fields)
    assert caught.value.status == 400
    return caught.value


def test_a_string_is_the_users_message_and_instructions_come_first():
    assert chat(instructions="Be kind.") == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hi"}],
    }


def test_roles_stay_in_place_and_developer_is_told_as_system():
    told = messages(
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "a"}], "id": "msg_client-made"},
        {"role": "user", "content": "b"},
        {"role": "system", "content": "c"},
        {"role": "assistant", "content": "d"},
        {"role": "developer", "content": "e"},
    )
    assert [(message["role"], message["content"]) for message in told] == [
        ("system", "a"),
        ("user", "b"),
        ("system", "c"),
        ("assistant", "d"),
        ("system", "e"),
    ]


def test_images_and_texts_keep_their_order():
    parts = [
        {"type": "input_text", "text": "Look:"},
        {"type": "input_image", "image_url": IMAGE, "detail": "high"},
        {"type": "input_image", "image_url": IMAGE},
        {"type": "input_text", "text": "What is it?"},
    ]
    [message] = messages({"role": "user", "content": parts})
    assert message["content"] == [
        {"type": "text", "text": "Look:"},
        {"type": "image_url", "image_url": {"url": IMAGE, "detail": "high"}},
        {"type": "image_url", "image_url": {"url": IMAGE}},
        {"type": "text", "text": "What is it?"},
    ]


def test_a_detail_that_chat_does_not_know_is_noted():
    prepared = prepare(input=[{"role": "user", "content": [{"type": "input_image", "image_url": IMAGE, "detail": "original"}]}])
    assert prepared.notes == ("input[0].content[0].detail original is unknown to chat completions, so the engine is not told",)
    assert prepared.chat["messages"][0]["content"][0]["image_url"] == {"url": IMAGE}


@pytest.mark.parametrize(
    ("output", "content"),
    [
        ("ok", "ok"),
        ([{"type": "input_text", "text": "ok"}], "ok"),
        ([], ""),
        (
            [{"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": IMAGE, "detail": "auto"}],
            [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": IMAGE, "detail": "auto"}}],
        ),
    ],
)
@pytest.mark.parametrize("kind", ["function_call_output", "custom_tool_call_output"])
def test_a_result_is_a_string_or_parts(kind, output, content):
    [message] = messages({"type": kind, "call_id": "c", "output": output})
    assert message == {"role": "tool", "tool_call_id": "c", "content": content}


def test_reasoning_goes_back_as_the_engines_field_in_its_most_exact_form():
    item = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "short"}]}
    texts = [{"type": "reasoning_text", "text": "long"}]
    for fields, expected in [({}, "short"), ({"content": texts}, "long"), ({"content": texts, "encrypted_content": "foreign"}, "long")]:
        [message] = messages({**item, **fields}, {"role": "assistant", "content": "so"})
        assert message == {"role": "assistant", "content": "so", "reasoning_content": expected}


def test_reasoning_that_another_server_encrypted_is_refused_when_nothing_else_tells_it():
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAA"}
    assert refusal(input=[item]).param == "input[0].encrypted_content"


def test_an_item_that_says_nothing_makes_no_message():
    assert messages({"type": "reasoning", "id": "rs_1", "summary": []}, {"role": "user", "content": "x"}) == [
        {"role": "user", "content": "x"}
    ]


@pytest.mark.parametrize(
    ("item", "param"),
    [
        ({"type": "item_reference", "id": "msg_1"}, "input[0]"),
        ({"id": "msg_1"}, "input[0]"),
        ({"type": "web_search_call", "id": "ws_1", "status": "completed"}, "input[0]"),
        ({"type": "compaction", "encrypted_content": "x"}, "input[0]"),
        ({"role": "critic", "content": "x"}, "input[0].role"),
        ({"role": "user", "content": 1}, "input[0].content"),
        ({"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}, "input[0].content[0]"),
        ({"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}, "input[0].content[0].file_id"),
        ({"role": "assistant", "content": [{"type": "input_image", "image_url": IMAGE}]}, "input[0].content[0]"),
        ({"type": "function_call", "name": "bash", "call_id": "c", "arguments": {}}, "input[0].arguments"),
        ({"type": "function_call_output", "call_id": None, "output": ""}, "input[0].call_id"),
        ({"type": "function_call_output", "call_id": "c"}, "input[0].output"),
    ],
)
def test_an_item_that_cannot_be_told_is_refused_by_its_place(item, param):
    assert refusal(input=[item]).param == param


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("previous_response_id", "resp_1"),
        ("conversation", "conv_1"),
        ("conversation", {"id": "conv_1"}),
        ("prompt", {"id": "pmpt_1"}),
        ("background", True),
        ("context_management", [{"type": "compaction"}]),
        ("moderation", {"model": "x"}),
        ("input", None),
        ("input", []),
        ("input", 1),
        ("model", None),
        ("stream", "yes"),
        ("temperature", "hot"),
        ("max_output_tokens", 1.5),
        ("tools", {}),
        ("include", "x"),
    ],
)
def test_a_field_that_cannot_be_obeyed_is_refused_by_its_name(name, value):
    assert refusal(**{name: value}).param == name


def test_null_is_as_good_as_absent():
    names = [
        "instructions",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "temperature",
        "text",
        "reasoning",
        "include",
        "stream",
        "store",
    ]
    names += ["previous_response_id", "conversation", "prompt", "background", "max_output_tokens", "metadata", "truncation", "top_logprobs"]
    prepared = prepare(**dict.fromkeys([*names, "unheard_of"]))
    assert prepared == prepare()
    assert prepared.chat == {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    assert not prepared.streamed


def test_sampling_is_carried_under_chats_names():
    told = chat(max_output_tokens=64, temperature=0.5, top_p=1, seed=7, stop=["x"], reasoning={"effort": "low"})
    assert told | {"messages": []} == {
        "model": "m",
        "messages": [],
        "max_completion_tokens": 64,
        "temperature": 0.5,
        "top_p": 1,
        "seed": 7,
        "stop": ["x"],
        "reasoning_effort": "low",
    }


def test_what_codex_sends_for_bookkeeping_neither_reaches_the_engine_nor_is_noted():
    prepared = prepare(
        store=False,
        stream=True,
        include=["reasoning.encrypted_content"],
        prompt_cache_key="k",
        client_metadata={"a": "b"},
        service_tier="auto",
        metadata={},
        user="u",
        safety_identifier="s",
        stream_options={"include_obfuscation": False},
        truncation="disabled",
    )
    assert prepared.chat.keys() == {"model", "messages"}
    assert prepared.notes == ()
    assert prepared.streamed


@pytest.mark.parametrize(
    "fields",
    [
        {"store": True},
        {"truncation": "auto"},
        {"text": {"verbosity": "low"}},
        {"reasoning": {"summary": "auto"}},
        {"reasoning": {"context": "all_turns"}},
        {"include": ["something.new"]},
        {"top_logprobs": 3},
        {"unheard_of": 1},
    ],
)
def test_what_the_engine_cannot_be_told_is_noted(fields):
    prepared = prepare(**fields)
    [note] = prepared.notes
    assert next(iter(fields)) in note
    assert prepared.chat.keys() == {"model", "messages"}


def test_a_json_schema_is_carried_as_chats_response_format():
    form = {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}
    assert chat(text={"format": form})["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True},
    }
    assert chat(text={"format": {"type": "json_object"}})["response_format"] == {"type": "json_object"}
    assert "response_format" not in chat(text={"format": {"type": "text"}})
    assert refusal(text={"format": {"type": "grammar"}}).param == "text.format"


def test_a_function_is_a_function():
    assert chat(tools=[BASH])["tools"] == [
        {"type": "function", "function": {"name": "bash", "description": "Run.", "parameters": {"type": "object"}, "strict": False}}
    ]


def test_a_namespace_is_flattened_and_its_description_told():
    inner = [{**BASH, "name": "ask"}, {"type": "custom", "name": "note"}]
    told = chat(tools=[{"type": "namespace", "name": "team", "description": "Of the team.", "tools": inner}])["tools"]
    assert [(tool["function"]["name"], tool["function"]["description"]) for tool in told] == [
        ("team__ask", "Of the team.\n\nRun."),
        ("team__note", "Of the team."),
    ]


def test_calls_in_a_history_have_the_flattened_name_too():
    call = {"type": "function_call", "name": "ask", "namespace": "team", "call_id": "c", "arguments": "{}"}
    [message] = messages(call)
    assert message["tool_calls"][0]["function"]["name"] == "team__ask"


def test_a_custom_tool_is_a_function_with_one_text_and_its_grammar_is_told_and_noted():
    patch = {
        "type": "custom",
        "name": "apply_patch",
        "description": "Edit.",
        "format": {"type": "grammar", "syntax": "lark", "definition": "start: x"},
    }
    prepared = prepare(tools=[patch])
    [tool] = prepared.chat["tools"]
    assert tool["function"]["description"] == "Edit.\n\nThe input follows this lark grammar:\nstart: x"
    assert tool["function"]["parameters"]["required"] == ["input"]
    assert prepared.notes == ("tools[0].format: the grammar is told to the model, but the engine does not enforce it",)


@pytest.mark.parametrize("kind", ["web_search", "web_search_preview", "web_search_preview_2025_03_11", "image_generation", "tool_search"])
def test_a_tool_that_only_the_vendors_server_runs_is_withheld_and_noted(kind):
    prepared = prepare(tools=[BASH, {"type": kind}])
    assert len(prepared.chat["tools"]) == 1
    assert prepared.notes == (f"tools[1] is of type {kind}: only the vendor's server runs it, so the model is not offered it",)


@pytest.mark.parametrize("kind", ["local_shell", "shell", "apply_patch", "computer_use_preview", "mcp", "file_search", "unheard_of", None])
def test_a_tool_that_cannot_be_offered_is_refused(kind):
    assert refusal(tools=[BASH, {"type": kind}]).param == "tools[1]"


def test_two_tools_of_one_name_are_refused():
    space = {"type": "namespace", "name": "a", "tools": [{**BASH, "name": "b"}]}
    assert refusal(tools=[space, {**BASH, "name": "a__b"}]).param == "tools[1].name"


def test_a_field_of_a_tool_that_would_change_its_meaning_is_noted():
    tool = {**BASH, "output_schema": {}, "defer_loading": False, "allowed_callers": ["direct"]}
    assert prepare(tools=[tool]).notes == ("tools[0].output_schema is not told to the engine",)


def test_tools_of_an_additional_tools_item_are_offered_too():
    space = {"type": "namespace", "name": "functions", "description": "", "tools": [{"type": "custom", "name": "exec"}]}
    item = {"type": "additional_tools", "role": "developer", "tools": [space]}
    told = chat(input=[item, {"role": "user", "content": "hi"}], tools=[BASH])
    assert [tool["function"]["name"] for tool in told["tools"]] == ["bash", "functions__exec"]
    assert [message["role"] for message in told["messages"]] == ["user"]


@pytest.mark.parametrize("tools", [None, [], [{"type": "web_search"}]])
@pytest.mark.parametrize("choice", [None, "auto", "none"])
def test_without_a_tool_to_offer_nothing_of_tools_is_told(tools, choice):
    assert chat(tools=tools, tool_choice=choice, parallel_tool_calls=True).keys() == {"model", "messages"}


@pytest.mark.parametrize(
    ("choice", "told"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ({"type": "function", "name": "bash"}, {"type": "function", "function": {"name": "bash"}}),
        ({"type": "custom", "name": "note"}, {"type": "function", "function": {"name": "team__note"}}),
        ({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "bash"}]}, "auto"),
        ({"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "bash"}]}, "required"),
    ],
)
def test_each_kind_of_tool_choice_is_carried(choice, told):
    tools = [BASH, {"type": "namespace", "name": "team", "tools": [{"type": "custom", "name": "note"}]}]
    request = chat(tools=tools, tool_choice=choice, parallel_tool_calls=False)
    assert request["tool_choice"] == told
    assert request["parallel_tool_calls"] is False
    allowed = ["bash"] if isinstance(choice, dict) and choice["type"] == "allowed_tools" else ["bash", "team__note"]
    assert [tool["function"]["name"] for tool in request["tools"]] == allowed


def test_allowed_tools_are_noted_as_the_prompt_offers_only_them():
    choice = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "web_search"}]}
    prepared = prepare(tools=[BASH, {"type": "web_search"}], tool_choice=choice)
    assert "tools" not in prepared.chat
    assert len(prepared.notes) == 3


@pytest.mark.parametrize(
    "choice",
    [
        {"type": "function", "name": "unheard_of"},
        {"type": "web_search_preview"},
        {"type": "mcp", "server_label": "x"},
        "sometimes",
        7,
    ],
)
def test_a_tool_choice_that_cannot_be_obeyed_is_refused(choice):
    assert refusal(tools=[BASH], tool_choice=choice).param == "tool_choice"


def test_required_without_a_tool_is_refused():
    assert refusal(tools=[{"type": "web_search"}], tool_choice="required").param == "tool_choice"


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b'"x"'])
def test_a_body_that_is_no_object_is_refused(body):
    with pytest.raises(RefusalError):
        DIALECT.prepare(body, Route("call"), created=1)


@pytest.mark.parametrize("prefix", ["", "/v1", "/v1/v1"])
@pytest.mark.parametrize(
    ("method", "path", "kind"),
    [
        ("POST", "/responses", "call"),
        ("POST", "/responses/input_tokens", "count"),
        ("GET", "/responses/resp_1", "probe"),
        ("DELETE", "/responses/resp_1", "probe"),
        ("POST", "/responses/resp_1/cancel", "probe"),
        ("GET", "/responses/resp_1/input_items", "probe"),
        ("POST", "/responses/compact", "probe"),
        ("GET", "/responses", None),
        ("POST", "/chat/completions", None),
        ("GET", "/models", None),
        ("POST", "/embeddings", None),
        ("POST", "/responsesx", None),
    ],
)
def test_routes_have_a_v1_or_none(prefix, method, path, kind):
    route = DIALECT.route(method, prefix + path, {})
    assert (route and route.kind) == kind


def test_a_stored_response_is_not_found():
    with pytest.raises(RefusalError, match="not stored") as caught:
        DIALECT.answer(Route("probe"), model="m", created=1, tokens=None)
    assert caught.value.status == 404


def test_a_count_is_answered_as_the_vendor_does_and_needs_no_model():
    prepared, _ = DIALECT.prepare(b'{"input": "hi"}', Route("count"), created=1)
    assert prepared.chat["messages"] == [{"role": "user", "content": "hi"}]
    body = DIALECT.answer(Route("count"), model="m", created=1, tokens=12)
    assert json.loads(body) == {"object": "response.input_tokens", "input_tokens": 12}
    with pytest.raises(RefusalError):
        DIALECT.answer(Route("count"), model="m", created=1, tokens=None)


def sdk_error(status, body):
    transport = httpx.MockTransport(lambda _: httpx.Response(status, content=body, headers={"content-type": "application/json"}))
    with (
        openai.OpenAI(api_key="k", max_retries=0, http_client=httpx.Client(transport=transport)) as client,
        pytest.raises(openai.APIStatusError) as caught,
    ):
        client.responses.create(model="m", input="hi")
    return caught.value


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (400, "invalid_request_error", None),
        (401, "invalid_request_error", "invalid_api_key"),
        (404, "invalid_request_error", None),
        (429, "rate_limit_error", "rate_limit_exceeded"),
        (502, "server_error", "server_error"),
    ],
)
def test_an_error_has_the_vendors_shape(status, kind, code):
    error = sdk_error(status, DIALECT.error(status, "So it is.", param="input"))
    assert (error.type, error.code, error.param) == (kind, code, "input")
    assert error.body["message"] == "So it is."


def test_an_engines_error_keeps_its_message_type_and_code():
    body = json.dumps({"error": {"message": "No.", "type": "BadRequestError", "param": "x", "code": 400}}).encode()
    error = sdk_error(400, DIALECT.upstream_error(400, body))
    assert (error.body["message"], error.type, error.code) == ("No.", "BadRequestError", "400")


@pytest.mark.parametrize("body", [b"<html>Bad gateway</html>", b"", b"null", b'{"detail": "Not Found"}'])
def test_an_engines_error_of_any_shape_is_told(body):
    error = sdk_error(502, DIALECT.upstream_error(502, body))
    assert error.body["message"]
    assert error.type == "server_error"


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 512 tokens. However, your prompt contains at least 513 input tokens.",
        "The decoder prompt (length 600) is longer than the maximum model length of 512.",
    ],
)
def test_an_overflow_has_the_code_by_which_codex_knows_it(message):
    body = json.dumps({"error": {"message": message, "type": "BadRequestError", "param": None, "code": 400}}).encode()
    error = sdk_error(400, DIALECT.upstream_error(400, body))
    assert (error.type, error.code) == ("invalid_request_error", "context_length_exceeded")
    assert error.body["message"] == message
