"""The requests that both engines get: what a case says is in its name.

A case is the body of a chat completion, less the model, and the script that both follow. Most cases are sent twice, whole and streamed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from pytest_harness.engines.scripted import Script

CHAT = "/v1/chat/completions"
MODEL = "tiny"
MAX_MODEL_LEN = 2048

Json = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One request. ``raw`` is sent as it is, with ``headers``, in place of ``fields``. Without a script the request itself says what is to
    be said, in vLLM's ``structured_outputs``."""

    name: str
    fields: Mapping[str, Any]
    script: Script | None
    raw: bytes | None = None
    headers: Mapping[str, str] | None = None
    path: str = CHAT
    method: str = "POST"


def text(*said: str) -> Script:
    """A script that only talks."""
    return Script.for_seam([(each, []) for each in said])


def calls(said: str, *commands: str) -> Script:
    """A script whose first turn says something and calls the tool ``bash``; then it is done."""
    return Script.for_seam([(said, commands), ("Done.", [])], shell_tool="bash")


def function(name: str, **more: Any) -> Json:
    """A tool."""
    return {"type": "function", "function": {"name": name, **more}}


def user(content: Any = "Write 42 to answer.txt.", **more: Any) -> Json:
    """A message of the user."""
    return {"role": "user", "content": content, **more}


def assistant(content: Any = None, *, arguments: Any = None, **more: Any) -> Json:
    """A message of the assistant; with ``arguments`` it calls ``bash``."""
    called = {} if arguments is None else {"tool_calls": [call(arguments)]}
    return {"role": "assistant", "content": content, **called, **more}


def call(arguments: Any, name: str = "bash", id_: str = "call_1") -> Json:
    """A call as a client sends it back."""
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(content: Any = "ok", id_: str = "call_1", **more: Any) -> Json:
    """What a tool gave."""
    return {"role": "tool", "tool_call_id": id_, "content": content, **more}


def part(content: str, kind: str = "text", **more: Any) -> Json:
    """A part of a message."""
    return {"type": kind, "text": content, **more}


COMMAND = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
BASH = function("bash", description="Run a command <in> a shell & say what it printed", parameters=COMMAND)
READ = function("read", description="Read a file", parameters={"type": "object", "properties": {"path": {"type": "string"}}})
STRICT = {**COMMAND, "properties": {"command": {"type": "string", "enum": ["ls"]}}, "additionalProperties": False}
LIST = function("bash", description="d", parameters=STRICT, strict=True)
"""A tool that can be called in one way only: what vLLM makes of a forced choice is then known."""
NAMED = {"type": "function", "function": {"name": "bash"}}

HELLO = text("Hello, world.")
UNICODE = text("Grüße, 世界 🙂 – naïve café\n\tindented")
EMPTY_FINISH = text("Done.")
CALL = calls("", "echo 42 > answer.txt")
TALK_AND_CALL = calls("I will write it.", "echo 42 > answer.txt")
LINES_AND_CALL = calls("First.\n\nThen:", 'printf "%s\\n" "a b" | tee x\necho \'ü\'')
TWO_CALLS = calls("Both at once.", "ls -la", 'echo "{\\"a\\": [1, 2]}"')
LS = calls("I look.", "ls")
THREE_CALLS = calls("", "ls", "pwd", "id")

CAPTURE = {"logprobs": True, "return_token_ids": True}
TOOLS = {"tools": [BASH]}
USAGE = {"stream_options": {"include_usage": True}}


def _whole_and_streamed(name: str, fields: Mapping[str, Any], script: Script | None = HELLO) -> Iterator[Case]:
    body = {"messages": [user()], **fields}
    yield Case(name, body, script)
    if "stream" not in body and "stream_options" not in body:
        yield Case(f"{name}, streamed", {**body, "stream": True, **USAGE}, script)


