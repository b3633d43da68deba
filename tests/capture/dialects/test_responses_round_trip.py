"""Items of a response, sent back, become the assistant message that the engine sampled, to the letter, one message for each turn."""

from __future__ import annotations

import json

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pytest_harness.capture.dialects.base import Route
from pytest_harness.capture.dialects.responses import ResponsesDialect
from pytest_harness.engines.scripted.tokenizer import ChatTokenizer

CALL = Route("call")
TOOLS = [
    {"type": "function", "name": "bash", "parameters": {"type": "object"}},
    {"type": "custom", "name": "apply_patch"},
    {
        "type": "namespace",
        "name": "team",
        "description": "",
        "tools": [{"type": "function", "name": "ask", "parameters": {"type": "object"}}],
    },
]
USER = {"role": "user", "content": "hi"}
texts = st.text(max_size=12)
arguments = texts | texts.map(lambda text: json.dumps({"input": text})) | st.just('{"input" :\t"a"}')
calls = st.lists(st.tuples(st.sampled_from(["bash", "apply_patch", "team__ask", "unheard_of"]), arguments), max_size=3)
messages = st.builds(lambda reasoning, content, calls: {"reasoning": reasoning, "content": content, "calls": calls}, texts, texts, calls)


def prepare(items):
    body = json.dumps({"model": "m", "input": items, "tools": TOOLS, "include": ["reasoning.encrypted_content"]}).encode()
    return ResponsesDialect().prepare(body, CALL, created=1)


def sampled(turn, number):
    """The engine's message."""
    message = {"role": "assistant", "content": turn["content"] or None, "reasoning": turn["reasoning"] or None}
    message["tool_calls"] = [
        {"id": f"chatcmpl-tool-{number}-{place}", "type": "function", "function": {"name": name, "arguments": text}}
        for place, (name, text) in enumerate(turn["calls"])
    ]
    return message


def items_of(message, items):
    """What the harness gets, as it would send it back."""
    finish = "tool_calls" if message["tool_calls"] else "stop"
    body = prepare(items)[1].whole({"choices": [{"index": 0, "message": message, "finish_reason": finish}]})
    return json.loads(body)["output"]


def results_of(output):
    kinds = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}
    return [
        {"type": kinds[item["type"]], "call_id": item["call_id"], "output": f"result of {item['call_id']}"}
        for item in output
        if item["type"] in kinds
    ]


def alike(message):
    """A message in one form: nothing, null and empty are the same to a template."""
    calls = [(call["id"], call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls") or ()]
    reasoning = message.get("reasoning_content") or message.get("reasoning") or ""
    return (message["role"], message.get("content") or "", reasoning, calls)


def converse(turns, change=lambda output, results: [*output, *results]):
    """The messages that the engine sampled, and those it would be told by the last request."""
    items, expected = [USER], [alike(USER)]
    for number, turn in enumerate(turns):
        message = sampled(turn, number)
        output = items_of(message, items)
        results = results_of(output)
        items = items + change(output, results) + [USER]
        told = [("tool", result["output"], "", []) for result in results]
        expected += [alike(message), *told, alike(USER)]
    return expected, prepare(items)[0].chat["messages"]


@settings(deadline=None, max_examples=60)
@given(turns=st.lists(messages, min_size=1, max_size=3))
def test_items_sent_back_are_the_messages_that_were_sampled(turns):
    expected, told = converse(turns)
    assert [alike(message) for message in told] == expected


@settings(deadline=None, max_examples=30)
@given(turns=st.lists(messages, min_size=1, max_size=3))
def test_what_codex_leaves_out_of_its_items_is_not_needed(turns):
    def as_codex(output, results):
        for item in output:
            item.pop("status", None)
            if item["type"] == "reasoning":
                del item["content"]
        return [*output, *results]

    expected, told = converse(turns, as_codex)
    assert [alike(message) for message in told] == expected


@settings(deadline=None, max_examples=30)
@given(turns=st.lists(messages, min_size=1, max_size=3))
def test_each_result_directly_after_its_call_still_makes_one_message(turns):
    def paired(output, results):
        result_of = {result["call_id"]: result for result in results}
        return [part for item in output for part in (item, result_of.get(item.get("call_id"))) if part is not None]

    expected, told = converse(turns, paired)
    assert [alike(message) for message in told] == expected


@settings(deadline=None, max_examples=30)
@given(turns=st.lists(messages, min_size=1, max_size=3))
def test_items_without_ids_make_the_same_messages_where_custom_arguments_are_plain(turns):
    for turn in turns:
        turn["calls"] = [(name, '{"input": "a"}' if name == "apply_patch" else text) for name, text in turn["calls"]]

    def nameless(output, results):
        return [{name: value for name, value in item.items() if name != "id"} for item in output] + results

    expected, told = converse(turns, nameless)
    assert [alike(message) for message in told] == expected


def test_two_turns_in_a_row_stay_two():
    first = items_of(sampled({"content": "a", "reasoning": "", "calls": []}, 0), [USER])
    second = items_of(sampled({"content": "", "reasoning": "", "calls": [("bash", "{}")]}, 1), [USER])
    told = prepare([USER, *first, *second])[0].chat["messages"]
    assert [alike(message)[1:] for message in told[1:]] == [("a", "", []), ("", "", [("chatcmpl-tool-1-0", "bash", "{}")])]


def test_a_text_between_a_call_and_its_result_belongs_to_the_call():
    call = {"type": "function_call", "call_id": "c", "name": "bash", "arguments": "{}"}
    text = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Running."}]}
    result = {"type": "function_call_output", "call_id": "c", "output": "ok"}
    told = prepare([USER, call, text, result])[0].chat["messages"]
    assert [message["role"] for message in told] == ["user", "assistant", "tool"]
    assert alike(told[1]) == ("assistant", "Running.", "", [("c", "bash", "{}")])


def test_reasoning_items_in_a_row_are_one_reasoning():
    parts = [{"type": "reasoning", "summary": [{"type": "summary_text", "text": text}]} for text in ("a", "b")]
    told = prepare([USER, *parts, {"role": "assistant", "content": "c"}])[0].chat["messages"]
    assert [alike(message) for message in told[1:]] == [("assistant", "c", "ab", [])]


@settings(deadline=None, max_examples=40)
@given(
    commands=st.lists(st.text(st.characters(codec="utf-8"), max_size=8), max_size=2), text=st.sampled_from(["", "I look.", "Zwei\nZeilen"])
)
def test_the_next_prompt_begins_with_this_prompt_and_what_was_sampled(commands, text):
    assume(text or commands)
    assume(not any("<" in command for command in commands))  # the template's own marks
    tokenizer = ChatTokenizer.bundled()
    call_arguments = [json.dumps({"command": command}, ensure_ascii=False) for command in commands]
    message = sampled({"content": text, "reasoning": "", "calls": [("bash", text_) for text_ in call_arguments]}, 0)
    chat = prepare([USER])[0].chat
    prompt = tokenizer.render(chat["messages"], chat["tools"])
    answer = tokenizer.assistant_text(text, [("bash", json.loads(text_)) for text_ in call_arguments])
    output = items_of(message, [USER])
    chat = prepare([USER, *output, *results_of(output), USER])[0].chat
    assert tokenizer.render(chat["messages"], chat["tools"]).startswith(prompt + answer)
