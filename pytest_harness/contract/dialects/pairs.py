"""How each vendor wants calls and results to stand, and what was signed to come back: rules that chat completions do not know.

Each function reads one request's body and tells where it breaks a rule: the place, what the rule wants, and what is there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from pytest_harness.contract.chat_wire import short
from pytest_harness.contract.dialects.gemini import camel, parts_of
from pytest_harness.contract.dialects.gemini_events import LEGAL_NAME
from pytest_harness.contract.dialects.neutral import Json, fields, objects, text
from pytest_harness.contract.dialects.responses import CALLS

Misplaced = tuple[str, str, str]
"""The place in the body, what the rule wants, and what is there."""


def messages_results(body: Json) -> Iterator[Misplaced]:
    """Messages: all results of a turn's calls in the one user message right after it, and first in it."""
    calls = False
    for position, turn in enumerate(objects(body.get("messages"))):
        kinds = [block.get("type") for block in objects(turn.get("content"))]
        results = kinds.count("tool_result")
        where = f"messages[{position}]"
        if turn.get("role") == "assistant":
            calls = "tool_use" in kinds
        elif turn.get("role") == "user":
            if results and not calls:
                yield where, "results in the message right after the calls", f"{results} results later, or after none"
            if kinds[:results] != ["tool_result"] * results:
                yield where, "results before anything else in their message", ", ".join(map(str, kinds))
            calls = False


def responses_items(body: Json) -> Iterator[Misplaced]:
    """Responses: an output is of its call's kind and comes after it; a reasoning item is followed by an item of its turn."""
    calls: dict[Any, str] = {}
    items = objects(body.get("input"))
    for position, item in enumerate(items):
        kind, where = text(item.get("type")), f"input[{position}]"
        if kind in CALLS:
            calls[item.get("call_id")] = kind
        elif kind.removesuffix("_output") in CALLS:
            made = calls.get(item.get("call_id"))
            if kind != f"{made}_output":
                yield where, f"{made}_output for {item.get('call_id')}" if made else "an output after its call", kind
        elif kind == "reasoning":
            after = items[position + 1] if position + 1 < len(items) else {}
            turn = after.get("type") in ("reasoning", *CALLS) or after.get("role") == "assistant"
            if not turn:
                yield where, "an item of the same turn after a reasoning item", str(after.get("type") or after.get("role") or "nothing")


def gemini_parts(body: Json) -> Iterator[Misplaced]:
    """Gemini: as many responses as calls, right after them, each of the name of its call; names and ids that are legal."""
    calls: list[Json] = []
    contents = list(enumerate(objects(camel(body).get("contents"))))
    for model, run in groupby(contents, key=lambda entry: entry[1].get("role") == "model"):
        numbered = list(run)
        where = f"contents[{numbered[0][0]}]"
        parts = [part for _, content in numbered for part in parts_of(content.get("parts"))]
        told = [camel(part["functionCall" if model else "functionResponse"]) for part in parts if _holds(part, model=model)]
        for entry in told:
            if not LEGAL_NAME.fullmatch(text(entry.get("name"))) or not isinstance(entry.get("id", ""), str):
                yield where, "a legal name, and an id that is text if there is one", short(json.dumps(entry))
        if model:
            calls = told
            continue
        if len(told) != len(calls):
            yield where, f"{len(calls)} function responses, one for each call of the turn before", str(len(told))
        elif sorted(text(one.get("name")) for one in told) != sorted(text(one.get("name")) for one in calls):
            yield where, f"responses named as the calls: {[one.get('name') for one in calls]}", str([one.get("name") for one in told])
        calls = []


def _holds(part: Json, *, model: bool) -> bool:
    return ("functionCall" if model else "functionResponse") in part


# --- what was signed ----------------------------------------------------------------------------------------------------------------------


Signed = tuple[str, tuple[Any, ...]]
"""A signature, and what it stands on."""


def signed(value: Any) -> Iterator[Signed]:
    """Every signature in a body or in an event; what it stands on is a call's id and name, a thought, or the id of an item."""
    if isinstance(value, list):
        for entry in value:
            yield from signed(entry)
    elif isinstance(value, dict):
        if signature := text(value.get("thoughtSignature")) or text(value.get("thought_signature")):
            call = fields(value.get("functionCall"))
            yield signature, ("call", call["id"], call.get("name")) if call.get("id") else ("part",)
        elif value.get("type") == "thinking" and text(value.get("signature")):
            yield value["signature"], ("thinking", value.get("thinking"))
        elif value.get("type") == "reasoning" and text(value.get("encrypted_content")):
            yield value["encrypted_content"], ("reasoning", value.get("id"))
        for entry in value.values():
            yield from signed(entry)


def call_names(value: Any) -> Iterator[Any]:
    """The ids of all calls of the model in a body or an event, in any dialect."""
    if isinstance(value, list):
        for entry in value:
            yield from call_names(entry)
    elif isinstance(value, dict):
        if text(value.get("type")) in CALLS:
            yield value.get("call_id")
        elif value.get("type") == "tool_use":
            yield value.get("id")
        elif isinstance(value.get("functionCall"), Mapping):
            yield value["functionCall"].get("id")
        for entry in value.values():
            yield from call_names(entry)