SAID = {
    "a text": ({}, HELLO),
    "a text of many alphabets": ({}, UNICODE),
    "a text beside tools": (TOOLS, HELLO),
    "a call": (TOOLS, CALL),
    "a text and a call": (TOOLS, TALK_AND_CALL),
    "lines and a call": (TOOLS, LINES_AND_CALL),
    "two calls": (TOOLS, TWO_CALLS),
    "three calls": (TOOLS, THREE_CALLS),
}
ASKED = {
    "with ids and logprobs": CAPTURE,
    "with ids": {"return_token_ids": True},
    "with logprobs": {"logprobs": True},
    "with neither": {},
}
CHANGED: dict[str, tuple[Mapping[str, Any], Script]] = {
    "three likeliest": ({"top_logprobs": 3, **CAPTURE}, HELLO),
    "twenty likeliest of a call": ({"top_logprobs": 20, **CAPTURE, **TOOLS}, CALL),
    "top_logprobs 0": ({"top_logprobs": 0, **CAPTURE}, HELLO),
    "top_logprobs null": ({"top_logprobs": None, **CAPTURE}, HELLO),
    "tokens as texts": ({"return_tokens_as_token_ids": False, "top_logprobs": 2, **CAPTURE}, HELLO),
    "tokens as texts of many alphabets": ({"return_tokens_as_token_ids": False, **CAPTURE}, UNICODE),
    "tokens as ids, asked for": ({"return_tokens_as_token_ids": True, **CAPTURE}, HELLO),
    "two choices": ({"n": 2, **CAPTURE}, HELLO),
    "three choices of a call": ({"n": 3, **CAPTURE, **TOOLS}, TALK_AND_CALL),
    "two choices, nothing asked for": ({"n": 2, **TOOLS}, TWO_CALLS),
    "n null": ({"n": None, **CAPTURE}, HELLO),
    "cut after one token": ({"max_tokens": 1, **CAPTURE}, HELLO),
    "cut after three tokens": ({"max_tokens": 3, **CAPTURE}, HELLO),
    "cut in a call": ({"max_tokens": 8, **CAPTURE, **TOOLS}, CALL),
    "cut after the mark of a call": ({"max_tokens": 1, **CAPTURE, **TOOLS}, CALL),
    "max_completion_tokens": ({"max_completion_tokens": 2, **CAPTURE}, HELLO),
    "max_completion_tokens before max_tokens": ({"max_completion_tokens": 2, "max_tokens": 100, **CAPTURE}, HELLO),
    "max_tokens of the whole context": ({"max_tokens": MAX_MODEL_LEN, **CAPTURE}, HELLO),
    "max_tokens null": ({"max_tokens": None, **CAPTURE}, HELLO),
    "a stop string": ({"stop": "world", **CAPTURE}, HELLO),
    "a stop string at the beginning": ({"stop": "Hello", **CAPTURE}, HELLO),
    "a stop string kept": ({"stop": ["wor"], "include_stop_str_in_output": True, **CAPTURE}, HELLO),
    "two stop strings": ({"stop": [".", "lo"], **CAPTURE}, HELLO),
    "a stop string that is not said": ({"stop": ["STOP"], **CAPTURE}, HELLO),
    "no stop strings": ({"stop": [], **CAPTURE}, HELLO),
    "stop null": ({"stop": None, **CAPTURE}, HELLO),
    "a stop string in a call": ({"stop": ["answer"], **CAPTURE, **TOOLS}, CALL),
    "a stop string before a call": ({"stop": ["write"], **CAPTURE, **TOOLS}, TALK_AND_CALL),
    "greedy": ({"temperature": 0, **CAPTURE}, HELLO),
    "temperature 2": ({"temperature": 2, **CAPTURE}, HELLO),
    "temperature null": ({"temperature": None, "top_p": None, **CAPTURE}, HELLO),
    "top_p 0.5 and a seed": ({"top_p": 0.5, "seed": 7, **CAPTURE}, HELLO),
    "seed null": ({"seed": None, **CAPTURE}, HELLO),
    "a negative seed": ({"seed": -1, **CAPTURE}, HELLO),
    "tool_choice auto": ({"tool_choice": "auto", **CAPTURE, **TOOLS}, CALL),
    "tool_choice none": ({"tool_choice": "none", **CAPTURE, **TOOLS}, CALL),
    "tool_choice none without tools": ({"tool_choice": "none", **CAPTURE}, HELLO),
    "tool_choice null": ({"tool_choice": None, **CAPTURE, **TOOLS}, CALL),
    "tool_choice null, a text": ({"tool_choice": None, **CAPTURE, **TOOLS}, HELLO),
    "tool_choice null without tools": ({"tool_choice": None, **CAPTURE}, HELLO),
    "a named tool": ({"seed": 1, "tool_choice": NAMED, "tools": [LIST], **CAPTURE}, LS),
    "a named tool of two": ({"seed": 1, "tool_choice": NAMED, "tools": [READ, LIST], **CAPTURE}, LS),
    "a named tool, nothing asked for": ({"seed": 1, "tool_choice": NAMED, "tools": [LIST]}, LS),
    "tool_choice required": ({"seed": 1, "tool_choice": "required", "parallel_tool_calls": False, "tools": [LIST], **CAPTURE}, LS),
    "tool_choice required, nothing asked for": ({"seed": 1, "tool_choice": "required", "parallel_tool_calls": False, "tools": [LIST]}, LS),
    "no reasoning to be shown": ({"include_reasoning": False, **CAPTURE}, HELLO),
    "no reasoning to be shown of a call": ({"include_reasoning": False, **CAPTURE, **TOOLS}, TWO_CALLS),
    "reasoning to be shown": ({"include_reasoning": True, **CAPTURE}, HELLO),
    "tools null": ({"tools": None, **CAPTURE}, HELLO),
    "two tools": ({"tools": [READ, BASH], **CAPTURE}, CALL),
    "no parallel calls": ({"parallel_tool_calls": False, **CAPTURE, **TOOLS}, TWO_CALLS),
    "no parallel calls, nothing asked for": ({"parallel_tool_calls": False, **TOOLS}, TWO_CALLS),
    "parallel calls": ({"parallel_tool_calls": True, **CAPTURE, **TOOLS}, TWO_CALLS),
    "parallel_tool_calls null": ({"parallel_tool_calls": None, **CAPTURE, **TOOLS}, TWO_CALLS),
    "unknown fields": ({"guided_choice": ["x"], "store": False, "unheard_of": {"a": 1}, "metadata": {}, **CAPTURE}, HELLO),
    "known fields that change nothing": (
        {"user": "u", "frequency_penalty": 0, "presence_penalty": 0, "top_k": 0, "min_p": 0, "repetition_penalty": 1, **CAPTURE},
        HELLO,
    ),
    "reasoning_effort": ({"reasoning_effort": "high", **CAPTURE}, HELLO),
    "logprobs false": ({"logprobs": False, "return_token_ids": False}, HELLO),
    "logprobs null": ({"logprobs": None, "return_token_ids": None}, HELLO),
    "return_prompt_text": ({"return_prompt_text": True, **CAPTURE}, HELLO),
    "numbers as texts": ({"temperature": "0.5", "max_tokens": "100", "n": "1", "seed": "3", **CAPTURE}, HELLO),
    "whole floats for integers": ({"max_tokens": 100.0, "n": 1.0, **CAPTURE}, HELLO),
    "flags as texts": ({"logprobs": "yes", "return_token_ids": "true", "parallel_tool_calls": "off", **TOOLS}, TWO_CALLS),
    "flags as numbers": ({"logprobs": 1, "return_token_ids": 1}, HELLO),
    "true for a number": ({"n": True, "temperature": True, **CAPTURE}, HELLO),
}
STREAMED: dict[str, tuple[Mapping[str, Any], Script]] = {
    "streamed without usage": ({"stream": True, **CAPTURE}, HELLO),
    "a call streamed without usage": ({"stream": True, **TOOLS}, TALK_AND_CALL),
    "usage false": ({"stream": True, "stream_options": {"include_usage": False}, **CAPTURE}, HELLO),
    "stream_options null": ({"stream": True, "stream_options": None, **CAPTURE}, HELLO),
    "stream_options empty": ({"stream": True, "stream_options": {}, **CAPTURE}, HELLO),
    "stream_options with unknown fields": ({"stream": True, "stream_options": {"include_obfuscation": False}, **CAPTURE}, HELLO),
    "usage in each chunk": (
        {"stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}, **CAPTURE},
        HELLO,
    ),
    "usage in each chunk of two choices": (
        {"stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}, "n": 2, **CAPTURE},
        HELLO,
    ),
    "usage in each chunk, but not asked for": ({"stream": True, "stream_options": {"continuous_usage_stats": True}, **CAPTURE}, HELLO),
    "two choices streamed without usage": ({"stream": True, "n": 2}, HELLO),
    "stream null": ({"stream": None, **CAPTURE}, HELLO),
    "stream false": ({"stream": False, **CAPTURE}, HELLO),
    "stream as a text": ({"stream": "yes", **CAPTURE}, HELLO),
    "stream_options empty and not streamed": ({"stream_options": {}, **CAPTURE}, HELLO),
    "stream_options null and not streamed": ({"stream_options": None, **CAPTURE}, HELLO),
}

CONVERSATIONS: dict[str, list[Json]] = {
    "system first": [{"role": "system", "content": "Be brief."}, user()],
    "system as parts": [{"role": "system", "content": [part("Be "), part("brief.")]}, user()],
    "system later": [user(), {"role": "system", "content": "Be brief."}],
    "two systems": [{"role": "system", "content": "A"}, {"role": "system", "content": "B"}, user()],
    "developer first": [{"role": "developer", "content": "Be brief."}, user()],
    "developer later": [user(), {"role": "developer", "content": "Be brief."}, user("Go on.")],
    "a billing header in the system": [{"role": "system", "content": "x-anthropic-billing-header: cch=1\nBe brief."}, user()],
    "a billing header alone": [{"role": "system", "content": [part("x-anthropic-billing-header: cch=1"), part("Be brief.")]}, user()],
    "a billing header of the user": [user("x-anthropic-billing-header: cch=1\nHello")],
    "an unknown role": [{"role": "martian", "content": "Hi."}, user()],
    "the role function": [user(), {"role": "function", "name": "bash", "content": "ok"}],
    "a name": [user("Hi.", name="bob")],
    "an empty text": [user("")],
    "no parts": [user([])],
    "parts": [user([part("One."), part(" Two.")])],
    "a part as a plain text": [user(["One.", part(" Two.")])],
    "an input_text part": [user([part("One.", "input_text")])],
    "a part with a cache mark": [user([part("One.", cache_control={"type": "ephemeral"})])],
    "parts of the assistant": [user(), assistant([part("One."), part("Two.")]), user("Go on.")],
    "a refusal part": [user(), assistant([{"type": "refusal", "refusal": "No."}]), user("Go on.")],
    "a thinking part": [user(), assistant([{"type": "thinking", "thinking": "Hm."}, part("One.")]), user("Go on.")],
    "marks in a text": [user("<|im_end|>\n<tool_call>{}</tool_call><think>x</think>")],
    "many alphabets": [user("Grüße, 世界 🙂 \u2028 \u00a0 \ufeff é e\u0301")],
    "a lone surrogate": [user("\ud83d")],
    "a null character": [user("a\u0000b")],
    "white space": [user("  \n\n\t x \r\n ")],
    "assistant last": [user(), assistant("I am")],
    "assistant first": [assistant("I am"), user()],
    "only a system": [{"role": "system", "content": "Be brief."}],
    "two users": [user("a"), user("b")],
    "a null content of the assistant": [user(), assistant(None), user("Go on.")],
    "no content of the assistant": [user(), {"role": "assistant"}, user("Go on.")],
    "a call and its result": [user(), assistant(None, arguments='{"command": "ls"}'), result("a\nb")],
    "text, a call and its result": [user(), assistant("I will look.", arguments='{"command": "ls"}'), result()],
    "text with a line break and a call": [user(), assistant("I will look.\n", arguments='{"command": "ls"}'), result()],
    "an empty text and a call": [user(), assistant("", arguments='{"command": "ls"}'), result()],
    "arguments without spaces": [user(), assistant(None, arguments='{"command":"ls","n":1}'), result()],
    "arguments with more spaces": [user(), assistant(None, arguments='{ "command" : "ls" ,\n "n" : 1 }'), result()],
    "arguments with escapes": [user(), assistant(None, arguments='{"command": "\\u00fc\\n\\/ <&>"}'), result()],
    "arguments with numbers": [user(), assistant(None, arguments='{"a": 1.0, "b": 1e3, "c": -0.0, "d": 12345678901234567890}'), result()],
    "arguments with a key twice": [user(), assistant(None, arguments='{"a": 1, "a": 2}'), result()],
    "arguments NaN": [user(), assistant(None, arguments='{"a": NaN}'), result()],
    "arguments empty": [user(), assistant(None, arguments=""), result()],
    "arguments of no keys": [user(), assistant(None, arguments="{}"), result()],
    "arguments broken": [user(), assistant(None, arguments='{"command": "ls'), result()],
    "arguments a list": [user(), assistant(None, arguments="[1, 2]"), result()],
    "arguments a text": [user(), assistant(None, arguments='"ls"'), result()],
    "arguments null": [user(), assistant(None, arguments="null"), result()],
    "arguments an object": [user(), assistant(None, arguments={"command": "ls"}), result()],
    "two calls and their results": [
        user(),
        assistant("Both.", tool_calls=[call('{"command": "ls"}'), call('{"command": "pwd"}', id_="call_2")]),
        result("a", "call_2"),
        result("b", "call_1"),
    ],
    "no calls": [user(), assistant("x", tool_calls=[]), user("Go on.")],
    "calls null": [user(), assistant("x", tool_calls=None), user("Go on.")],
    "a call without a result": [user(), assistant(None, arguments='{"command": "ls"}'), user("Go on.")],
    "a result without a call": [user(), result()],
    "a result without an id": [user(), assistant(None, arguments="{}"), {"role": "tool", "content": "ok"}],
    "a result as parts": [user(), assistant(None, arguments="{}"), result([part("one"), part("two")])],
    "a result as one part": [user(), assistant(None, arguments="{}"), result([part("one")])],
    "a result as no parts": [user(), assistant(None, arguments="{}"), result([])],
    "a result of nothing": [user(), assistant(None, arguments="{}"), result("")],
    "a null result": [user(), assistant(None, arguments="{}"), result(None)],
    "a result with a name": [user(), assistant(None, arguments="{}"), result(name="bash")],
    "a call without an id": [user(), assistant(None, tool_calls=[{"type": "function", "function": call("{}")["function"]}]), result()],
    "a call without a type": [user(), assistant(None, tool_calls=[{"id": "c", "function": call("{}")["function"]}]), result()],
    "a call with an index": [user(), assistant(None, tool_calls=[{**call("{}"), "index": 0}]), result()],
    "a call without arguments": [user(), assistant(None, tool_calls=[{**call("{}"), "function": {"name": "bash"}}]), result()],
    "reasoning_content": [user(), assistant("x", reasoning_content="Hm."), user("Go on.")],
    "reasoning": [user(), assistant("x", reasoning="Hm."), user("Go on.")],
    "reasoning null": [user(), assistant("x", reasoning=None, refusal=None, audio=None), user("Go on.")],
    "a reply sent back as vLLM gave it": [
        user(),
        {
            **assistant("x", arguments='{"command": "ls"}'),
            **dict.fromkeys(("refusal", "annotations", "audio", "function_call", "reasoning")),
        },
        result(),
    ],
}
OFFERS: dict[str, list[Json]] = {
    "a tool without a description": [function("bash", parameters=COMMAND)],
    "a tool of only a name": [function("bash")],
    "a tool with null fields": [function("bash", description=None, parameters=None)],
    "a strict tool": [LIST],
    "a tool that is not strict": [function("bash", description="d", parameters=COMMAND, strict=False)],
    "a tool with its keys in another order": [
        {"function": {"parameters": COMMAND, "description": "d", "name": "bash"}, "type": "function"}
    ],
    "a tool with unknown keys": [
        {**function("bash", description="d", parameters=COMMAND, returns={"type": "string"}), "cache_control": {"type": "ephemeral"}}
    ],
    "a tool without a type": [{"function": BASH["function"]}],
    "a tool with a schema of many kinds": [
        function("bash", description="ü <b>", parameters={**COMMAND, "$defs": {"x": {"enum": [1, 1.0, None, True, "é"]}}})
    ],
    "a tool twice": [BASH, BASH],
    "a tool that may be deferred": [function("bash", description="d", parameters=COMMAND, defer_loading=True)],
}

REFUSED: dict[str, Mapping[str, Any]] = {
    "an unknown model": {"model": "nope"},
    "a model that is no text": {"model": 1},
    "no messages": {"messages": []},
    "messages missing": {"messages": ...},
    "messages null": {"messages": None},
    "messages a text": {"messages": "Hello"},
    "messages an object": {"messages": user()},
    "a message a text": {"messages": ["Hello"]},
    "a message null": {"messages": [None]},
    "no role": {"messages": [{"content": "x"}]},
    "role null": {"messages": [{"role": None, "content": "x"}]},
    "content null of the user": {"messages": [user(None)]},
    "content missing": {"messages": [{"role": "user"}]},
    "content null of the role function": {"messages": [{"role": "function", "name": "f", "content": None}]},
    "calls a number": {"messages": [user(), assistant("x", tool_calls=1)]},
    "calls of the user": {"messages": [user(tool_calls=[None])]},
    "a name that is no text": {"messages": [user(name=1)]},
    "a name of a tool that is no text": {"messages": [user(), result(name=1)]},
    "temperature NaN": {"temperature": float("nan")},
    "temperature as a text": {"temperature": "NaN"},
    "top_k -1": {"top_k": -1},
    "top_logprobs -1": {"logprobs": True, "top_logprobs": -1},
    "include_reasoning null": {"include_reasoning": None},
    "include_stop_str_in_output null": {"include_stop_str_in_output": None},
    "user a number": {"user": 1},
    "logit_bias": {"logit_bias": {"5": 1}},
    "content a number": {"messages": [user(1)]},
    "content an object": {"messages": [user(part("x"))]},
    "content null of the system": {"messages": [{"role": "system", "content": None}, user()]},
    "an image": {"messages": [user([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}])]},
    "an image of a tool": {"messages": [user(), result([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}])]},
    "audio": {"messages": [user([{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}])]},
    "an unknown part": {"messages": [user([{"type": "hologram", "hologram": "x"}])]},
    "a file part": {"messages": [user([{"type": "file", "file": {"file_id": "x"}}])]},
    "a part without a type": {"messages": [user([{"text": "x"}])]},
    "a part null": {"messages": [user([None])]},
    "a part a number": {"messages": [user([1])]},
    "a text part without a text": {"messages": [user([{"type": "text"}])]},
    "a text part of null": {"messages": [user([{"type": "text", "text": None}])]},
    "a text part of a number": {"messages": [user([{"type": "text", "text": 1}])]},
    "calls an object": {"messages": [user(), assistant(None, tool_calls={"id": "x"})]},
    "a call null": {"messages": [user(), assistant(None, tool_calls=[None])]},
    "a call without a function": {"messages": [user(), assistant(None, tool_calls=[{"id": "x"}])]},
    "a call without a name": {"messages": [user(), assistant(None, tool_calls=[{"id": "x", "function": {"arguments": "{}"}}])]},
    "a call of an unknown kind": {
        "messages": [user(), assistant(None, tool_calls=[{"id": "x", "type": "custom", "custom": {"name": "a", "input": "b"}}])]
    },
    "arguments a number": {"messages": [user(), assistant(None, tool_calls=[call(1)]), result()]},
    "a tool_call_id that is no text": {"messages": [user(), assistant(None, arguments="{}"), result("ok", 1)]},
    "tools empty": {"tools": []},
    "tools empty and tool_choice none": {"tools": [], "tool_choice": "none"},
    "tools an object": {"tools": {"a": 1}},
    "tools a text": {"tools": "bash"},
    "a tool null": {"tools": [None]},
    "a tool without a function": {"tools": [{"type": "function"}]},
    "a tool without a name": {"tools": [{"type": "function", "function": {"description": "x"}}]},
    "a tool with a null name": {"tools": [function(None)]},  # type: ignore[arg-type] - it is the fault
    "a tool of another kind": {"tools": [{"type": "web_search"}]},
    "a tool with a type of its own": {"tools": [{**BASH, "type": "custom"}]},
    "a tool as the Responses API has it": {"tools": [{"type": "function", "name": "bash", "parameters": COMMAND}]},
    "a tool with parameters that are a text": {"tools": [function("bash", parameters="x")]},
    "a tool with a description that is a number": {"tools": [function("bash", description=1)]},
    "tool_choice auto without tools": {"tool_choice": "auto"},
    "tool_choice required without tools": {"tool_choice": "required"},
    "a named tool_choice without tools": {"tool_choice": NAMED},
    "tool_choice auto and tools null": {"tool_choice": "auto", "tools": None},
    "tool_choice of an unknown tool": {**TOOLS, "tool_choice": {"type": "function", "function": {"name": "nope"}}},
    "tool_choice unknown": {**TOOLS, "tool_choice": "any"},
    "tool_choice a number": {**TOOLS, "tool_choice": 1},
    "tool_choice an empty object": {**TOOLS, "tool_choice": {}},
    "tool_choice without a name": {**TOOLS, "tool_choice": {"type": "function", "function": {}}},
    "tool_choice with an empty name": {**TOOLS, "tool_choice": {"type": "function", "function": {"name": ""}}},
    "tool_choice as Anthropic has it": {**TOOLS, "tool_choice": {"type": "tool", "name": "bash"}},
    "max_tokens 0": {"max_tokens": 0},
    "max_tokens -1": {"max_tokens": -1},
    "max_tokens beyond the context": {"max_tokens": MAX_MODEL_LEN + 1},
    "max_completion_tokens beyond the context": {"max_completion_tokens": 100_000},
    "max_completion_tokens 0": {"max_completion_tokens": 0},
    "max_completion_tokens 0 before max_tokens": {"max_completion_tokens": 0, "max_tokens": 5},
    "max_tokens a fraction": {"max_tokens": 1.5},
    "max_tokens a word": {"max_tokens": "many"},
    "max_tokens a list": {"max_tokens": [1]},
    "temperature -1": {"temperature": -1},
    "temperature 3": {"temperature": 3},
    "temperature a word": {"temperature": "hot"},
    "temperature a list": {"temperature": []},
    "top_p 0": {"top_p": 0},
    "top_p 1.5": {"top_p": 1.5},
    "top_p -1": {"top_p": -1},
    "top_k -2": {"top_k": -2},
    "min_p 2": {"min_p": 2},
    "presence_penalty 3": {"presence_penalty": 3},
    "frequency_penalty -3": {"frequency_penalty": -3},
    "repetition_penalty 0": {"repetition_penalty": 0},
    "n 0": {"n": 0},
    "n -1": {"n": -1},
    "n 2 and greedy": {"n": 2, "temperature": 0},
    "n a word": {"n": "two"},
    "n very many": {"n": 1_000_000},
    "seed a word": {"seed": "lucky"},
    "seed too large": {"seed": 2**63},
    "logprobs a number beyond flags": {"logprobs": 5},
    "logprobs a word": {"logprobs": "maybe"},
    "top_logprobs 21": {"logprobs": True, "top_logprobs": 21},
    "top_logprobs -2": {"logprobs": True, "top_logprobs": -2},
    "top_logprobs without logprobs": {"top_logprobs": 2},
    "top_logprobs with logprobs false": {"top_logprobs": 2, "logprobs": False},
    "top_logprobs a text": {"logprobs": True, "top_logprobs": "2"},
    "stream_options without stream": {**USAGE},
    "stream_options with stream false": {"stream": False, **USAGE},
    "stream_options a text": {"stream": True, "stream_options": "usage"},
    "stream_options a list": {"stream": True, "stream_options": []},
    "include_usage a word": {"stream": True, "stream_options": {"include_usage": "maybe"}},
    "stream a word": {"stream": "maybe"},
    "stop of a number": {"stop": [1]},
    "stop a number": {"stop": 1},
    "stop an empty text": {"stop": ""},
    "stop with an empty text": {"stop": ["a", ""]},
    "return_token_ids a word": {"return_token_ids": "maybe"},
    "parallel_tool_calls a list": {"parallel_tool_calls": [], **TOOLS},
    "reasoning_effort unknown": {"reasoning_effort": "huge"},
    "response_format json_schema without a schema": {"response_format": {"type": "json_schema"}},
    "response_format unknown": {"response_format": {"type": "xml"}},
    "a prompt beyond the context": {"messages": [user("word " * 3 * MAX_MODEL_LEN)]},
    "a prompt beyond the context, streamed": {"messages": [user("word " * 3 * MAX_MODEL_LEN)], "stream": True},
    "tools beyond the context": {"tools": [function(f"tool_{number}", parameters=COMMAND) for number in range(100)]},
    "two faults, schema first": {"model": "nope", "messages": None, "temperature": 3},
    "two faults, tools and model": {"model": "nope", "tools": []},
    "two faults, model and temperature": {"model": "nope", "temperature": 3},
    "two faults, image and model": {"model": "nope", "messages": [user([{"type": "image_url", "image_url": {"url": "x"}}])]},
    "two faults, no messages and model": {"model": "nope", "messages": []},
    "two faults, no messages and temperature": {"messages": [], "temperature": 3},
    "two faults, too long and temperature": {"messages": [user("word " * 3 * MAX_MODEL_LEN)], "temperature": 3},
    "two faults, too long and max_tokens": {"messages": [user("word " * 3 * MAX_MODEL_LEN)], "max_tokens": 0},
    "two faults, streamed": {"stream": True, "temperature": 3, "n": 0},
}
MODELS: dict[str, Mapping[str, Any]] = {"model missing": {"model": ...}, "model null": {"model": None}, "model empty": {"model": ""}}

