"""Faults of the conversation: rewritten history, replies that are recorded or used twice, deliveries that are denied."""

from __future__ import annotations

from dataclasses import replace

from pytest_harness.evidence.model import Call, Evidence, Sample
from pytest_harness.graph import Turn, build
from pytest_harness.saboteurs.registry import NothingToSabotage, chosen, saboteur
from pytest_harness.saboteurs.surgery import (
    RESULT,
    TRAJECTORY,
    Json,
    call_ids,
    edit_file,
    edit_forwarded,
    edit_replied,
    edit_reply,
    edit_request,
    found,
    last_turn,
    replace_text,
    resample,
    with_call,
    with_prompt,
)


@saboteur
def rewritten_history(evidence: Evidence) -> Evidence:
    """The harness changed something early in its history."""
    turn = _continuing(evidence)
    return _with_ids(evidence, turn, _replaced(turn, 1))


@saboteur
def same_text_other_ids(evidence: Evidence) -> Evidence:
    """The history is the same text, encoded anew into other ids than were sampled."""
    turn = _continuing(evidence)
    return _with_ids(evidence, turn, _replaced(turn, _path(evidence, turn)[0].prompt_length))


@saboteur
def dropped_reasoning(evidence: Evidence) -> Evidence:
    """The harness leaves the reasoning of its first turn out of its history; what follows is longer instead."""
    turn = _continuing(evidence)
    start, ids = _path(evidence, turn)[0].prompt_length, turn.prompt
    return _with_ids(evidence, turn, [*ids[:start], *ids[start + 3 :], *ids[-3:]])


@saboteur
def rewritten_echo(evidence: Evidence) -> Evidence:
    """The harness repeats its last turn in other words, so the turn falls off the chain, which goes on from the one before."""
    turn = _continuing(evidence, depth=3)
    return _with_ids(evidence, turn, _replaced(turn, _path(evidence, turn)[-2].prompt_length))


@saboteur
def nonce_in_the_system_prompt(evidence: Evidence) -> Evidence:
    """The system prompt begins with a hash of the request, so no prompt begins with an earlier one."""
    agent = [turn for turn in build(evidence.calls).turns if turn.role == "agent"]
    if len({turn.context for turn in agent}) < 2:
        raise NothingToSabotage("the agent has no second prompt")
    for turn in agent:
        call = evidence.calls[turn.call]
        messages = _messages(call)

        def put(body: Json, nonce: int = len(messages)) -> None:
            body["messages"][0]["content"] = f"id={nonce:04x} {body['messages'][0]['content']}"

        if not messages or messages[0].get("role") != "system" or not isinstance(messages[0].get("content"), str):
            raise NothingToSabotage("the agent has no system prompt that is plain text")
        evidence = with_call(evidence, with_prompt(edit_request(call, put), _replaced(turn, 1, by=len(messages))))
    return evidence


@saboteur
def grafted_history(evidence: Evidence) -> Evidence:
    """The messages were rewritten, but the ids are those of the old history with something behind them."""
    call = evidence.calls[_continuing(evidence).call]
    place = next((number for number, message in enumerate(_messages(call)) if message.get("role") == "user"), None)
    at = found(place, "message of the user")
    for one in evidence.calls:
        if one.received.body == call.received.body:  # a retry says the same
            rewritten = edit_request(one, lambda body: body["messages"][at].update(content="Something else entirely."))
            evidence = with_call(evidence, rewritten)
    return evidence


@saboteur
def compaction_grafted(evidence: Evidence) -> Evidence:
    """The ids of a prompt that begins anew are hung on those of the conversation that it sums up."""
    graph = build(evidence.calls)
    roots = [turn for turn in graph.turns if turn.parent is None and turn.role == "agent"]
    shorter = [
        (before.length, before.call, root)
        for root in roots[1:]
        for before in graph.turns
        if before.call < root.call and before.length < root.prompt_length and before.parent is not None and before.fate == "used"
    ]
    if not shorter:
        raise NothingToSabotage("no conversation begins anew with a prompt that is long enough")
    length, call, root = max(shorter, key=lambda one: one[:2])
    before = graph.by_call[call]
    return _with_ids(evidence, root, [*before.prompt, *before.sampled, *root.prompt[length:]])


@saboteur
def repeated_reply_id(evidence: Evidence) -> Evidence:
    """The engine gives every reply the same id."""
    turn = _continuing(evidence)
    names: list[str] = []
    for call in (evidence.calls[_path(evidence, turn)[0].call], evidence.calls[turn.call]):
        edit_replied(call, lambda parts: names.append(parts[0]["id"]))
    return replace_text(evidence, names[-1], names[0])


@saboteur
def retried_after_delivery(evidence: Evidence) -> Evidence:
    """The harness asked the same again although it had the reply; its log counts both calls."""
    return _asked_again(evidence, 1)


@saboteur
def never_stops(evidence: Evidence) -> Evidence:
    """The harness asks for its last turn again and again; its log counts every call."""
    return _asked_again(evidence, 2)


