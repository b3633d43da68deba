"""Bad requests get vLLM's statuses and words."""

import pytest

from .conftest import BASH

NAMED = {"type": "function", "function": {"name": "nope"}}
IMAGE = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]
USER = {"role": "user", "content": "x"}
CALL = {"id": "call_1", "type": "function"}


@pytest.mark.parametrize(
    ("fields", "status", "kind", "said"),
    [
        ({"model": "nope"}, 404, "NotFoundError", "The model `nope` does not exist. Valid aliases: scripted."),
        ({"tools": []}, 400, "BadRequestError", "`tools` must not be an empty array."),
        ({"tools": None, "tool_choice": "auto"}, 400, "BadRequestError", "When using `tool_choice`, `tools` must be set."),
        ({"tools": None, "tool_choice": "required"}, 400, "BadRequestError", "When using `tool_choice`, `tools` must be set."),
        ({"tool_choice": NAMED}, 400, "BadRequestError", "The tool specified in `tool_choice` does not match any of the specified `tools`"),
        ({"max_tokens": 0}, 400, "BadRequestError", "max_tokens must be at least 1, got 0."),
        ({"max_completion_tokens": -1}, 400, "BadRequestError", "max_tokens must be at least 1, got -1."),
        ({"top_logprobs": 21}, 400, "BadRequestError", "Requested sample logprobs of 21, which is greater than max allowed: 20"),
        ({"top_logprobs": 2, "logprobs": None}, 400, "BadRequestError", "`logprobs` must be set"),
        ({"messages": []}, 400, "BadRequestError", "Cannot apply chat template to an empty conversation."),
        ({"messages": None}, 400, "Bad Request", "Field required"),
        ({"messages": [{"role": "user", "content": None}]}, 400, "Bad Request", "valid string"),
        ({"messages": [{"content": "x"}]}, 400, "Bad Request", "Field required"),
        ({"messages": [USER, {"role": "assistant", "tool_calls": [{"id": "x"}]}]}, 400, "Bad Request", "Field required"),
        ({"messages": IMAGE}, 400, "BadRequestError", "scripted is not a multimodal model"),
        ({"temperature": -1}, 400, "BadRequestError", "temperature"),
        ({"temperature": 3}, 400, "BadRequestError", "temperature"),
        ({"temperature": "hot"}, 400, "Bad Request", "valid number"),
        ({"top_p": 0}, 400, "BadRequestError", "top_p"),
        ({"n": 0}, 400, "BadRequestError", "n must be at least 1, got 0."),
        ({"n": 2, "temperature": 0}, 400, "BadRequestError", "greedy"),
        ({"stream_options": {"include_usage": True}}, 400, "BadRequestError", "Stream options can only be defined when `stream=True`."),
        ({"stop": [1]}, 400, "Bad Request", "valid string"),
        ({"stream": "maybe"}, 400, "Bad Request", "valid boolean"),
    ],
)
def test_a_bad_request_is_refused_as_vllm_refuses_it(client, fields, status, kind, said):
    reply = client.chat(**fields)
    error = reply.json()["error"]
    assert (reply.status_code, error["type"], error["code"]) == (status, kind, status)
    assert said in error["message"]
    assert set(error) == {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    "fields",
    [
        {"model": None},
        {"model": ""},
        {"tools": None},
        {"messages": [USER, {"role": "tool", "tool_call_id": "nobody", "content": "x"}]},
        {"messages": [USER, {"role": "assistant", "tool_calls": []}]},
        {"messages": [USER, {"role": "assistant", "tool_calls": [{**CALL, "function": {"name": "bash", "arguments": ""}}]}]},
        {"messages": [USER, {"role": "assistant", "tool_calls": [{**CALL, "function": {"name": "bash", "arguments": "{broken"}}]}]},
        {"messages": [{"role": "developer", "content": "x"}, {"role": "martian", "content": [{"type": "text", "text": "x"}]}]},
        {"guided_choice": ["x"], "store": False, "unheard_of": {"a": 1}},
        {"tool_choice": "none"},
        {"logprobs": True, "top_logprobs": 0},
    ],
)
def test_what_vllm_accepts_is_accepted(client, fields):
    reply = client.chat(**fields)
    assert reply.status_code == 200, reply.text