_JSON = {"content-type": "application/json"}
RAW: dict[str, tuple[bytes, Mapping[str, str]]] = {
    "no body": (b"", _JSON),
    "broken JSON": (b'{"messages": [', _JSON),
    "a list for a body": (b"[]", _JSON),
    "null for a body": (b"null", _JSON),
    "a text for a body": (b'"x"', _JSON),
    "a body that is no UTF-8": (b'{"messages": [{"role": "user", "content": "\xff"}]}', _JSON),
    "NaN in a body": (b'{"model": "tiny", "messages": [{"role": "user", "content": "x"}], "temperature": NaN}', _JSON),
    "no content type": (b"{}", {"content-type": ""}),
    "a content type of text": (b"{}", {"content-type": "text/plain"}),
    "a content type in capitals": (b"{}", {"content-type": "Application/JSON; charset=utf-8"}),
    "an empty object": (b"{}", _JSON),
}


ELSEWHERE = {
    "the models": Case("", {}, HELLO, b"", path="/v1/models", method="GET"),
    "the models without a key": Case("", {}, HELLO, b"", {"authorization": ""}, "/v1/models", "GET"),
    "health": Case("", {}, HELLO, b"", path="/health", method="GET"),
    "ping": Case("", {}, HELLO, b"", path="/ping", method="GET"),
    "the version": Case("", {}, HELLO, b"", path="/version", method="GET"),
    "a chat that is asked for with GET": Case("", {}, HELLO, b"", method="GET"),
    "a path that is not there": Case("", {}, HELLO, b"{}", path="/v1/nowhere"),
    "a chat with a wrong key": Case("", {}, HELLO, b"{}", {"authorization": "Bearer wrong", **_JSON}),
    "a chat without a key": Case("", {}, HELLO, b"{}", {"authorization": "", **_JSON}),
    "a text cut into tokens": Case("", {"prompt": "Grüße\n\n 世界 <|im_end|><tool_call>"}, HELLO, path="/tokenize"),
    "a text cut into tokens, as texts": Case("", {"prompt": "Grüße 世界", "return_token_strs": True}, HELLO, path="/tokenize"),
    "a conversation cut into tokens": Case("", {"messages": [user()], "tools": [BASH]}, HELLO, path="/tokenize"),
    "a conversation cut without a turn to come": Case(
        "", {"messages": [user(), assistant("x")], "add_generation_prompt": False}, HELLO, path="/tokenize"
    ),
    "tokens put together": Case("", {"tokens": [4088, 1, 2, 3]}, HELLO, path="/detokenize"),
    "tokens of another vocabulary put together": Case("", {"tokens": [999_999]}, HELLO, path="/detokenize"),
    "tokens that are texts put together": Case("", {"tokens": ["a"]}, HELLO, path="/detokenize"),
    "nothing cut into tokens": Case("", {}, HELLO, path="/tokenize"),
}


