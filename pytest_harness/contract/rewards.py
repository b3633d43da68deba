"""REW: the verifier's number is kept, and no verdict is no number."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from pytest_harness.contract.chat_wire import identical, parse_json, short
from pytest_harness.contract.model import Fault, NotExercised, Unverifiable, check
from pytest_harness.contract.seam import missing_commands
from pytest_harness.contract.validity import trial_exception
from pytest_harness.evidence.model import Evidence

RESULT = "trial/result.json"
REWARD_JSON = "trial/verifier/reward.json"
REWARD_TEXT = "trial/verifier/reward.txt"


@check("REW-001")
def the_verifiers_number_is_kept(evidence: Evidence) -> Iterator[Fault]:
    """Harbor reads the JSON file if there is one, else the text file under the key ``reward``."""
    result = _result(evidence)
    path = next((path for path in (REWARD_JSON, REWARD_TEXT) if path in evidence.files), None)
    if path is None:
        raise NotExercised("the verifier wrote no reward")
    text = evidence.files[path].strip()
    written = parse_json(text) if path == REWARD_JSON else _number(text)
    if path == REWARD_TEXT and written is not None:
        written = {"reward": written}
    rewards = _rewards(result)
    if not isinstance(written, dict):
        if rewards is not None:
            yield Fault(None, f"no rewards, as {short(text)!r} is no number", short(repr(rewards)), f"{RESULT} verifier_result")
    elif not _same_numbers(written, rewards):
        yield Fault(None, f"{written} as in {path}", short(repr(rewards)), f"{RESULT} verifier_result.rewards")


@check("REW-002")
def no_verdict_is_not_zero(evidence: Evidence) -> Iterator[Fault]:
    """Neither a number nor a claim that it is valid."""
    result = _result(evidence)
    if REWARD_JSON in evidence.files or REWARD_TEXT in evidence.files:
        raise NotExercised("the verifier wrote a reward")
    if _rewards(result):
        yield Fault(None, "no rewards, as the verifier wrote none", short(repr(_rewards(result))), f"{RESULT} verifier_result.rewards")
    if result.get("reward_valid"):
        yield Fault(None, "reward_valid false, as the verifier wrote nothing", repr(result.get("reward_valid")), f"{RESULT} reward_valid")


@check("REW-003")
def the_reward_is_the_scenarios(evidence: Evidence) -> Iterator[Fault]:
    """Only where the script was followed: a model that went its own way earns its own reward."""
    expected = evidence.manifest.scenario.reward
    if expected is None:
        raise NotExercised("the scenario foresees no verdict")
    result = _result(evidence)
    if missing_commands(evidence):
        raise NotExercised("the scripted commands were not delivered")
    seen = (_rewards(result) or {}).get("reward")
    if isinstance(seen, bool) or seen != expected:
        yield Fault(None, f"a reward of {expected}", repr(seen), f"{RESULT} verifier_result.rewards.reward")


@check("REW-004")
def a_reward_is_a_finite_number(evidence: Evidence) -> Iterator[Fault]:
    """Every key, not only the main one."""
    rewards = _rewards(_result(evidence))
    if not rewards:
        raise NotExercised("there is no reward")
    for name, value in rewards.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            yield Fault(None, "a finite number", repr(value), f"{RESULT} verifier_result.rewards.{name}")


@check("REW-005")
def a_graded_rollout_without_a_fault_is_valid(evidence: Evidence) -> Iterator[Fault]:
    """Harbor's rule for a trial without an exception."""
    result = _result(evidence)
    if not _rewards(result) or trial_exception(evidence) is not None:
        raise NotExercised("there is no reward, or an exception was recorded beside it")
    if result.get("reward_valid") is not True:
        yield Fault(None, "reward_valid true", repr(result.get("reward_valid")), f"{RESULT} reward_valid")


def _result(evidence: Evidence) -> dict[str, Any]:
    if evidence.trial_result is None:
        raise Unverifiable(f"{RESULT} is missing or no JSON object")
    return evidence.trial_result


def _rewards(result: dict[str, Any]) -> dict[str, Any] | None:
    verdict = result.get("verifier_result")
    rewards = verdict.get("rewards") if isinstance(verdict, dict) else None
    return rewards if isinstance(rewards, dict) else None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _same_numbers(written: dict[str, Any], rewards: dict[str, Any] | None) -> bool:
    return rewards is not None and written.keys() == rewards.keys() and all(_same(written[name], rewards[name]) for name in written)


def _same(one: Any, other: Any) -> bool:
    """1 and 1.0 are one number; true is none."""
    if isinstance(one, bool) or isinstance(other, bool):
        return identical(one, other)
    return bool(one == other) or identical(one, other)