def _asked_again(evidence: Evidence, times: int) -> Evidence:
    if call_ids(evidence)[last_turn(evidence).index]:
        raise NothingToSabotage("the last turn has tool calls, whose ids would be there twice")
    last = last_turn(evidence)
    count_before = len(evidence.calls)
    later = max(call.times.delivered or call.times.received for call in evidence.calls) - last.times.received

    def again(number: int) -> Call:
        def rename(parts: list[Json]) -> None:
            for part in parts:
                part["id"] = f"chatcmpl-again-{number}"

        moments = {name: at + later + number / 1000 for name, at in last.times.model_dump().items() if at is not None}
        update = {"index": count_before + number - 1, "id": f"{last.id}-again-{number}", "times": last.times.model_copy(update=moments)}
        return (edit_reply if last.dialect == "chat" else edit_replied)(last, rename).model_copy(update=update)

    prompt, completion = len(found(last.prompt_ids, "prompt ids")), len(found(last.samples[0].token_ids, "sampled ids"))

    def count(document: Json) -> None:
        step = document["steps"][-1]
        step["llm_call_count"] = (step.get("llm_call_count") or 1) + times
        for name, tokens in (("prompt_tokens", prompt), ("completion_tokens", completion)):
            if (step.get("metrics") or {}).get(name) is not None:
                step["metrics"][name] += tokens * times
        document["final_metrics"]["total_prompt_tokens"] += prompt * times
        document["final_metrics"]["total_completion_tokens"] += completion * times

    def context(document: Json) -> None:
        told = document["agent_result"]
        for name, tokens in (("n_input_tokens", prompt), ("n_output_tokens", completion)):
            for counts in (told, *(told.get("model_usage") or {}).values()):
                if counts[name] is not None:  # not every harness tells Harbor its tokens
                    counts[name] += tokens * times

    logged = edit_file(edit_file(evidence, TRAJECTORY, count), RESULT, context)
    return replace(logged, calls=(*evidence.calls, *(again(number) for number in range(1, times + 1))))


@saboteur
def denied_delivery(evidence: Evidence) -> Evidence:
    """The record does not know that a reply arrived, yet the harness went on from it."""
    call = evidence.calls[_path(evidence, _continuing(evidence))[-2].call]
    return with_call(evidence, call.model_copy(update={"delivery": "unknown", "times": call.times.model_copy(update={"delivered": None})}))


@saboteur
def second_choice(evidence: Evidence) -> Evidence:
    """Half of what was sampled belongs to a second choice that nobody trains on."""
    call = last_turn(evidence)
    if call.dialect != "chat":
        raise NothingToSabotage("the harness speaks a dialect in which a reply has one choice")
    second: list[tuple[list[int], list[Json]]] = []

    def halve(ids: list[int], entries: list[Json]) -> tuple[list[int], list[Json]]:
        half = len(ids) // 2
        second.append((ids[half:], entries[half:]))
        return ids[:half], entries[:half]

    halved = resample(call, halve)
    ids, entries = second[0]
    finish = "stop"
    sample = Sample(index=1, token_ids=tuple(ids), logprobs=tuple(entry["logprob"] for entry in entries), finish_reason=finish)

    def add(parts: list[Json], **captured: object) -> None:
        choices = next(part["choices"] for part in parts if part["choices"])
        key = "message" if "message" in choices[0] else "delta"
        choices.append({"index": 1, key: {"role": "assistant", "content": ""}, "finish_reason": finish, **captured})

    added = edit_reply(halved, add)

    def capture(parts: list[Json]) -> None:
        for part in parts:
            for choice in part["choices"]:
                if choice["index"] == 1:
                    choice.update(token_ids=ids, logprobs={"content": entries})

    return with_call(evidence, edit_replied(added, capture).model_copy(update={"samples": (*halved.samples, sample)}))


def _continuing(evidence: Evidence, depth: int = 2) -> Turn:
    """A turn of the agent that was used, with so many turns on its path, all of the agent and used."""
    graph = build(evidence.calls)
    paths = [graph.path(turn) for turn in graph.turns]
    places = [path[-1] for path in paths if len(path) >= depth and all(one.role == "agent" and one.fate == "used" for one in path)]
    if not places:
        raise NothingToSabotage(f"no conversation has {depth} turns")
    return chosen(places, -1)


def _path(evidence: Evidence, turn: Turn) -> tuple[Turn, ...]:
    return build(evidence.calls).path(turn)


def _replaced(turn: Turn, place: int, by: int = 1) -> list[int]:
    ids = list(turn.prompt)
    ids[place] += by
    return ids


def _with_ids(evidence: Evidence, turn: Turn, ids: list[int]) -> Evidence:
    return with_call(evidence, with_prompt(evidence.calls[turn.call], ids))


def _messages(call: Call) -> list[Json]:
    """Those of the request. Raises NothingToSabotage in a dialect that has none, as they are judged against what went to the engine."""
    if call.dialect != "chat":
        raise NothingToSabotage("the harness does not speak chat completions")
    messages: list[Json] = []
    edit_forwarded(call, lambda body: messages.extend(body.get("messages") or ()))
    return messages