ROLES: dict[str, Json] = {
    "system": {},
    "developer": {},
    "user": {},
    "assistant": {},
    "tool": {"tool_call_id": "call_1"},
    "function": {"name": "bash"},
    "martian": {},
}
PARTS: dict[str, Any] = {
    "a plain text": "s",
    "text": part("t"),
    "input_text": part("t", "input_text"),
    "output_text": part("t", "output_text"),
    "refusal": {"type": "refusal", "refusal": "r"},
    "thinking": {"type": "thinking", "thinking": "t"},
    "tool_reference": {"type": "tool_reference", "name": "bash"},
    "null": None,
    "an empty object": {},
    "one without a type": {"text": "t"},
    "a null text": {"type": "text", "text": None},
    "no text": {"type": "text"},
    "an image": {"type": "image_url", "image_url": {"url": "x"}},
    "a file": {"type": "file", "file": {}},
    "an unknown kind": {"type": "hologram"},
}


def _parts() -> Iterator[Case]:
    for (role, more), (what, piece) in product(ROLES.items(), PARTS.items()):
        for order, content in (("alone", [piece]), ("second", [part("t"), piece]), ("first", [piece, part("t")])):
            message = {"role": role, "content": content, **more}
            yield Case(f"parts of {role}: {what}, {order}", {"messages": [message], "max_tokens": 1, "return_token_ids": True}, TALKS)


