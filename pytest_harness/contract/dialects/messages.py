"""Reads Anthropic Messages: what a request says, and what a reply says, whole or streamed.

A ``system`` message with ``clear_at: next_user_message`` is no part of the conversation once a user message has followed. Claude Code's
billing line in the system prompt is none where a note says that it was left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from pytest_harness.contract.chat_wire import Reply, document, parse_json, parse_reply
from pytest_harness.contract.dialects.matching import chat_reply, chat_request
from pytest_harness.contract.dialects.neutral import (
    Asked,
    Entry,
    Given,
    Json,
    Made,
    Mention,
    Part,
    Said,
    Tool,
    count,
    events,
    fields,
    is_document,
    noted,
    objects,
    place,
    text,
    usage,
)
from pytest_harness.evidence.model import Call, Message

BILLING_LINE = "x-anthropic-billing-header:"
BROKEN = "INVALID_JSON"
"""Under this name the vendor's documentation wraps arguments that are no JSON object."""

_MEANS = {
    "end_turn": frozenset({"stop"}),
    "stop_sequence": frozenset({"stop"}),
    "max_tokens": frozenset({"length"}),
    "model_context_window_exceeded": frozenset({"length"}),
    "tool_use": frozenset({"tool_calls", "function_call"}),
    "refusal": frozenset({"content_filter"}),
}
_SAME_NAME = ("max_tokens", "temperature", "top_p", "top_k")
_CHOICES = {"any": "required", "none": "none", "auto": "auto"}


class Messages:
    """The reader of Anthropic Messages."""

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
    request = Asked(streamed=body.get("stream") is True, allows={"user"} if fields(body.get("metadata")).get("user_id") else set())
    billed = noted(notes, "billing")
    system = _content(body.get("system"))
    if billed:
        system = [part for part in system if not (isinstance(part, str) and part.startswith(BILLING_LINE))]
    if any(part != "" for part in system):
        request.entries.append(Entry("system", system))
    turns = objects(body.get("messages"))
    for position, turn in enumerate(turns):
        request.entries += _entries(turn, turns[position + 1 :])
    request.tools = [_tool(tool) for tool in objects(body.get("tools"))]
    request.fields = {name: body[name] for name in _SAME_NAME if body.get(name) is not None}
    if body.get("stop_sequences"):
        request.fields["stop"] = body["stop_sequences"]
    _choose(fields(body.get("tool_choice")), request)
    _think(body, turns, request)
    return request


def _entries(turn: Json, following: list[Json]) -> Iterator[Entry]:
    role, content = turn.get("role"), turn.get("content")
    if role == "system":
        cleared = turn.get("clear_at") == "next_user_message" and any(later.get("role") == "user" for later in following)
        if not cleared and (parts := _content(content)):
            yield Entry("system", parts)
    elif role == "assistant":
        yield _assistant(content)
    else:
        yield from _user(content)


def _user(content: object) -> Iterator[Entry]:
    parts: list[Part] = []
    results = False
    for block in _blocks(content):
        if block.get("type") == "tool_result":
            if parts:
                yield Entry("user", parts)
                parts = []
            results = True
            yield Entry("tool", _content(block.get("content")), answers=block.get("tool_use_id"), marked=block.get("is_error") is True)
        else:
            parts += (part for part in _parts([block]) if part != "")
    if parts or not results:
        yield Entry("user", parts)


def _assistant(content: object) -> Entry:
    blocks = _blocks(content)
    return Entry(
        "assistant",
        _parts(block for block in blocks if block.get("type") not in ("thinking", "redacted_thinking", "tool_use")),
        frozenset({"".join(text(block.get("thinking")) for block in blocks if block.get("type") == "thinking")}),
        [_made(block, block.get("input")) for block in blocks if block.get("type") == "tool_use"],
    )


def _made(block: Json, value: object) -> Made:
    wrapped = fields(value).get(BROKEN) if len(fields(value)) == 1 else None
    if isinstance(wrapped, str):
        return Made(block.get("id"), (block.get("name"),), wrapped)
    return Made(block.get("id"), (block.get("name"),), json.dumps(value, ensure_ascii=False), "value")


def _blocks(content: object) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else objects(content)


def _content(content: object) -> list[Part]:
    return _parts(_blocks(content))


def _parts(blocks: Iterable[Json]) -> list[Part]:
    return [_part(block) for block in blocks]


