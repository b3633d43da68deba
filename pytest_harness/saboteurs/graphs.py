"""Faults of the conversation: rewritten history, replies that are recorded or used twice, deliveries that are denied."""

from __future__ import annotations

from dataclasses import replace

from pytest_harness.evidence.model import Call, Evidence, Sample
from pytest_harness.saboteurs.registry import NothingToSabotage, saboteur
from pytest_harness.saboteurs.surgery import (
    RESULT,
    TRAJECTORY,
    Json,
    call_ids,
    edit_file,
    edit_replied,
    edit_reply,
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
    _continued(evidence)
    call = last_turn(evidence)
    ids = list(found(call.prompt_ids, "prompt ids"))
    ids[1] += 1
    return with_call(evidence, with_prompt(call, ids))


@saboteur
def repeated_reply_id(evidence: Evidence) -> Evidence:
    """The engine gives every reply the same id."""
    _continued(evidence)
    names: list[str] = []
    for call in (evidence.calls[0], last_turn(evidence)):
        edit_reply(call, lambda parts: names.append(parts[0]["id"]))
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
    if call_ids(evidence)[-1]:
        raise NothingToSabotage("the last turn has tool calls, whose ids would be there twice")
    last = last_turn(evidence)

    def again(number: int) -> Call:
        def rename(parts: list[Json]) -> None:
            for part in parts:
                part["id"] = f"chatcmpl-again-{number}"

        return edit_reply(last, rename).model_copy(update={"index": last.index + number, "id": f"{last.id}-again-{number}"})

    prompt, completion = len(found(last.prompt_ids, "prompt ids")), len(found(last.samples[0].token_ids, "sampled ids"))

    def count(document: Json) -> None:
        last_step = document["steps"][-1]
        last_step["llm_call_count"] += times
        for name, tokens in (("prompt_tokens", prompt), ("completion_tokens", completion)):
            last_step["metrics"][name] += tokens * times
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
    _continued(evidence)
    return with_call(evidence, evidence.calls[0].model_copy(update={"delivery": "unknown"}))


@saboteur
def second_choice(evidence: Evidence) -> Evidence:
    """Half of what was sampled belongs to a second choice that nobody trains on."""
    call = last_turn(evidence)
    second: list[tuple[list[int], list[Json]]] = []

    def halve(ids: list[int], entries: list[Json]) -> tuple[list[int], list[Json]]:
        half = len(ids) // 2
        second.append((ids[half:], entries[half:]))
        return ids[:half], entries[:half]

    halved = resample(call, halve)
    ids, entries = second[0]
    finish = call.samples[0].finish_reason
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


def _continued(evidence: Evidence) -> None:
    if len(evidence.calls) < 2:
        raise NothingToSabotage("the evidence has no second call")