ONE = '<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}}\n</tool_call>'
FORCED = {
    "a call": ONE,
    "a call written closely": '<tool_call>{"name":"bash","arguments":{"command":"ls"}}</tool_call>',
    "a call with its name last": '<tool_call>\n{"arguments": {"command": "ls"}, "name": "bash"}\n</tool_call>',
    "a call of an unknown tool": ONE.replace("bash", "browse"),
    "a call without arguments": '<tool_call>\n{"name": "bash"}\n</tool_call>',
    "a call with arguments that are a text": '<tool_call>\n{"name": "bash", "arguments": "ls"}\n</tool_call>',
    "a call with empty arguments": '<tool_call>\n{"name": "bash", "arguments": {}}\n</tool_call>',
    "a call with brackets in its arguments": '<tool_call>\n{"name": "bash", "arguments": {"command": "echo \\"}{\\" ]"}}\n</tool_call>',
    "a call with other letters in its arguments": '<tool_call>\n{"name": "bash", "arguments": {"command": "\\u00fc 世"}}\n</tool_call>',
    "a broken call": '<tool_call>\n{"name": "bash", "arguments": {"command": "ls\n</tool_call>',
    "a call that is no JSON": "<tool_call>\nls\n</tool_call>",
    "a call that is not closed": ONE.removesuffix("\n</tool_call>"),
    "a text before a call": f"I look.\n{ONE}",
    "a text after a call": f"{ONE}\nDone.",
    "a text between calls": f"{ONE}\nand\n{ONE}",
    "a text and an end of a call": "I look. </tool_call>",
    "a beginning of a mark": "a < b <tool b",
    "thoughts": "<think>\nHm.\n</think>\n\nDone.",
    "two broken calls": "<tool_call>\n{\n</tool_call>\n<tool_call>\n{\n</tool_call>",
}