def test_a_prompt_beyond_the_context_is_counted_to_one_over_the_limit(serve):
    error = serve(max_model_len=20).chat().json()["error"]
    assert error["param"] == "input_tokens"
    assert "maximum context length is 20 tokens. However, your prompt contains at least 21 input tokens" in error["message"]


def test_a_prompt_as_long_as_the_context_leaves_no_room(serve):
    length = len(serve().chat().json()["prompt_token_ids"])
    reply = serve(max_model_len=length).chat()
    assert (reply.status_code, reply.json()["error"]["message"]) == (400, "max_tokens must be at least 1, got 0.")


@pytest.mark.parametrize("raw", [b"{not json", b"", b"[]", b"42"])
def test_a_body_that_is_no_json_object_is_a_bad_request(client, raw):
    reply = client.post("/v1/chat/completions", content=raw, headers={"content-type": "application/json"})
    assert (reply.status_code, reply.json()["error"]["type"]) == (400, "Bad Request")


def test_unknown_paths_and_methods_are_told_apart(client):
    assert (client.get("/v1/chat/completions").status_code, client.get("/v1/chat/completions").json()) == (
        405,
        {"detail": "Method Not Allowed"},
    )
    assert (client.get("/nowhere").status_code, client.get("/nowhere").json()) == (404, {"detail": "Not Found"})


def test_a_wrong_key_is_unauthorized_on_v1_only(serve):
    client = serve(api_key="secret")
    assert client.chat().status_code == client.get("/v1/models").status_code == 401
    assert client.get("/health").status_code == 200
    client.headers["authorization"] = "Bearer secret"
    assert client.chat().status_code == 200


def test_an_id_out_of_the_vocabulary_has_no_text(client):
    assert client.post("/detokenize", json={"tokens": [999999]}).json() == {"prompt": ""}


def test_more_tokens_than_the_context_has_are_refused(serve):
    error = serve(max_model_len=500).chat(max_completion_tokens=501).json()["error"]
    assert (error["code"], error["param"]) == (400, "max_completion_tokens")
    assert "max_completion_tokens=501 cannot be greater than max_model_len=500" in error["message"]


def test_sampling_is_refused_only_where_the_prompt_fits(serve):
    assert serve(max_model_len=20).chat(temperature=3).json()["error"]["param"] == "input_tokens"
    assert serve().chat(temperature=3, model="nope").json()["error"]["param"] == "model"


@pytest.mark.parametrize(("value", "read"), [("1.0", 1), (True, 1), (2.0, 2), ("2", 2)])
def test_a_number_may_be_written_in_other_ways(client, value, read):
    assert len(client.chat(n=value).json()["choices"]) == read


def test_more_choices_than_vllm_makes_are_refused(client):
    assert "n must be at most 16384" in client.chat(n=1_000_000).json()["error"]["message"]


def test_bytes_that_are_no_text_are_refused_below_vllm(client):
    reply = client.post("/v1/chat/completions", content=b"\xff\xfe", headers={"content-type": "application/json"})
    assert (reply.status_code, reply.json()) == (400, {"detail": "There was an error parsing the body"})


@pytest.mark.parametrize("arguments", ["", "{broken", "[1]", '"ls"', "null"])
def test_arguments_in_a_history_that_are_no_object_become_an_empty_one(client, arguments):
    call = {**CALL, "function": {"name": "bash", "arguments": arguments}}
    asked = [
        [USER, {"role": "assistant", "tool_calls": [{**call, "function": {"name": "bash", "arguments": told}}]}]
        for told in (arguments, "{}")
    ]
    first, second = (client.chat(messages=messages).json()["prompt_token_ids"] for messages in asked)
    assert first == second


def test_a_tool_that_is_not_offered_is_named_in_the_refusal(client):
    other = {"type": "function", "function": {**BASH["function"], "name": "run_shell"}}
    reply = client.chat(tools=[other])
    assert reply.status_code == 400
    assert "`bash`, but the request offers only: run_shell" in reply.json()["error"]["message"]


def test_a_choice_of_another_tool_than_the_scripts_is_refused(client):
    other = {"type": "function", "function": {**BASH["function"], "name": "title"}}
    reply = client.chat(tools=[BASH, other], tool_choice={"type": "function", "function": {"name": "title"}})
    assert reply.status_code == 400
    assert "`title`" in reply.json()["error"]["message"]
