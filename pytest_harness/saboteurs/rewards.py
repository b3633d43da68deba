"""Faults of rewards: who wrote them, which of them counts, and what stands where there is none."""

from __future__ import annotations

import json
import math
from typing import Any

from pytest_harness.evidence.model import Evidence, Grading, RewardChoice
from pytest_harness.saboteurs.registry import NothingToSabotage, saboteur
from pytest_harness.saboteurs.surgery import RESULT, edit_file, found, with_file, with_manifest

REWARD_JSON = "trial/verifier/reward.json"
REWARD_TEXT = "trial/verifier/reward.txt"


@saboteur
def infinite_reward(evidence: Evidence) -> Evidence:
    """A second key is infinite."""
    return _named_main_key(evidence, math.inf)


@saboteur
def reward_as_text(evidence: Evidence) -> Evidence:
    """A second key is a number in quotation marks."""
    return _named_main_key(evidence, "1.0")


@saboteur
def guessed_key(evidence: Evidence) -> Evidence:
    """The verifier gives two numbers, none of them is named, and somebody took the first."""
    main = _text_of(evidence)
    rewards = {"correct": float(main), "style": 0.25}
    scenario = evidence.manifest.scenario.model_copy(update={"reward": None, "reward_key": None})
    return with_manifest(_given(evidence, rewards), scenario=scenario, reward=RewardChoice(key="correct", text=str(float(main))))


@saboteur
def promoted_key(evidence: Evidence) -> Evidence:
    """The named key is missing, and another was taken in its place."""
    rewards = {"style": 0.25}
    scenario = evidence.manifest.scenario.model_copy(update={"reward": None, "reward_key": "reward"})
    _text_of(evidence)
    return with_manifest(_given(evidence, rewards), scenario=scenario, reward=RewardChoice(key="style", text="0.25"))


@saboteur
def forgotten_key(evidence: Evidence) -> Evidence:
    """Nobody wrote down which number was taken."""
    _text_of(evidence)
    return with_manifest(evidence, reward=RewardChoice(key=None))


@saboteur
def rounded_reward(evidence: Evidence) -> Evidence:
    """The number is not kept as the verifier wrote it."""
    text = _text_of(evidence)
    return with_manifest(evidence, reward=RewardChoice(key="reward", text=f"{float(text):.3f}"))


@saboteur
def planted_reward(evidence: Evidence) -> Evidence:
    """The agent wrote the reward, and the verifier none."""
    grading = _grading(evidence)
    _text_of(evidence)
    return _graded(evidence, reward_written=grading.began - 5.0)


@saboteur
def late_reward(evidence: Evidence) -> Evidence:
    """Somebody wrote the reward after the verifier had ended."""
    grading = _grading(evidence)
    _text_of(evidence)
    return _graded(evidence, reward_written=grading.began + 3600.0)


@saboteur
def swallowed_verdict_error(evidence: Evidence) -> Evidence:
    """The verifier wrote nothing, and nothing says so."""
    _no_verdict(evidence)
    return edit_file(evidence, RESULT, lambda document: document.update(exception_info=None))


@saboteur
def confused_verdict_error(evidence: Evidence) -> Evidence:
    """The verifier wrote nothing, and the record says that what it wrote cannot be read."""
    _no_verdict(evidence)
    return edit_file(evidence, RESULT, lambda document: document["exception_info"].update(exception_type="VerifierOutputParseError"))


@saboteur
def reward_of_a_broken_engine_counts(evidence: Evidence) -> Evidence:
    """The agent gave up because the engine was overloaded, and its reward counts."""
    return _counts_beside(evidence, "ApiRateLimitError", {"should_retry": True, "should_grade": True, "has_valid_reward": False})


@saboteur
def reward_of_a_dead_sandbox_counts(evidence: Evidence) -> Evidence:
    """The sandbox died, which was booked like a fault of the agent, and the reward counts."""
    return _counts_beside(evidence, "SandboxDiedError", {"should_retry": True, "should_grade": True, "has_valid_reward": True})


def _counts_beside(evidence: Evidence, exception: str, policy: dict[str, bool]) -> Evidence:
    _text_of(evidence)
    info = {"exception_type": exception, "exception_message": "", "policy": policy}
    return edit_file(evidence, RESULT, lambda document: document.update(exception_info=info, reward_valid=True))


def _named_main_key(evidence: Evidence, value: Any) -> Evidence:
    """A second number beside the one that counts, which the scenario names: what is wrong with it is all that is wrong."""
    main = _text_of(evidence)
    scenario = evidence.manifest.scenario.model_copy(update={"reward_key": "reward"})
    choice = evidence.manifest.reward and RewardChoice(key="reward", text=str(float(main)))
    return with_manifest(_given(evidence, {"reward": float(main), "style": value}), scenario=scenario, reward=choice)


def _given(evidence: Evidence, rewards: dict[str, Any]) -> Evidence:
    """The evidence of a verifier that wrote these numbers."""
    changed = with_file(with_file(evidence, REWARD_TEXT, None), REWARD_JSON, json.dumps(rewards))
    return edit_file(changed, RESULT, lambda document: document.update(verifier_result={"rewards": rewards}))


def _text_of(evidence: Evidence) -> str:
    return found(evidence.files.get(REWARD_TEXT), REWARD_TEXT).strip()


def _no_verdict(evidence: Evidence) -> None:
    if REWARD_TEXT in evidence.files or REWARD_JSON in evidence.files:
        raise NothingToSabotage("the verifier wrote a reward")
    result = found(evidence.trial_result, RESULT)
    if (result.get("exception_info") or {}).get("exception_type") != "RewardFileNotFoundError":
        raise NothingToSabotage("no missing verdict was recorded")


def _grading(evidence: Evidence) -> Grading:
    return found(evidence.manifest.grading, "record of its grading")


def _graded(evidence: Evidence, **changes: Any) -> Evidence:
    return with_manifest(evidence, grading=_grading(evidence).model_copy(update=changes))