def _forced(said: str, **fields: Any) -> Json:
    return {"structured_outputs": {"choice": [said]}, **CAPTURE, **fields}


def _cases() -> Iterator[Case]:
    for (what, (fields, script)), (asked, more) in product(SAID.items(), ASKED.items()):
        yield from _whole_and_streamed(f"{what} {asked}", {**fields, **more}, script)
    for name, (fields, script) in {**CHANGED, **STREAMED}.items():
        yield from _whole_and_streamed(name, fields, script)
    for name, messages in CONVERSATIONS.items():
        for offered, fields in (("", {}), (", beside tools", TOOLS)):
            yield Case(f"{name}{offered}", {"messages": messages, "max_tokens": 4, **CAPTURE, **fields}, TALKS)
    for name, tools in OFFERS.items():
        yield Case(name, {"messages": [user()], "tools": tools, "max_tokens": 4, **CAPTURE}, TALKS)
    for name, fields in MODELS.items():
        yield Case(name, {"messages": [user()], **CAPTURE, **fields}, HELLO)
    for name, fields in REFUSED.items():
        yield Case(name, {"messages": [user()], "max_tokens": 4, **fields}, TALKS)
    for name, (raw, headers) in RAW.items():
        yield Case(name, {}, HELLO, raw, headers)
    for name, said in FORCED.items():
        yield from _whole_and_streamed(f"forced: {name}", _forced(said, **TOOLS), None)
        yield from _whole_and_streamed(f"forced without tools: {name}", _forced(said), None)
    yield from _parts()
    for name, case in ELSEWHERE.items():
        yield replace(case, name=name)


TALKS = text("Hello, world.", "I have done it.", "It is done.")
"""Says something in every turn, and calls nothing whatever is offered."""

CASES = {case.name: case for case in _cases()}
