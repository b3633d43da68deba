"""The instruments of the saboteurs: small cuts in frozen evidence that leave everything else as it was."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from pytest_harness.evidence.model import Call, Evidence, Message, Sample
from pytest_harness.graph import build
from pytest_harness.saboteurs.registry import NothingToSabotage, chosen

Json = dict[str, Any]

RESULT = "trial/result.json"
TRAJECTORY = "trial/agent/trajectory.json"


def found[T](value: T | None, what: str) -> T:
    """The value. Raises NothingToSabotage, naming what was looked for, if it is None."""
    if value is None:
        raise NothingToSabotage(f"the evidence has no {what}")
    return value


def last_turn(evidence: Evidence) -> Call:
    """The last answered call."""
    return _answered(evidence)[-1]


def struck_turn(evidence: Evidence) -> Call:
    """The answered call at which to strike, the last one unless the saboteur has an aim."""
    return chosen(_answered(evidence), -1)


def _answered(evidence: Evidence) -> list[Call]:
    """The agent's own: what is broken in a side call or a subagent may make it look like another."""
    answered = [call for call in evidence.calls if call.outcome == "complete" and call.samples and call.delivery != "client_gone"]
    others = {turn.call for turn in build(evidence.calls).turns if turn.role != "agent"}
    return found([call for call in answered if call.index not in others] or None, "answered call")


def in_chat(call: Call) -> Call:
    """The call, whose harness speaks chat completions. Raises NothingToSabotage if it speaks another dialect."""
    if call.dialect != "chat":
        raise NothingToSabotage("the harness does not speak chat completions")
    return call


def with_call(evidence: Evidence, changed: Call) -> Evidence:
    """The evidence with this call in the place of the one of its index."""
    return replace(evidence, calls=tuple(changed if call.index == changed.index else call for call in evidence.calls))


def with_manifest(evidence: Evidence, **changes: Any) -> Evidence:
    """The evidence with other fields in its manifest."""
    return replace(evidence, manifest=evidence.manifest.model_copy(update=changes))


def bound(evidence: Evidence) -> None:
    """Raises NothingToSabotage where the scenario leaves it to the harness which of its turns it takes."""
    if evidence.manifest.scenario.turns is not None:
        raise NothingToSabotage("the scenario leaves it to the harness which turns it takes")


def with_file(evidence: Evidence, path: str, text: str | None) -> Evidence:
    """The evidence with another text in one file, or without it."""
    files = {name: content for name, content in evidence.files.items() if name != path}
    return replace(evidence, files=files if text is None else {**files, path: text})


def edit_file(evidence: Evidence, path: str, edit: Callable[[Json], None]) -> Evidence:
    """The evidence with a JSON file edited in place."""
    document = json.loads(found(evidence.files.get(path), path))
    edit(document)
    return with_file(evidence, path, json.dumps(document))


def edit_body(message: Message | None, edit: Callable[[Json], None]) -> Message:
    """A request with its JSON body edited in place."""
    message = found(message, "such message")
    document = json.loads(message.body)
    edit(document)
    return message.model_copy(update={"body": json.dumps(document, ensure_ascii=False)})


def edit_request(call: Call, edit: Callable[[Json], None]) -> Call:
    """A call whose harness sent something else, which was forwarded."""
    received = edit_body(in_chat(call).received, edit)
    return call.model_copy(update={"received": received, "forwarded": edit_body(call.forwarded, edit)})


def edit_forwarded(call: Call, edit: Callable[[Json], None]) -> Call:
    """A call of which something else was forwarded."""
    return call.model_copy(update={"forwarded": edit_body(call.forwarded, edit)})


def edit_parts(message: Message | None, edit: Callable[[list[Json]], Any]) -> Message:
    """A reply with its parts edited in place: the one document of a whole reply, or the chunks of a stream."""
    message = found(message, "such message")
    if message.body.lstrip().startswith("{"):
        parts = [json.loads(message.body)]
        edit(parts)
        return message.model_copy(update={"body": _dump(parts[0])})
    data = [block.removeprefix("data: ") for block in message.body.split("\n\n") if block]
    parts = [json.loads(event) for event in data if event.startswith("{")]
    edit(parts)
    events = [*map(_dump, parts), *(event for event in data if not event.startswith("{"))]
    return message.model_copy(update={"body": "".join(f"data: {event}\n\n" for event in events)})


def edit_replied(call: Call, edit: Callable[[list[Json]], Any]) -> Call:
    """A call to which the engine replied something else, less what was parsed and delivered of it."""
    return call.model_copy(update={"replied": edit_parts(call.replied, edit)})


