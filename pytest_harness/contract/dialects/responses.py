"""Reads OpenAI Responses: what a request says, and what a reply says, whole or streamed.

A turn is a run of items here: reasoning, messages, calls. They are put together until a message of another role comes, or a result.
"""

from __future__ import annotations

from typing import Any

from pytest_harness.contract.chat_wire import Reply, document, parse_reply
from pytest_harness.contract.dialects.matching import chat_reply, chat_request
from pytest_harness.contract.dialects.neutral import (
    Asked,
    Entry,
    Given,
    Json,
    Made,
    Part,
    Said,
    Tool,
    count,
    events,
    fields,
    is_document,
    listed,
    noted,
    objects,
    place,
    text,
    usage,
)
from pytest_harness.evidence.model import Call, Message

TERMINAL = ("response.completed", "response.incomplete", "response.failed")
CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
"""The kinds of items that are calls, and where each holds what the model wrote."""
RESULTS = ("function_call_output", "custom_tool_call_output")
PIECES = {
    "response.output_text": "text",
    "response.refusal": "refusal",
    "response.reasoning_text": "text",
    "response.function_call_arguments": "arguments",
    "response.custom_tool_call_input": "input",
}
"""The events that tell a text in pieces (``.delta``) and whole (``.done``), and under which name it is whole."""

_LOGPROBS = "message.output_text.logprobs"
_TEXTS = ("input_text", "output_text", "text", "refusal")
_SAME_NAME = (
    "temperature",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "min_p",
    "seed",
    "stop",
    "top_k",
    "logit_bias",
    "parallel_tool_calls",
)


class Responses:
    """The reader of OpenAI Responses."""

    def request(self, call: Call) -> Json:
        """What the harness asked, in the words of chat completions."""
        body = document(call.received)
        return {} if body is None else chat_request(asked(body, call.notes), document(call.forwarded) or {})

    def reply(self, call: Call) -> Reply:
        """What the harness was given, in the words of chat completions."""
        return chat_reply(given(call.delivered), parse_reply(call.replied))


# --- the request -------------------------------------------------------------------------------------------------------------------------


def asked(body: Json, notes: tuple[str, ...] = ()) -> Asked:
    """What a request says."""
    request = Asked(streamed=body.get("stream") is True, itemised=True, allows={"user"} if body.get("user") else set())
    if body.get("instructions"):
        request.entries.append(Entry("system", [text(body["instructions"])]))
    items = body.get("input")
    request.entries += _entries([{"role": "user", "content": items}] if isinstance(items, str) else objects(items))
    offered = [body, *(item for item in objects(items) if item.get("type") == "additional_tools")]
    request.tools = [tool for holder in offered for tool in _tools(objects(holder.get("tools")), notes)]
    request.fields = {name: body[name] for name in _SAME_NAME if body.get(name) is not None}
    if body.get("max_output_tokens") is not None:
        request.fields["max_tokens"] = body["max_output_tokens"]
    if (effort := fields(body.get("reasoning")).get("effort")) is not None:
        request.fields["reasoning_effort"] = effort
    if fields(fields(body.get("text")).get("format")).get("type") not in (None, "text"):
        request.demands.add("response_format")
    _choose(body.get("tool_choice"), request)
    if _LOGPROBS in listed(body.get("include")):
        request.fields["logprobs"] = True
    if not request.tools:
        request.fields.pop("parallel_tool_calls", None)
    return request


def _entries(items: list[Json]) -> list[Entry]:
    entries: list[Entry] = []
    for item in items:
        kind, role = text(item.get("type")) or "message", item.get("role")
        if kind in RESULTS:
            entries.append(Entry("tool", _parts(item.get("output")), answers=item.get("call_id")))
        elif kind == "message" and role != "assistant":
            entries.append(Entry("user" if role == "user" else "system", _parts(item.get("content"))))
        elif kind in ("message", *CALLS) or (kind == "reasoning" and _reasoning(item) != frozenset({""})):
            _put(entries, item, kind)
    return entries


def _put(entries: list[Entry], item: Json, kind: str) -> None:
    """Put an item to the turn it belongs to: reasoning begins a turn, and a text that another text precedes does."""
    last = entries[-1] if entries and entries[-1].role == "assistant" else None
    begins = last is None or (kind == "reasoning" and (bool(last.parts) or bool(last.calls)))
    if last is None or begins or (kind == "message" and bool(last.parts) and not last.calls):
        last = Entry("assistant")
        entries.append(last)
    if kind == "message":
        last.parts += _parts(item.get("content"))
    elif kind == "reasoning":
        more = _reasoning(item)
        last.reasoning = None if more is None or last.reasoning is None else frozenset(a + b for a in last.reasoning for b in more)
    else:
        last.calls.append(_made(item))


def _reasoning(item: Json) -> frozenset[str] | None:
    """The reasoning as itself, else sealed, else its summary."""
    for name in ("content", "encrypted_content", "summary"):
        if name == "encrypted_content":
            if item.get(name):
                return None
        elif told := "".join(text(part.get("text")) for part in objects(item.get(name))):
            return frozenset({told})
    return frozenset({""})