def _part(block: Json) -> Part:
    match block.get("type"):
        case "text":
            return text(block.get("text"))
        case "image":
            source = fields(block.get("source"))
            url = source.get("url") or f"data:{source.get('media_type')};base64,{source.get('data')}"
            return {"type": "image_url", "image_url": {"url": url}}
        case "tool_reference":
            return Mention(text(block.get("tool_name")))
        case "tool_addition":
            return Mention(text(fields(block.get("tool")).get("name")))
    return block


def _tool(tool: Json) -> Tool:
    return Tool((tool.get("name"),), text(tool.get("description")), tool.get("input_schema"))


def _choose(choice: Json, request: Asked) -> None:
    kind = choice.get("type")
    if not request.tools:
        return
    if kind == "tool":
        request.fields["tool_choice"] = {"type": "function", "function": {"name": choice.get("name")}}
    elif kind is not None:
        request.fields["tool_choice"] = _CHOICES.get(text(kind), kind)
    if choice.get("disable_parallel_tool_use") is True:
        request.fields["parallel_tool_calls"] = False


def _think(body: Json, turns: list[Json], request: Asked) -> None:
    if body.get("thinking") is not None:
        request.allows.add("chat_template_kwargs")
    efforts = [fields(holder.get("output_config")).get("effort") for holder in (body, *turns)]
    if told := [effort for effort in efforts if effort is not None]:
        request.fields["reasoning_effort"] = told[-1]
    if fields(body.get("output_config")).get("format") is not None or body.get("output_format") is not None:
        request.demands.add("response_format")


# --- the reply ---------------------------------------------------------------------------------------------------------------------------


def given(message: Message | None) -> Given:
    """What a reply says."""
    if is_document(message):
        body = document(message) or {}
        return _reply(body, blocks(message), body, fields(body.get("usage")))
    head: Json = {}
    ending: Json = {}
    counts: Json = {}
    for event in events(message):
        data = event.data or {}
        if event.kind == "message_start":
            head = fields(data.get("message"))
            counts |= fields(head.get("usage"))
        elif event.kind == "message_delta":
            ending |= fields(data.get("delta"))
            counts |= fields(data.get("usage"))
    found = blocks(message)
    return _reply(head, found, ending, counts) if head or found else Given()


def blocks(message: Message | None) -> list[Json]:
    """The content blocks of a reply, put together if they were streamed; the input of a call then is the text ``partial_json``."""
    if is_document(message):
        return objects((document(message) or {}).get("content"))
    found: dict[int, Json] = {}
    for event in events(message):
        data = event.data or {}
        index = place(data.get("index"), -1)
        if event.kind == "content_block_start":
            found[index] = {**fields(data.get("content_block"))}
        elif event.kind == "content_block_delta" and index in found:
            _grow(found[index], fields(data.get("delta")))
    return list(found.values())


def _grow(block: Json, delta: Json) -> None:
    for name in ("text", "thinking", "signature", "partial_json"):
        if isinstance(delta.get(name), str):
            block[name] = text(block.get(name)) + delta[name]


def _reply(head: Json, blocks: list[Json], ending: Json, counts: Json) -> Given:
    said = Said(
        text="".join(text(block.get("text")) for block in blocks if block.get("type") == "text"),
        reasoning="".join(text(block.get("thinking")) for block in blocks if block.get("type") == "thinking"),
        calls=[_call(block) for block in blocks if block.get("type") == "tool_use"],
        finish=ending.get("stop_reason"),
    )
    said.means = _MEANS.get(text(said.finish), frozenset())
    if said.finish == "tool_use" and said.calls:
        said.means |= {"stop"}  # what an engine says that was told which tool to call
    return Given(head.get("id"), {0: said}, _usage(counts) if counts else None)


def _call(block: Json) -> Made:
    """A call as it was delivered: what came in pieces is the text that was written, a whole ``input`` is its value."""
    written = block.get("partial_json")
    if not isinstance(written, str) or not written.strip():
        return _made(block, block.get("input"))
    made = _made(block, parse_json(written))
    return made if made.writing == "text" or written.strip() == "{}" else Made(made.id, made.names, written)


def _usage(counts: Json) -> Json:
    """The vendor counts apart what was read from the cache and what was written to it; of the engine all are the prompt."""
    uncached, read, written = (count(counts.get(name)) for name in _INPUTS)
    prompt = None if uncached is None else uncached + (read or 0) + (written or 0)
    return usage(prompt, count(counts.get("output_tokens")), read)


_INPUTS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
