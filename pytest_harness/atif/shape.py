"""The shape of an ATIF document: which fields there are, of what kind, and since which version. No value is turned into another kind.

Numbering, versions, names and sums are left to the checks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pytest_harness.atif.document import VERSIONS, Document, Problem, Step

AGENT_ONLY = ("model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics")
IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
SOUNDS = tuple(f"audio/{kind}" for kind in ("wav", "mpeg", "mp4", "aac", "ogg", "flac", "webm", "aiff"))


@dataclass(frozen=True, slots=True)
class Field:
    """``kind`` is one of ``_KINDS``, the name of an object of ``_OBJECTS``, or ``list of`` either; ``since`` the minor version."""

    kind: str
    since: int = 0
    required: bool = False


_KINDS: dict[str, tuple[type, ...]] = {
    "text": (str,),
    "flag": (bool,),
    "whole number": (int,),
    "number": (int, float),
    "text or number": (str, int, float),
    "object": (dict,),
    "list": (list,),
}

_OBJECTS: dict[str, dict[str, Field]] = {
    "trajectory": {
        "schema_version": Field("text"),
        "session_id": Field("text"),
        "trajectory_id": Field("text", since=7),
        "agent": Field("agent"),
        "steps": Field("list of step"),
        "notes": Field("text"),
        "final_metrics": Field("totals"),
        "continued_trajectory_ref": Field("text"),
        "subagent_trajectories": Field("list of object", since=7),
        "extra": Field("object", since=1),
    },
    "agent": {
        "name": Field("text"),
        "version": Field("text"),
        "model_name": Field("text"),
        "tool_definitions": Field("list of object", since=5),
        "extra": Field("object"),
    },
    "step": {
        "step_id": Field("any"),
        "source": Field("any"),
        "message": Field("content", required=True),
        "timestamp": Field("text"),
        "model_name": Field("text"),
        "reasoning_effort": Field("text or number"),
        "reasoning_content": Field("text"),
        "tool_calls": Field("list of call"),
        "observation": Field("observation"),
        "metrics": Field("metrics"),
        "is_copied_context": Field("flag", since=5),
        "llm_call_count": Field("whole number", since=7),
        "extra": Field("object"),
    },
    "call": {
        "tool_call_id": Field("text", required=True),
        "function_name": Field("text", required=True),
        "arguments": Field("object", required=True),
        "extra": Field("object", since=7),
    },
    "observation": {"results": Field("list of result", required=True)},
    "result": {
        "source_call_id": Field("text"),
        "content": Field("content"),
        "subagent_trajectory_ref": Field("list of reference"),
        "extra": Field("object", since=7),
    },
    "reference": {
        "trajectory_id": Field("text", since=7),
        "trajectory_path": Field("text"),
        "session_id": Field("text"),
        "extra": Field("object"),
    },
    "metrics": {
        "prompt_tokens": Field("whole number"),
        "completion_tokens": Field("whole number"),
        "cached_tokens": Field("whole number"),
        "cost_usd": Field("number"),
        "prompt_token_ids": Field("list", since=4),
        "completion_token_ids": Field("list", since=3),
        "logprobs": Field("list"),
        "extra": Field("object"),
    },
    "totals": {
        "total_prompt_tokens": Field("whole number"),
        "total_completion_tokens": Field("whole number"),
        "total_cached_tokens": Field("whole number"),
        "total_cost_usd": Field("number"),
        "total_steps": Field("whole number"),
        "extra": Field("object"),
    },
    "part": {"type": Field("text", required=True), "text": Field("text"), "source": Field("source")},
    "source": {
        "media_type": Field("text", required=True),
        "path": Field("text", required=True),
        "duration_sec": Field("number", since=8),
    },
}


def problems(document: Document) -> Iterator[Problem]:
    """What is wrong with its shape whatever its version: unknown fields, wrong kinds, fields where they mean nothing."""
    yield from _object(document, "trajectory", document.raw, "")
    for step in document.steps:
        yield from _step(step)


def newer(document: Document) -> Iterator[Problem]:
    """What the document has or lacks that its declared version did not have or did need."""
    version = document.version
    if version is None:
        return
    for name, kind, value, place in _walk("trajectory", document.raw, ""):
        field = _OBJECTS[kind].get(name)
        if value is not None and field is not None and field.since > version:
            yield Problem(document.at(place), f"a field that {VERSIONS[version]} has", f"{name}, which came with {VERSIONS[field.since]}")
        if name in {"message", "content"} and isinstance(value, list) and version < 6:
            yield Problem(document.at(place), f"text, as in {VERSIONS[version]}", f"parts, which came with {VERSIONS[6]}")
        if name == "type" and value == "audio" and version < 8:
            yield Problem(document.at(place), f"a kind of part that {VERSIONS[version]} has", f"audio, which came with {VERSIONS[8]}")
    for step in document.steps:
        if step.raw.get("source") != "agent" and step.raw.get("observation") is not None and version < 2:
            yield Problem(step.at("observation"), "none, as only the agent's steps have one", f"one, which came with {VERSIONS[2]}")
    if version < 7 and document.raw.get("session_id") is None:
        yield Problem(document.at("session_id"), f"a session id, which {VERSIONS[version]} requires", "none")


def is_time(value: Any) -> bool:
    """Whether this is an ISO 8601 date, with or without a time."""
    return time_of(value) is not None


def time_of(value: Any) -> datetime | None:
    """The moment that an ISO 8601 text names."""
    if not isinstance(value, str):
        return None
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        return None


def _step(step: Step) -> Iterator[Problem]:
    if step.raw.get("source") != "agent":
        for name in AGENT_ONLY:
            if step.raw.get(name) is not None:
                yield Problem(step.at(name), "none in a step that is not the agent's", "one")
    elif step.count == 0:
        for name in ("metrics", "reasoning_content"):
            if step.raw.get(name) is not None:
                yield Problem(step.at(name), "none in a step without a model call", "one")
    timestamp = step.raw.get("timestamp")
    if isinstance(timestamp, str) and not is_time(timestamp):
        yield Problem(step.at("timestamp"), "an ISO 8601 time", timestamp)
    for number, result in enumerate(step.results):
        for position, reference in enumerate(_list(result.get("subagent_trajectory_ref"))):
            named = isinstance(reference, dict) and (reference.get("trajectory_id") or reference.get("trajectory_path"))
            if isinstance(reference, dict) and not named:
                where = step.at(f"observation.results[{number}].subagent_trajectory_ref[{position}]")
                yield Problem(where, "a trajectory_id or a trajectory_path", "neither")


def _object(document: Document, kind: str, value: dict[str, Any], place: str) -> Iterator[Problem]:
    fields = _OBJECTS[kind]
    dot = f"{place}." if place else ""
    for name in value.keys() - fields.keys():
        yield Problem(document.at(f"{dot}{name}"), f"a field that a {kind} of ATIF has", name)
    for name, field in fields.items():
        if value.get(name) is not None:
            yield from _value(document, field.kind, value[name], f"{dot}{name}")
        elif field.required:
            yield Problem(document.at(f"{dot}{name}"), _called(field.kind), "none")
    if kind == "part":
        yield from _part(document, value, place)


def _value(document: Document, kind: str, value: Any, place: str) -> Iterator[Problem]:
    if kind == "any":
        return
    if kind == "content":
        kind = "text" if isinstance(value, str) else "list of part"
    if kind.startswith("list of "):
        if not isinstance(value, list):
            yield Problem(document.at(place), "a list", _seen(value))
            return
        for number, entry in enumerate(value):
            yield from _value(document, kind.removeprefix("list of "), entry, f"{place}[{number}]")
    elif kind in _OBJECTS:
        if isinstance(value, dict):
            yield from _object(document, kind, value, place)
        else:
            yield Problem(document.at(place), f"a {kind}", _seen(value))
    elif type(value) not in _KINDS[kind]:
        yield Problem(document.at(place), _called(kind), _seen(value))


def _part(document: Document, part: dict[str, Any], place: str) -> Iterator[Problem]:
    kind, media = part.get("type"), part.get("source")
    if kind == "text":
        if part.get("text") is None or media is not None:
            yield Problem(document.at(place), "a part of text with text alone", _seen(part))
        return
    allowed = {"image": IMAGES, "audio": SOUNDS}.get(kind if isinstance(kind, str) else "")
    if allowed is None:
        yield Problem(document.at(f"{place}.type"), "text, image or audio", _seen(kind))
    elif part.get("text") is not None or not isinstance(media, dict) or media.get("media_type") not in allowed:
        yield Problem(document.at(place), f"an {kind} with a source of its kind", _seen(part))


def _walk(kind: str, value: dict[str, Any], place: str) -> Iterator[tuple[str, str, Any, str]]:
    """Every field of an object and of those in it: its name, the object's kind, its value, its place."""
    dot = f"{place}." if place else ""
    for name, inner in value.items():
        yield name, kind, inner, f"{dot}{name}"
        field = _OBJECTS[kind].get(name)
        inside = "" if field is None else field.kind.removeprefix("list of ").replace("content", "part")
        if inside in _OBJECTS:
            entries = [(f"[{number}]", entry) for number, entry in enumerate(inner)] if isinstance(inner, list) else [("", inner)]
            for mark, entry in entries:
                if isinstance(entry, dict):
                    yield from _walk(inside, entry, f"{dot}{name}{mark}")


def _called(kind: str) -> str:
    return {"text or number": "text or a number", "content": "text or a list of parts"}.get(kind, "text" if kind == "text" else f"a {kind}")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _seen(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:120]}…"