def _made(item: Json) -> Made:
    name, space, kind = item.get("name"), item.get("namespace"), text(item.get("type"))
    names = (f"{space}__{name}", f"{space}.{name}", f"{space}_{name}") if space else (name,)
    return Made(item.get("call_id"), names, text(item.get(CALLS[kind])), "free" if kind == "custom_tool_call" else "text")


def _parts(content: Any) -> list[Part]:
    return [content] if isinstance(content, str) else [_part(part) for part in objects(content)]


def _part(part: Json) -> Part:
    kind = part.get("type")
    if kind in _TEXTS:
        return text(part.get("text")) or text(part.get("refusal"))
    if kind == "input_image":
        return {"type": "image_url", "image_url": {"url": part.get("image_url")}}
    return {"type": "input_audio", "input_audio": part.get("input_audio")} if kind == "input_audio" else part


def _tools(tools: list[Json], notes: tuple[str, ...], space: str = "") -> list[Tool]:
    """The tools of a list, a namespace's under every name they may have; one that a note says is withheld is left out."""
    found: list[Tool] = []
    for tool in tools:
        kind, name = tool.get("type"), tool.get("name")
        names = (f"{space}__{name}", f"{space}.{name}", f"{space}_{name}") if space else (name,)
        if kind == "namespace":
            found += _tools(objects(tool.get("tools")), notes, text(name))
        elif kind in ("function", "custom"):
            schema, within = (tool.get("parameters"), bool(space)) if kind == "function" else (None, True)
            found.append(Tool(names, text(tool.get("description")), schema, within))
        elif not noted(notes, f"of type {kind}"):
            found.append(Tool((name or kind,), text(tool.get("description"))))
    return found


def _choose(choice: Any, request: Asked) -> None:
    if choice is None or (isinstance(choice, str) and not request.tools):
        return
    if isinstance(choice, str):
        request.fields["tool_choice"] = choice
    elif fields(choice).get("type") == "allowed_tools":
        allowed = [tool.get("name") for tool in objects(choice.get("tools"))]
        request.tools = [tool for tool in request.tools if any(name in allowed for name in tool.names)]
        if request.tools:
            request.fields["tool_choice"] = choice.get("mode", "auto")
    else:
        name, space = text(fields(choice).get("name")), text(fields(choice).get("namespace"))
        flat = f"{space}__{name}" if space else name
        known = (str(tool.names[0]) for tool in request.tools)
        flat = next((one for one in known if one == flat or one.endswith(f"__{flat}")), flat)
        request.fields["tool_choice"] = {"type": "function", "function": {"name": flat}}


# --- the reply ---------------------------------------------------------------------------------------------------------------------------


def given(message: Message | None) -> Given:
    """What a reply says."""
    if is_document(message):
        return _reply(document(message) or {}, items(message))
    ends = [fields((event.data or {}).get("response")) for event in events(message) if event.kind in TERMINAL]
    found = items(message)
    return _reply(ends[-1] if ends else {}, found) if ends or found else Given()


def items(message: Message | None) -> list[Json]:
    """The items of a reply; of a stream, as they are done, which is what most clients act on, and behind them what had come of an item
    that was never done."""
    if is_document(message):
        return objects((document(message) or {}).get("output"))
    done: list[Json] = []
    begun: dict[int, Json] = {}
    for event in events(message):
        data = event.data or {}
        index = place(data.get("output_index"), -1)
        name, _, step = event.kind.rpartition(".")
        if event.kind == "response.output_item.added":
            begun[index] = {**fields(data.get("item"))}
        elif event.kind == "response.output_item.done":
            begun.pop(index, None)
            done.append(fields(data.get("item")))
        elif name in PIECES and step == "delta" and index in begun:
            _grow(begun[index], PIECES[name], text(data.get("delta")))
    return done + list(begun.values())


def _grow(item: Json, name: str, piece: str) -> None:
    if name in CALLS.values():
        item[name] = text(item.get(name)) + piece
    else:
        item["content"] = [*objects(item.get("content")), {name: piece}]


def _reply(response: Json, output: list[Json]) -> Given:
    said = Said(calls=[_made(item) for item in output if text(item.get("type")) in CALLS])
    for item in output:
        for part in objects(item.get("content")):
            if item.get("type") == "reasoning":
                said.reasoning += text(part.get("text"))
            elif item.get("type") == "message":
                said.text += text(part.get("text"))
    status, reason = response.get("status"), fields(response.get("incomplete_details")).get("reason")
    said.finish = status if reason is None else f"{status}: {reason}"
    if status == "completed":
        said.means = frozenset({"stop", "tool_calls", "function_call"})
    elif status == "incomplete":
        said.means = frozenset({"length"} if reason == "max_output_tokens" else {text(reason)})
    return Given(response.get("id"), {0: said}, _usage(response.get("usage")))


def _usage(counts: Any) -> Json | None:
    if not isinstance(counts, dict):
        return None
    cached = fields(counts.get("input_tokens_details")).get("cached_tokens")
    return usage(count(counts.get("input_tokens")), count(counts.get("output_tokens")), count(cached))
