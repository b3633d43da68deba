"""What becomes of an Anthropic request: said to the engine in its place, or refused by name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_harness.capture.dialects.base import Prepared, RefusalError, Route
from pytest_harness.capture.dialects.messages import MessagesDialect

CALL = {"type": "tool_use", "id": "call-1", "name": "bash", "input": {"command": "ls", "timeout": 5}}
USER = {"role": "user", "content": "Hello."}
TOOL = {"name": "bash", "description": "Run it.", "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}}}


def prepared(kind: str = "call", **fields: Any) -> Prepared:
    """The default request, changed by ``fields``; None removes one, as null would."""
    body = {"model": "m", "max_tokens": 100, "messages": [USER]} | fields
    return MessagesDialect().prepare(json.dumps(body).encode(), Route(kind), created=0.0)[0]


def chat(**fields: Any) -> dict[str, Any]:
    return prepared(**fields).chat


def messages(*turns: Any, **fields: Any) -> list[dict[str, Any]]:
    return chat(messages=list(turns), **fields)["messages"]


def refusal(**fields: Any) -> RefusalError:
    with pytest.raises(RefusalError) as caught:
        prepared(**fields)
    return caught.value


def test_the_plainest_request_says_nothing_more_than_it_said():
    assert prepared() == Prepared({"messages": [USER], "max_tokens": 100}, streamed=False)
    assert prepared(stream=True).streamed


def test_sampling_settings_go_to_the_engine_under_its_names():
    said = chat(temperature=0.5, top_p=0.9, top_k=20, stop_sequences=["STOP"], metadata={"user_id": "someone"})
    assert said | {"messages": []} == {
        "messages": [],
        "max_tokens": 100,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 20,
        "stop": ["STOP"],
        "user": "someone",
    }


def test_null_and_empty_optional_fields_equal_absent_ones():
    names = ["temperature", "top_p", "top_k", "stop_sequences", "metadata", "system", "tools", "tool_choice", "thinking", "output_config"]
    assert chat(**dict.fromkeys(names), stream=None, context_management=None, mcp_servers=[], anything_new=None) == chat()
    assert chat(tools=[], tool_choice={"type": "auto"}, stop_sequences=[]) == chat()


@pytest.mark.parametrize("system", ["Be brief.", [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]])
def test_a_system_prompt_comes_first_and_a_list_of_one_block_says_the_same_as_a_string(system):
    assert messages(USER, system=system) == [{"role": "system", "content": "Be brief."}, USER]


def test_several_system_blocks_stay_several():
    system = [{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}]
    assert messages(USER, system=system)[0] == {"role": "system", "content": system}


def test_the_billing_line_of_claude_code_is_no_part_of_the_prompt_and_that_is_noted():
    billing = {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.332.ec5; cch=4711;"}
    said = prepared(system=[billing, {"type": "text", "text": "Be brief."}])
    assert said.chat["messages"][0] == {"role": "system", "content": "Be brief."}
    assert said.notes == ("Claude Code's billing line in the system prompt is left out",)


def test_a_prompt_that_only_begins_like_the_billing_line_is_kept():
    text = "x-anthropic-billing-header: is a header.\nExplain it."
    assert messages(USER, system=text)[0]["content"] == text


def test_a_system_message_in_mid_conversation_stays_in_its_place():
    later = {"role": "system", "content": [{"type": "text", "text": "The date changed.", "cache_control": {"type": "ephemeral"}}]}
    turns = [USER, {"role": "assistant", "content": "Hi."}, later, {"role": "user", "content": "Go on."}]
    assert [(turn["role"], turn["content"]) for turn in messages(*turns)] == [
        ("user", "Hello."),
        ("assistant", "Hi."),
        ("system", "The date changed."),
        ("user", "Go on."),
    ]


def test_a_trailing_system_message_ends_a_request_as_well_as_a_users():
    assert messages(USER, {"role": "system", "content": "Remember."})[-1] == {"role": "system", "content": "Remember."}


def test_an_assistant_turn_is_one_message_with_its_reasoning_and_calls():
    content = [
        {"type": "thinking", "thinking": "Let me see.", "signature": "c2ln"},
        {"type": "text", "text": "I look.\n"},
        CALL,
        CALL | {"id": "call-2"},
        {"type": "text", "text": "Done."},
    ]
    said = messages(USER, {"role": "assistant", "content": content}, USER)[1]
    calls = said.pop("tool_calls")
    assert said == {"role": "assistant", "content": "I look.\nDone.", "reasoning_content": "Let me see."}
    assert [call["id"] for call in calls] == ["call-1", "call-2"]
    assert [(call["type"], call["function"]["name"]) for call in calls] == [("function", "bash")] * 2
    assert json.loads(calls[0]["function"]["arguments"]) == CALL["input"]


def test_a_turn_of_calls_alone_has_no_content():
    assert messages(USER, {"role": "assistant", "content": [CALL]}, USER)[1]["content"] is None


def test_wrapped_arguments_go_back_as_the_model_wrote_them():
    call = CALL | {"input": {"INVALID_JSON": '{"command": "l'}}
    assert messages(USER, {"role": "assistant", "content": [call]}, USER)[1]["tool_calls"][0]["function"]["arguments"] == '{"command": "l'


def test_results_become_tool_messages_in_order_and_the_text_after_them_a_user_turn():
    content = [
        {"type": "tool_result", "tool_use_id": "call-1", "content": "a.txt"},
        {"type": "tool_result", "tool_use_id": "call-2"},
        {"type": "text", "text": "Go on."},
    ]
    assert messages(USER, {"role": "user", "content": content})[1:] == [
        {"role": "tool", "tool_call_id": "call-1", "content": "a.txt"},
        {"role": "tool", "tool_call_id": "call-2", "content": ""},
        {"role": "user", "content": "Go on."},
    ]


def test_text_before_a_result_is_refused_because_it_would_come_between_call_and_result():
    content = [{"type": "text", "text": "Well."}, {"type": "tool_result", "tool_use_id": "call-1", "content": "a.txt"}]
    error = refusal(messages=[{"role": "user", "content": content}])
    assert error.status == 400
    assert str(error).startswith("messages.0.content.1: tool_result blocks must come first")


def test_a_failed_tool_is_seen_to_have_failed():
    text = {"type": "tool_result", "tool_use_id": "call-1", "content": "no such file", "is_error": True}
    image = {"type": "image", "source": {"type": "url", "url": "http://x/y.png"}}
    contents = [
        messages({"role": "user", "content": [text | {"content": content}]})[0]["content"] for content in ("no such file", [image], None)
    ]
    assert contents[0] == "[tool error] no such file"
    assert contents[1] == [{"type": "text", "text": "[tool error]"}, {"type": "image_url", "image_url": {"url": "http://x/y.png"}}]
    assert contents[2] == "[tool error]"


def test_a_tool_that_did_not_fail_is_told_as_it_is():
    assert messages({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "fine", "is_error": False}]})[
        0
    ] == {
        "role": "tool",
        "tool_call_id": "c",
        "content": "fine",
    }


def test_images_keep_their_places_among_text_and_in_results():
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="}}
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGVsbG8="}}
    one, two = {"type": "text", "text": "One."}, {"type": "text", "text": "Two."}
    content = [{"type": "tool_result", "tool_use_id": "c", "content": [one, image]}, one, image, two]
    assert messages({"role": "user", "content": content}) == [
        {"role": "tool", "tool_call_id": "c", "content": [one, part]},
        {"role": "user", "content": [one, part, two]},
    ]


def test_a_reference_to_a_deferred_tool_is_told_by_name():
    content = [{"type": "tool_result", "tool_use_id": "c", "content": [{"type": "tool_reference", "tool_name": "Fetch"}]}]
    assert messages({"role": "user", "content": content})[0]["content"] == "[tool reference] Fetch"


@pytest.mark.parametrize(
    ("role", "block"),
    [
        ("user", {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="}}),
        ("user", {"type": "search_result", "source": "x", "title": "y", "content": []}),
        ("user", {"type": "something_new"}),
        ("user", {"type": "thinking", "thinking": "x", "signature": ""}),
        ("assistant", {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}),
        ("assistant", {"type": "image", "source": {"type": "url", "url": "http://x"}}),
        ("system", {"type": "image", "source": {"type": "url", "url": "http://x"}}),
        ("system", {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": {}}}),
        ("system", {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "x"}}),
    ],
)
def test_a_block_that_chat_cannot_say_is_refused_by_name(role, block):
    error = refusal(messages=[USER, {"role": role, "content": [block]}, USER])
    assert error.param == "messages.1.content.0"
    assert block["type"] in str(error)


def test_thinking_that_only_another_vendor_can_read_is_refused():
    error = refusal(messages=[USER, {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}]}, USER])
    assert "redacted_thinking" in str(error)


def test_an_image_by_file_id_is_refused():
    assert "'file'" in str(refusal(messages=[{"role": "user", "content": [{"type": "image", "source": {"type": "file", "file_id": "f"}}]}]))


def test_prefilling_the_reply_is_refused():
    assert "prefill" in str(refusal(messages=[USER, {"role": "assistant", "content": "The answer is"}]))


def test_tools_become_functions():
    tool = TOOL | {"strict": True, "cache_control": {"type": "ephemeral"}, "type": "custom", "eager_input_streaming": True}
    function = {"name": "bash", "description": "Run it.", "parameters": TOOL["input_schema"], "strict": True}
    assert chat(tools=[tool])["tools"] == [{"type": "function", "function": function}]


def test_a_deferred_tool_is_on_offer_from_the_start_and_that_is_noted():
    said = prepared(tools=[TOOL | {"defer_loading": True}])
    assert said.chat["tools"][0]["function"]["name"] == "bash"
    assert said.notes == ("tools with defer_loading are on offer from the start: bash",)


@pytest.mark.parametrize("kind", ["web_search_20250305", "code_execution_20250825", "bash_20250124", "mcp_toolset", "text_editor_20250728"])
def test_a_tool_of_the_vendors_own_is_refused_by_name(kind):
    error = refusal(tools=[TOOL, {"type": kind, "name": "x"}])
    assert error.param == "tools.1"
    assert kind in str(error)


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ({"type": "auto"}, {"tool_choice": "auto"}),
        ({"type": "any"}, {"tool_choice": "required"}),
        ({"type": "none"}, {"tool_choice": "none"}),
        ({"type": "tool", "name": "bash"}, {"tool_choice": {"type": "function", "function": {"name": "bash"}}}),
        ({"type": "auto", "disable_parallel_tool_use": True}, {"tool_choice": "auto", "parallel_tool_calls": False}),
        ({"type": "any", "disable_parallel_tool_use": False}, {"tool_choice": "required"}),
    ],
)
def test_tool_choices(choice, said):
    with_tools = chat(tools=[TOOL])
    assert {name: value for name, value in chat(tools=[TOOL], tool_choice=choice).items() if name not in with_tools} == said


def test_forcing_a_tool_without_tools_is_refused():
    assert refusal(tool_choice={"type": "any"}).param == "tool_choice"


@pytest.mark.parametrize(("kind", "on"), [("enabled", True), ("adaptive", True), ("disabled", False)])
def test_thinking_is_switched_where_templates_read_it(kind, on):
    assert chat(thinking={"type": kind})["chat_template_kwargs"] == {"enable_thinking": on, "thinking": on}


def test_a_budget_for_thinking_is_noted():
    assert prepared(thinking={"type": "enabled", "budget_tokens": 2048}).notes == (
        "thinking.budget_tokens, 2048, is left out: the engine sets no bound to thinking alone",
    )


def test_effort_and_output_format_are_carried():
    schema = {"type": "object", "properties": {}}
    wanted = {"type": "json_schema", "json_schema": {"name": "output", "schema": schema, "strict": True}}
    form = {"type": "json_schema", "schema": schema}
    assert chat(output_config={"effort": "medium"})["reasoning_effort"] == "medium"
    assert chat(output_config={"format": form})["response_format"] == wanted
    assert chat(output_format=form)["response_format"] == wanted


def test_the_effort_that_a_system_message_names_is_the_last_word():
    turns = [USER, {"role": "system", "content": "Note.", "output_config": {"effort": "low"}}, USER, {"role": "system", "content": []}]
    effort_only = {"role": "system", "content": [], "output_config": {"effort": "max"}}
    said = chat(messages=turns, output_config={"effort": "high"})
    assert (said["reasoning_effort"], [message["role"] for message in said["messages"]]) == ("low", ["user", "system", "user"])
    assert chat(messages=[*turns, effort_only])["reasoning_effort"] == "max"


def test_a_system_message_for_one_turn_is_left_out_once_the_next_user_message_has_come():
    note = {"role": "system", "content": "Only now.", "clear_at": "next_user_message"}
    assert [message["content"] for message in messages(USER, note)] == ["Hello.", "Only now."]
    assert [message["content"] for message in messages(USER, note, USER)] == ["Hello.", "Hello."]
    assert [message["content"] for message in messages(USER, note | {"clear_at": "never"}, USER)] == ["Hello.", "Only now.", "Hello."]


def test_a_tool_added_in_mid_conversation_is_told_by_name():
    added = {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "Fetch"}}
    assert messages(USER, {"role": "system", "content": [added]})[1] == {"role": "system", "content": "[tool addition] Fetch"}


def test_context_edits_that_change_nothing_are_taken_and_others_refused():
    keep = {"type": "clear_thinking_20251015", "keep": "all"}
    assert chat(context_management={"edits": [keep]}) == chat()
    error = refusal(context_management={"edits": [keep, {"type": "clear_tool_uses_20250919"}]})
    assert error.param == "context_management.edits.1"
    assert "clear_tool_uses_20250919" in str(error)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"container": {"id": "c"}}, "container"),
        ({"mcp_servers": [{"type": "url"}]}, "mcp_servers"),
        ({"anything_new": 1}, "anything_new"),
        ({"output_config": {"task_budget": {"total": 5}}}, "output_config.task_budget"),
        ({"metadata": {"more": 1}}, "metadata.more"),
        ({"messages": [USER | {"name": "x"}]}, "messages.0.name"),
        ({"messages": [USER | {"clear_at": "never"}]}, "messages.0.clear_at"),
        ({"messages": [{"role": "system", "content": "x", "output_config": {"format": 1}}]}, "messages.0.output_config.format"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "x", "citations": [1]}]}]}, "messages.0.content.0.citations"),
        ({"tools": [TOOL | {"input_examples": [{}]}]}, "tools.0.input_examples"),
        ({"tools": [TOOL | {"allowed_callers": ["code_execution_20250825"]}]}, "tools.0.allowed_callers"),
    ],
)
def test_what_is_not_known_is_refused_by_name_and_never_dropped(fields, param):
    assert refusal(**fields).param == param


def test_settings_of_caches_and_tiers_are_tolerated():
    assert chat(service_tier="auto", cache_control={"type": "ephemeral"}, anthropic_version="vertex-2023-10-16") == chat()


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"model": None}, "model"),
        ({"messages": None}, "messages"),
        ({"messages": [1]}, "messages.0"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages.0.role"),
        ({"messages": [{"role": "user", "content": None}]}, "messages.0.content"),
        ({"messages": [{"role": "system", "content": "x", "clear_at": "soon"}]}, "messages.0.clear_at"),
        ({"messages": [{"role": "user", "content": [{"text": "x"}]}]}, "messages.0.content.0.type"),
        ({"messages": [{"role": "assistant", "content": [CALL | {"input": "ls"}]}, USER]}, "messages.0.content.0.input"),
        ({"messages": [{"role": "user", "content": [{"type": "tool_result", "content": "x"}]}]}, "messages.0.content.0.tool_use_id"),
        ({"tools": [{"name": "x"}]}, "tools.0.input_schema"),
        ({"tools": [TOOL], "tool_choice": "auto"}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "most"}}, "tool_choice.type"),
        ({"thinking": {"type": "deep"}}, "thinking.type"),
        ({"output_format": {"type": "xml"}}, "output_format.type"),
        ({"temperature": "hot"}, "temperature"),
        ({"stream": "yes"}, "stream"),
        ({"stop_sequences": [1]}, "stop_sequences.0"),
    ],
)
def test_a_malformed_request_is_refused_naming_the_place(fields, param):
    error = refusal(**fields)
    assert (error.status, error.param) == (400, param)
    assert param in str(error)


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b'"x"', b"[" * 100_000])
def test_a_body_that_is_no_object_is_refused(body):
    with pytest.raises(RefusalError, match="send one JSON object"):
        MessagesDialect().prepare(body, Route("call"), created=0.0)


def test_counting_needs_no_limit_and_says_system_and_tools():
    said = prepared("count", max_tokens=None, system="Be brief.", tools=[TOOL]).chat
    assert [message["role"] for message in said["messages"]] == ["system", "user"]
    assert said["tools"]
