"""How each vendor wants calls and results to stand, and what was signed to come back: rules that chat completions do not know.

Each function reads one request's body and tells where it breaks a rule: the place, what the rule wants, and what is there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
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
    calls: dict[str, str] = {}
    items = objects(body.get("input"))
    for position, item in enumerate(items):
        kind, where = text(item.get("type")), f"input[{position}]"
        if kind in CALLS:
            calls[json.dumps(item.get("call_id"))] = kind
        elif kind.removesuffix("_output") in CALLS:
            made = calls.get(json.dumps(item.get("call_id")))
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


Signed = tuple[str, tuple[str, ...]]
"""A signature, and what it stands on."""


def signed(value: Any) -> Iterator[Signed]:
    """Every signature in a body or in an event; what it stands on is a call's id and name, a thought, or the id of an item."""
    for entry in _within(value):
        call = fields(entry.get("functionCall"))
        if signature := text(entry.get("thoughtSignature")) or text(entry.get("thought_signature")):
            yield signature, ("call", text(call.get("id")), text(call.get("name"))) if call.get("id") else ("part",)
        elif entry.get("type") == "thinking" and text(entry.get("signature")):
            yield entry["signature"], ("thinking", text(entry.get("thinking")))
        elif entry.get("type") == "reasoning" and text(entry.get("encrypted_content")):
            yield entry["encrypted_content"], ("reasoning", text(entry.get("id")))


def call_names(value: Any) -> Iterator[str]:
    """The ids of all calls of the model in a body or an event, in any dialect."""
    for entry in _within(value):
        if text(entry.get("type")) in CALLS:
            yield text(entry.get("call_id"))
        elif entry.get("type") == "tool_use":
            yield text(entry.get("id"))
        elif "functionCall" in entry:
            yield text(fields(entry["functionCall"]).get("id"))


def _within(value: Any) -> Iterator[Json]:
    """Every object in a JSON value, however deep, in the order in which they are written."""
    waiting = [value]
    while waiting:
        entry = waiting.pop()
        if isinstance(entry, dict):
            yield entry
            waiting.extend(reversed(entry.values()))
        elif isinstance(entry, list):
            waiting.extend(reversed(entry))
