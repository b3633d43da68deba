"""For every conversation the contract reads the harness's own bytes as the proxy translated them; and sees every fault put in between."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_harness.contract.chat_wire import READERS, identical
from pytest_harness.contract.dialects import pairs

DIALECTS = ("messages", "responses", "gemini")
TEXT = st.text(st.characters(blacklist_categories=("Cs",)), min_size=1, max_size=20)
ARGUMENTS = st.dictionaries(TEXT, TEXT | st.integers(-99, 99) | st.booleans() | st.lists(TEXT, max_size=2), max_size=2)
CALLS = st.lists(st.tuples(st.sampled_from(["bash", "read"]), ARGUMENTS, TEXT), max_size=3)
TURNS = st.lists(st.tuples(TEXT | st.just(""), CALLS, TEXT | st.none()), max_size=3).filter(
    lambda turns: all(text or calls for text, calls, _ in turns)
)
TOOLS = [("bash", "Run a command."), ("read", "Read a file.")]
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
CONVERSATION = {"system": "Be an agent.", "question": "Do it.", "turns": [("I look.", [("bash", {"command": "ls"}, "a b")], None)]}


def in_messages(system, question, turns):
    told = [{"role": "user", "content": [{"type": "text", "text": question}]}]
    for number, (text, calls, more) in enumerate(turns):
        blocks = [{"type": "text", "text": text}] if text else []
        blocks += [{"type": "tool_use", "id": f"c{number}-{n}", "name": name, "input": args} for n, (name, args, _) in enumerate(calls)]
        told.append({"role": "assistant", "content": blocks})
        results = [{"type": "tool_result", "tool_use_id": f"c{number}-{n}", "content": out} for n, (_, _, out) in enumerate(calls)]
        words = [{"type": "text", "text": more}] if more else [] if calls else [{"type": "text", "text": "Go on."}]
        told.append({"role": "user", "content": results + words})
    tools = [{"name": name, "description": text, "input_schema": SCHEMA} for name, text in TOOLS]
    return {"model": "asked", "max_tokens": 99, "temperature": 0.5, "system": system, "messages": told, "tools": tools, "stream": True}


def in_responses(system, question, turns):
    items = [{"role": "user", "content": [{"type": "input_text", "text": question}]}]
    for number, (text, calls, more) in enumerate(turns):
        if text:
            items.append({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]})
        for n, (name, args, _) in enumerate(calls):
            items.append({"type": "function_call", "call_id": f"c{number}-{n}", "name": name, "arguments": json.dumps(args, indent=1)})
        for n, (_, _, out) in enumerate(calls):
            items.append({"type": "function_call_output", "call_id": f"c{number}-{n}", "output": out})
        if more or not calls:
            items.append({"role": "user", "content": more or "Go on."})
    tools = [{"type": "function", "name": name, "description": text, "parameters": SCHEMA} for name, text in TOOLS]
    return {
        "model": "asked",
        "instructions": system,
        "input": items,
        "tools": tools,
        "stream": True,
        "max_output_tokens": 99,
        "temperature": 0.5,
    }


def in_gemini(system, question, turns):
    contents = [{"role": "user", "parts": [{"text": question}]}]
    for text, calls, more in turns:
        parts = [{"text": text}] if text else []
        parts += [{"functionCall": {"name": name, "args": args}} for name, args, _ in calls]
        contents.append({"role": "model", "parts": parts})
        parts = [{"functionResponse": {"name": name, "response": {"output": out}}} for name, _, out in calls]
        contents.append({"role": "user", "parts": parts + ([{"text": more}] if more else [] if calls else [{"text": "Go on."}])})
    google = {"type": "OBJECT", "properties": {"command": {"type": "STRING"}}, "required": ["command"]}
    declared = [{"name": name, "description": text, "parameters": google} for name, text in TOOLS]
    return {
        "contents": contents,
        "systemInstruction": {"parts": [{"text": system}]},
        "tools": [{"functionDeclarations": declared}],
        "generationConfig": {"temperature": 0.5, "maxOutputTokens": 99, "topK": 40},
    }


RULES = {"messages": pairs.messages_results, "responses": pairs.responses_items, "gemini": pairs.gemini_parts}
WRITERS = {"messages": in_messages, "responses": in_responses, "gemini": in_gemini}


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(system=TEXT, question=TEXT, turns=TURNS)
def test_for_every_conversation_both_witnesses_read_the_same(witnesses, dialect, system, question, turns):
    seen = witnesses(dialect, WRITERS[dialect](system, question, turns))
    assert seen.asked() == seen.sent_on()


FAULTS = {
    "a message is dropped": lambda chat: chat["messages"].pop(1),
    "a message is moved": lambda chat: chat["messages"].insert(0, chat["messages"].pop(1)),
    "a message is added": lambda chat: chat["messages"].append({"role": "user", "content": "Be brief."}),
    "a text is trimmed": lambda chat: chat["messages"][1].update(content=chat["messages"][1]["content"].rstrip(".")),
    "a role is changed": lambda chat: chat["messages"][1].update(role="system"),
    "a call is dropped": lambda chat: chat["messages"][2].pop("tool_calls"),
    "a call is renamed": lambda chat: chat["messages"][2]["tool_calls"][0]["function"].update(name="read"),
    "arguments are changed": lambda chat: chat["messages"][2]["tool_calls"][0]["function"].update(arguments='{"command": "ls -l"}'),
    "reasoning is added": lambda chat: chat["messages"][2].update(reasoning_content="Hm."),
    "a result is emptied": lambda chat: chat["messages"][3].update(content=""),
    "a result answers another call": lambda chat: chat["messages"][3].update(tool_call_id="another"),
    "a tool is dropped": lambda chat: chat["tools"].pop(),
    "a tool is added": lambda chat: chat["tools"].append({"type": "function", "function": {"name": "browse"}}),
    "a description is added": lambda chat: chat["tools"][0]["function"].update(description="Run a command. Always."),
    "a description is dropped": lambda chat: chat["tools"][0]["function"].pop("description"),
    "a schema is changed": lambda chat: chat["tools"][0]["function"]["parameters"].pop("required"),
    "the temperature is changed": lambda chat: chat.update(temperature=1.0),
    "the temperature is dropped": lambda chat: chat.pop("temperature"),
    "the limit is dropped": lambda chat: [chat.pop(name, None) for name in ("max_tokens", "max_completion_tokens")],
    "a stop sequence is added": lambda chat: chat.update(stop=["END"]),
    "a tool is forced": lambda chat: chat.update(tool_choice="required"),
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("fault", FAULTS)
def test_what_the_translation_does_wrong_is_seen(witnesses, dialect, fault):
    seen = witnesses(dialect, WRITERS[dialect](**CONVERSATION))
    chat = seen.forwarded
    FAULTS[fault](chat)
    seen.forward(chat)
    assert not identical(seen.asked(), seen.sent_on())


@pytest.mark.parametrize(
    ("dialect", "change"),
    [
        ("messages", {"system": [{"type": "text", "text": "x-anthropic-billing-header: cc_version=2;"}, {"type": "text", "text": "Be."}]}),
        ("messages", {"tool_choice": {"type": "any", "disable_parallel_tool_use": True}}),
        ("messages", {"tool_choice": {"type": "tool", "name": "bash"}, "stop_sequences": ["END"], "top_k": 5}),
        ("messages", {"thinking": {"type": "enabled", "budget_tokens": 1024}, "output_config": {"effort": "high"}}),
        ("messages", {"metadata": {"user_id": "somebody"}, "output_format": {"type": "json_schema", "schema": SCHEMA}}),
        ("responses", {"tools": [{"type": "web_search"}, {"type": "custom", "name": "exec", "format": {"type": "text"}}]}),
        ("responses", {"tools": [{"type": "namespace", "name": "n", "description": "All.", "tools": [{"type": "function", "name": "f"}]}]}),
        ("responses", {"tool_choice": {"type": "allowed_tools", "tools": [{"type": "function", "name": "read"}], "mode": "auto"}}),
        ("responses", {"tool_choice": {"type": "function", "name": "bash"}, "parallel_tool_calls": False}),
        (
            "responses",
            {
                "tools": [{"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f"}]}],
                "tool_choice": {"type": "function", "name": "f"},
            },
        ),
        ("responses", {"text": {"format": {"type": "json_schema", "name": "x", "schema": SCHEMA}}, "reasoning": {"effort": "low"}}),
        ("gemini", {"toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["read"]}}}),
        ("gemini", {"tool_config": {"function_calling_config": {"mode": "VALIDATED", "allowed_function_names": ["read"]}}}),
        ("gemini", {"generation_config": {"stop_sequences": ["END"], "candidate_count": 2, "response_mime_type": "application/json"}}),
        ("gemini", {"generationConfig": {"thinkingConfig": {"thinkingLevel": "LOW", "includeThoughts": False}, "seed": 7}}),
    ],
)
def test_what_only_one_dialect_can_say_is_read(witnesses, dialect, change):
    body = WRITERS[dialect](**CONVERSATION)
    for name in change:
        body.pop({"generation_config": "generationConfig"}.get(name, name), None)
    seen = witnesses(dialect, body | change)
    assert seen.asked() == seen.sent_on()


def test_another_tool_that_is_forced_is_seen(witnesses):
    body = in_responses(**CONVERSATION) | {"tool_choice": {"type": "function", "name": "bash"}}
    seen = witnesses("responses", body)
    seen.forward(seen.forwarded | {"tool_choice": {"type": "function", "function": {"name": "read"}}})
    assert seen.asked() != seen.sent_on()


def test_a_billing_line_that_no_note_tells_of_is_missed(witnesses):
    body = in_messages(**CONVERSATION) | {"system": [{"type": "text", "text": "x-anthropic-billing-header: cc_version=2;"}]}
    seen = witnesses("messages", body)
    seen.call = seen.call.model_copy(update={"notes": ()})
    assert seen.asked() != seen.sent_on()


def test_a_tool_of_the_vendors_that_no_note_tells_of_is_missed(witnesses):
    seen = witnesses("responses", in_responses(**CONVERSATION) | {"tools": [{"type": "web_search"}]})
    seen.call = seen.call.model_copy(update={"notes": ()})
    assert seen.asked() != seen.sent_on()


def test_an_error_may_be_marked_in_front_of_its_text_and_nowhere_else(witnesses):
    body = in_messages(**CONVERSATION)
    body["messages"][2]["content"][0]["is_error"] = True
    seen = witnesses("messages", body)
    assert seen.forwarded["messages"][3]["content"] != "a b"
    assert seen.asked() == seen.sent_on()
    chat = seen.forwarded
    chat["messages"][3]["content"] = "a b [tool error]"
    seen.forward(chat)
    assert seen.asked() != seen.sent_on()


def test_results_between_the_calls_of_one_turn_are_read_as_the_proxy_tells_them(witnesses):
    turn = "0" * 31 + "1"
    body = in_responses(**CONVERSATION)
    body["input"] = [body["input"][0]]
    for n in range(2):
        body["input"] += [
            {"type": "function_call", "id": f"fc_{turn}n{n}", "call_id": f"c{n}", "name": "bash", "arguments": "{}"},
            {"type": "function_call_output", "call_id": f"c{n}", "output": str(n)},
        ]
    seen = witnesses("responses", body)
    assert [message["role"] for message in seen.forwarded["messages"]] == ["system", "user", "assistant", "tool", "tool"]
    assert seen.asked() == seen.sent_on()


def places(value, path=()):
    """Every place in a JSON value."""
    yield path
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield from places(value[key], (*path, key))


def put(value, path, other):
    if not path:
        return other
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = put(value[path[0]], path[1:], other)
    return copy


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=150)
@given(
    data=st.data(), other=st.sampled_from([None, 0, "", "text", [], {}, [None], [[]], {"type": []}, {"type": {}, "role": [], "text": {}}])
)
def test_for_every_place_a_value_of_another_kind_raises_nothing(witnesses, dialect, data, other):
    body = WRITERS[dialect](**CONVERSATION)
    call = witnesses(dialect, body).call
    broken = put(body, data.draw(st.sampled_from(list(places(body)))), other)
    received = call.received.model_copy(update={"body": json.dumps(broken)})
    call = call.model_copy(update={"received": received, "forwarded": received})
    assert isinstance(READERS[dialect].request(call), dict)
    if isinstance(broken, dict):
        assert isinstance([*RULES[dialect](broken), *pairs.signed(broken), *pairs.call_names(broken)], list)