def edit_delivered(call: Call, edit: Callable[[list[Json]], Any]) -> Call:
    """A call of which something else was delivered."""
    return call.model_copy(update={"delivered": edit_parts(in_chat(call).delivered, edit)})


def edit_reply(call: Call, edit: Callable[[list[Json]], Any]) -> Call:
    """A call to which the engine replied something else, which was delivered."""
    return edit_delivered(edit_replied(call, edit), edit)


def choices(parts: list[Json]) -> Iterator[Json]:
    """All choices of all parts."""
    for part in parts:
        yield from part.get("choices") or ()


def spoken(choice: Json) -> Json:
    """The message of a choice of a whole reply, or the delta of one of a chunk."""
    message: Json = choice["message"] if "message" in choice else choice["delta"]
    return message


def tool_calls(parts: list[Json]) -> list[Json]:
    """All tool calls of a whole reply, or all fragments of those of a stream."""
    return [call for choice in choices(parts) for call in spoken(choice).get("tool_calls") or ()]


def resample(call: Call, change: Callable[[list[Any], list[Json]], tuple[list[Any] | None, list[Json] | None]]) -> Call:
    """A call whose engine sampled other ids or logprob entries: ``change`` gets both lists and returns new ones."""
    ids: list[Any] = []
    entries: list[Json] = []

    def gather(parts: list[Json]) -> None:
        for choice in choices(parts):
            ids.extend(choice.get("token_ids") or ())
            entries.extend((choice.get("logprobs") or {}).get("content") or ())
            choice["token_ids"] = choice["logprobs"] = None

    cleared = edit_replied(call, gather)
    new_ids, new_entries = change(ids, entries)

    def put(parts: list[Json]) -> None:
        first = next(choices(parts))
        first["token_ids"] = new_ids
        first["logprobs"] = None if new_entries is None else {"content": new_entries}

    sample = Sample(
        index=0,
        token_ids=None if new_ids is None else tuple(new_ids),
        logprobs=None if new_entries is None else tuple(entry["logprob"] for entry in new_entries),
        finish_reason=call.samples[0].finish_reason,
    )

    def pass_on(parts: list[Json]) -> None:
        for choice in choices(parts):
            if choice.get("logprobs"):
                choice["logprobs"] = None if new_entries is None else {"content": new_entries}

    resampled = edit_replied(cleared, put).model_copy(update={"samples": (sample,)})
    return edit_delivered(resampled, pass_on) if call.dialect == "chat" else resampled


def with_prompt(call: Call, prompt_ids: list[Any] | None) -> Call:
    """A call for which the engine reported another prompt."""

    def put(parts: list[Json]) -> None:
        parts[0]["prompt_token_ids"] = prompt_ids

    return edit_replied(call, put).model_copy(update={"prompt_ids": None if prompt_ids is None else tuple(prompt_ids)})


def replace_text(evidence: Evidence, old: str, new: str, *, but_replied: bool = False) -> Evidence:
    """The evidence with one text in the place of another in all bodies and files, the engine's replies left out if asked."""

    def body(message: Message | None) -> Message | None:
        return message and message.model_copy(update={"body": message.body.replace(old, new)})

    fields = ("received", "forwarded", "delivered") if but_replied else ("received", "forwarded", "replied", "delivered")
    calls = tuple(call.model_copy(update={name: body(getattr(call, name)) for name in fields}) for call in evidence.calls)
    return replace(evidence, calls=calls, files={path: text.replace(old, new) for path, text in evidence.files.items()})


def call_ids(evidence: Evidence) -> list[list[str]]:
    """The ids of the tool calls that the engine made in each call that it answered and whose client stayed."""
    made: list[list[str]] = []

    def gather(parts: list[Json]) -> None:
        made.append([call["id"] for call in tool_calls(parts) if call.get("id")])

    for call in evidence.calls:
        if call.replied is None or call.outcome != "complete" or call.delivery == "client_gone":
            made.append([])
        else:
            edit_parts(call.replied, gather)
    return made


def history(evidence: Evidence, wanted: Callable[[list[Json]], Any], edit: Callable[[list[Json]], None], what: str) -> Evidence:
    """The evidence with the messages of the last request edited, and of the earlier ones that have what is ``wanted`` too."""
    changed, hit = evidence, False
    for call in evidence.calls:
        if call.forwarded is not None and wanted(json.loads(in_chat(call).received.body)["messages"]):
            hit = True
            changed = with_call(changed, edit_request(call, lambda body: edit(body["messages"])))
    if not hit:
        raise NothingToSabotage(f"no request has {what}")
    return changed


def _dump(document: Json) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))
