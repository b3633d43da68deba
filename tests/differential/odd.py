"""Conversations and bodies that nobody would write down, made by hypothesis."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from .corpus import BASH, CAPTURE, ONE, READ, Json, assistant, part, user

_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12) | st.sampled_from(
    [
        "",
        "\n",
        " x ",
        "I will look.\n",
        "<tool_call>",
        "</tool_call>\n",
        "<|im_end|>",
        '{"a": 1}',
        "世界🙂",
        "x-anthropic-billing-header: 1\nA",
    ]
)
_NAMES = st.sampled_from(["bash", "read", "a b", "ü"])
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def _arguments(draw: st.DrawFn) -> str:
    """Arguments of a call, spaced and escaped in any way, and sometimes broken or no object."""
    value = draw(st.dictionaries(_TEXT, _JSON, max_size=3) | _JSON)
    text = json.dumps(
        value,
        ensure_ascii=draw(st.booleans()),
        indent=draw(st.sampled_from([None, None, 2])),
        separators=draw(st.sampled_from([None, (",", ":"), (" , ", " : ")])),
    )
    return text[: draw(st.integers(0, len(text)))] if draw(st.integers(0, 7)) == 0 else text


@st.composite
def _content(draw: st.DrawFn) -> Any:
    texts = draw(st.lists(_TEXT, min_size=1, max_size=3))
    return draw(st.sampled_from([texts[0], [part(text) for text in texts]]))


@st.composite
def _turn(draw: st.DrawFn) -> list[Json]:
    """A message of the assistant, with the results of its calls."""
    calls = [
        {"id": f"call_{number}", "type": "function", "function": {"name": draw(_NAMES), "arguments": draw(_arguments())}}
        for number in range(draw(st.integers(0, 2)))
    ]
    content = draw(_content() if not calls else st.none() | _content())
    more: Json = {"tool_calls": calls} if calls else {}
    if draw(st.booleans()):
        more[draw(st.sampled_from(["reasoning", "reasoning_content", "refusal", "annotations"]))] = None
    if draw(st.booleans()):
        more[draw(st.sampled_from(["reasoning", "reasoning_content"]))] = draw(_TEXT)
    results = [{"role": "tool", "tool_call_id": call["id"], "content": draw(_content())} for call in calls]
    return [assistant(content, **more), *results]


@st.composite
def _tool(draw: st.DrawFn) -> Json:
    function: Json = {"name": draw(_NAMES)}
    if draw(st.booleans()):
        function["description"] = draw(st.none() | _TEXT)
    if draw(st.booleans()):
        function["parameters"] = draw(st.none() | st.dictionaries(_TEXT, _JSON, max_size=3))
    if draw(st.booleans()):
        function[draw(st.sampled_from(["returns", "cache_control", "strict", "defer_loading"]))] = None
    keys = draw(st.permutations(list(function)))
    return {"type": "function", "function": {key: function[key] for key in keys}}


@st.composite
def conversations(draw: st.DrawFn) -> Mapping[str, Any]:
    """A request with any conversation, whose prompt ids are asked for."""
    first = draw(st.lists(st.sampled_from(["system", "developer"]), max_size=1))
    messages = [{"role": role, "content": draw(_content())} for role in first] + [user(draw(_content()))]
    for _ in range(draw(st.integers(0, 3))):
        messages += draw(
            _turn() | st.builds(lambda content, role: [{"role": role, "content": content}], _content(), st.sampled_from(ROLES))
        )
    tools = draw(st.none() | st.lists(_tool(), min_size=1, max_size=2))
    return {"messages": messages, "max_tokens": 1, **CAPTURE, **({} if tools is None else {"tools": tools, "tool_choice": "none"})}


ROLES = ["user", "system", "developer", "critic"]
_ODD = (
    st.none()
    | st.booleans()
    | st.integers(-3, 30)
    | st.sampled_from([0.5, 1.0, -1.5, 2.5, 10**30, "", "1", "1.0", "0.5", "true", "off", "x", "auto", "none", "required", "high", " 1 "])
    | st.lists(st.sampled_from(["a", 1, None]), max_size=2)
    | st.dictionaries(st.sampled_from(["type", "name", "function", "include_usage"]), st.sampled_from(["x", 1, None, True]), max_size=2)
)
_PLAIN = (
    *("temperature", "top_p", "n", "max_tokens", "max_completion_tokens", "top_logprobs", "logprobs", "seed", "stop", "stream"),
    *("stream_options", "tools", "tool_choice", "parallel_tool_calls", "return_token_ids", "return_tokens_as_token_ids", "model"),
    *("reasoning_effort", "presence_penalty", "frequency_penalty", "top_k", "min_p", "repetition_penalty", "user", "messages"),
    *("include_stop_str_in_output", "include_reasoning", "response_format", "unheard_of"),
)


@st.composite
def odd_bodies(draw: st.DrawFn) -> Mapping[str, Any]:
    """A good request in which one or two fields have any value."""
    body: Json = {"messages": [user()], "max_tokens": 2, **CAPTURE}
    if draw(st.booleans()):
        body["tools"] = [BASH, READ]
    for name in draw(st.lists(st.sampled_from(_PLAIN), min_size=1, max_size=2, unique=True)):
        body[name] = draw(_ODD)
    return body


_FRAGMENTS = st.sampled_from(
    [
        *("<tool_call>", "<tool_call>\n", "\n</tool_call>", "</tool_call>", ONE, "\n", " ", "I look.", "<tool", "{", "}", "}}", '"', ","),
        *('{"name": "bash", "arguments": ', '{"command": "ls"}', '"name": "read"', '{"name": "", "arguments": {}}', '"arguments": 1'),
        *("[1, 2]", "null", "世🙂", '{"a": "\\n\\u00fc"}'),
    ]
)


@st.composite
def forced_texts(draw: st.DrawFn) -> Mapping[str, Any]:
    """A request for a text that is made of pieces of calls, most of them broken, as a whole or as a stream."""
    # The end is plain: what vLLM tells of a call in its last chunk hangs on how many tokens it happened to put there.
    said = "".join(draw(st.lists(_FRAGMENTS, min_size=1, max_size=6))).strip() + "\nThat is all that there is to say."
    body: Json = {"messages": [user()], "tools": [BASH], "structured_outputs": {"choice": [said]}, **CAPTURE}
    if draw(st.booleans()):
        body["parallel_tool_calls"] = False
    return body | {"stream": draw(st.booleans())}
