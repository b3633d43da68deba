"""Faults of counts and choices, of images in prompts, and of reasoning on its way back."""

from __future__ import annotations

from pytest_harness.evidence.model import Call, Evidence
from pytest_harness.saboteurs.extras import last_call, side_call, thinking
from pytest_harness.saboteurs.registry import saboteur
from pytest_harness.saboteurs.surgery import Json, edit_delivered, edit_replied

DETAILS = {"prompt_tokens_details": {"cached_tokens": 4}, "completion_tokens_details": {"reasoning_tokens": 2}}
THOUGHT = "I had better look first."


@saboteur
def miscounted_total(evidence: Evidence) -> Evidence:
    """The total leaves out the prompt."""
    return side_call(evidence, edit=lambda reply: reply["usage"].update(total_tokens=reply["usage"]["completion_tokens"]))


@saboteur
def more_cached_than_prompt(evidence: Evidence) -> Evidence:
    """The cache is counted over the whole session."""
    return side_call(evidence, edit=lambda reply: reply["usage"].update(prompt_tokens_details={"cached_tokens": 4096}))


@saboteur
def more_reasoning_than_completion(evidence: Evidence) -> Evidence:
    """Reasoning is counted apart from the completion."""
    return side_call(evidence, edit=lambda reply: reply["usage"].update(completion_tokens_details={"reasoning_tokens": 4096}))


@saboteur
def dropped_cached_tokens(evidence: Evidence) -> Evidence:
    """The number of cached tokens does not reach the harness."""
    counted = side_call(evidence, edit=lambda reply: reply["usage"].update(DETAILS))

    def drop(parts: list[Json]) -> None:
        del parts[0]["usage"]["prompt_tokens_details"]

    return last_call(counted, lambda call: edit_delivered(call, drop))


@saboteur
def missing_choice(evidence: Evidence) -> Evidence:
    """Of two choices that were asked for, one came."""
    return side_call(evidence, n=2)


@saboteur
def shared_choice(evidence: Evidence) -> Evidence:
    """Every choice carries the ids of the first."""
    asked = side_call(evidence, n=2, choices=2, edit=lambda reply: reply["choices"][1]["message"].update(content="Another title."))

    def share(parts: list[Json]) -> None:
        one, other = parts[0]["choices"]
        other.update(token_ids=one["token_ids"], logprobs=one["logprobs"])

    def shared(call: Call) -> Call:
        one, other = call.samples
        same = other.model_copy(update={"token_ids": one.token_ids, "logprobs": one.logprobs})
        return edit_replied(call, share).model_copy(update={"samples": (one, same)})

    return last_call(asked, shared)


@saboteur
def image_in_the_prompt(evidence: Evidence) -> Evidence:
    """The prompt holds an image, of which the ids know nothing."""
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    return side_call(evidence, messages=[{"role": "user", "content": [{"type": "text", "text": "What is this?"}, image]}])


@saboteur
def rewritten_reasoning(evidence: Evidence) -> Evidence:
    """The harness sends back other reasoning than it got."""
    return thinking(evidence, THOUGHT, ["The user wants me to look."])


@saboteur
def forgotten_reasoning(evidence: Evidence) -> Evidence:
    """The harness sends the reasoning of some turns back and forgets that of others."""
    return thinking(evidence, THOUGHT, [THOUGHT, None])
