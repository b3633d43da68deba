"""REW: the verifier's number is kept, is chosen by rule, is the verifier's own, and no verdict is no number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_harness.contract.chat_wire import identical, parse_json, short
from pytest_harness.contract.grading import RESULT, REWARD_JSON, REWARD_TEXT, choose, recorded_choice, usable
from pytest_harness.contract.groups import group_check
from pytest_harness.contract.model import Fault, NotExercised, Unverifiable, check
from pytest_harness.contract.outline import Outline
from pytest_harness.contract.phases import shown, window
from pytest_harness.contract.seam import missing_commands
from pytest_harness.contract.validity import trial_exception, voids_rewards
from pytest_harness.evidence.model import Evidence

TICK = 0.1
"""Seconds by which a file's time may be off: the kernel stamps files by a coarser clock than it answers with."""
MISSING, EMPTY, UNREADABLE = "RewardFileNotFoundError", "RewardFileEmptyError", "VerifierOutputParseError"


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
    scenario = evidence.manifest.scenario
    if scenario.reward is None:
        raise NotExercised("the scenario foresees no verdict")
    rewards = _rewards(_result(evidence)) or {}
    if missing_commands(evidence):
        raise NotExercised("the scripted commands were not delivered")
    choice = choose(rewards, scenario.reward_key)
    seen = None if choice.key is None else rewards[choice.key]
    if isinstance(seen, bool) or seen != scenario.reward:
        key = choice.key or scenario.reward_key or "reward"
        told = f"{seen!r}, as {choice.refused}" if rewards and choice.refused else repr(seen)
        yield Fault(None, f"a reward of {scenario.reward}", told, f"{RESULT} verifier_result.rewards.{key}")


@check("REW-004")
def a_reward_is_a_finite_number(evidence: Evidence) -> Iterator[Fault]:
    """Every key, not only the main one."""
    rewards = _rewards(_result(evidence))
    if not rewards:
        raise NotExercised("there is no reward")
    for name, value in rewards.items():
        if usable(value) is None:
            yield Fault(None, "a finite number", repr(value), f"{RESULT} verifier_result.rewards.{name}")


@check("REW-005")
def a_graded_rollout_without_a_fault_is_valid(evidence: Evidence) -> Iterator[Fault]:
    """Harbor's rule for a trial without an exception."""
    result = _result(evidence)
    if not _rewards(result) or trial_exception(evidence) is not None:
        raise NotExercised("there is no reward, or an exception was recorded beside it")
    if result.get("reward_valid") is not True:
        yield Fault(None, "reward_valid true", repr(result.get("reward_valid")), f"{RESULT} reward_valid")


@check("REW-006")
def the_scalar_is_chosen_by_rule(evidence: Evidence) -> Iterator[Fault]:
    """The choice that was recorded when the attempt ended against the rule."""
    _result(evidence)
    by_rule, recorded = recorded_choice(evidence), evidence.manifest.reward
    if by_rule is None and recorded is None:
        raise NotExercised("the verifier gave nothing to choose from")
    if recorded is None and evidence.manifest.grading is None:
        raise Unverifiable("the evidence is older than the record of the choice")
    seen = None if recorded is None else recorded.key
    expected = None if by_rule is None else by_rule.key
    where = "manifest.json reward.key"
    if seen != expected:
        why = f", as {by_rule.refused}" if by_rule is not None and by_rule.refused else ""
        yield Fault(None, f"{'no key' if expected is None else f'the key {expected!r}'}{why}", repr(seen), where)
    elif recorded is not None and by_rule is not None and recorded.text != by_rule.text:
        yield Fault(None, f"{by_rule.text!r}, as the verifier wrote it", repr(recorded.text), "manifest.json reward.text")


@group_check("REW-006")
def attempts_of_a_scenario_take_the_same_key(group: Sequence[Outline]) -> Iterator[tuple[Outline, Fault]]:
    """Numbers of different keys have no mean. Held against those that differ from the first."""
    first: dict[str, tuple[str, str]] = {}
    for outline in group:
        key = outline.grade.key
        if key is None:
            continue
        other, name = first.setdefault(outline.manifest.scenario.name, (key, outline.name))
        if key != other:
            expected = f"the key {other!r}, as in {name}, another attempt of the scenario"
            yield outline, Fault(None, expected, repr(key), f"{RESULT} verifier_result.rewards")


@check("REW-007")
def the_reward_was_written_by_the_verifier(evidence: Evidence) -> Iterator[Fault]:
    """By the file's time, where the sandbox shares our clock; else by nothing of the agent having been there to write it."""
    if REWARD_JSON not in evidence.files and REWARD_TEXT not in evidence.files:
        raise NotExercised("there is no reward file")
    grading = evidence.manifest.grading
    if grading is None:
        raise Unverifiable("nobody recorded when the reward was written, nor what else ran by then")
    if grading.reward_written is None:
        if grading.survivors is None:
            raise Unverifiable("neither the time of the reward's file is known, nor what else ran while it was graded")
        return  # what survived is ISO-006's
    verifier = window(evidence, "verifier")
    finished = verifier.finished if verifier is not None else None
    where = "manifest.json grading.reward_written"
    # Some ways to copy a file out of a sandbox keep whole seconds only.
    lost = 1.0 if grading.reward_written.is_integer() else 0.0
    if grading.reward_written + lost < grading.began - TICK:
        yield Fault(None, f"a reward written after {shown(grading.began)}, when grading began", shown(grading.reward_written), where)
    elif finished is not None and grading.reward_written > finished + TICK:
        yield Fault(None, f"a reward written before {shown(finished)}, when the verifier ended", shown(grading.reward_written), where)


@check("REW-008")
def what_is_wrong_with_a_verdict_is_named(evidence: Evidence) -> Iterator[Fault]:
    """Only where the verifier ran and nothing else was recorded before: Harbor keeps the first exception alone."""
    result = _result(evidence)
    if _rewards(result) is not None:
        raise NotExercised("the verifier gave a verdict")
    exception = trial_exception(evidence)
    if exception not in {None, MISSING, EMPTY, UNREADABLE}:
        raise NotExercised(f"another exception was recorded first: {exception}")
    config = parse_json(evidence.files.get("trial/config.json"))
    disabled = isinstance(config, dict) and isinstance(config.get("verifier"), dict) and config["verifier"].get("disable") is True
    if disabled and exception is None:
        raise NotExercised("the verifier was switched off")
    texts = [evidence.files[path].strip() for path in (REWARD_JSON, REWARD_TEXT) if path in evidence.files]
    expected = MISSING if not texts else UNREADABLE if texts[0] else EMPTY
    if exception != expected:
        yield Fault(None, expected, str(exception), f"{RESULT} exception_info.exception_type")


@check("REW-009")
def a_reward_beside_a_fault_of_the_surroundings_does_not_count(evidence: Evidence) -> Iterator[Fault]:
    """By the rule that Harbor recorded with the exception, and by ours for faults that no policy may forgive."""
    result = _result(evidence)
    exception = trial_exception(evidence)
    if exception is None:
        raise NotExercised("no exception was recorded")
    if _rewards(result) and voids_rewards(evidence) and result.get("reward_valid") is True:
        yield Fault(None, f"reward_valid false, as the trial had {exception}", "True", f"{RESULT} reward_valid")


def _result(evidence: Evidence) -> dict[str, Any]:
    if evidence.trial_result is None:
        raise Unverifiable(f"{RESULT} is missing or no JSON object")
    return evidence.trial_result


def _rewards(result: Mapping[str, Any]) -> dict[str, Any] | None:
    verdict = result.get("verifier_result")
    rewards = verdict.get("rewards") if isinstance(verdict, dict) else None
    return rewards if isinstance(rewards, dict) else None


def _number(text: str) -> float | None:
    try:
        return usable(float(text))
    except ValueError:
        return None


def _same_numbers(written: dict[str, Any], rewards: dict[str, Any] | None) -> bool:
    return rewards is not None and written.keys() == rewards.keys() and all(_same(written[name], rewards[name]) for name in written)


def _same(one: Any, other: Any) -> bool:
    """1 and 1.0 are one number; true is none."""
    if isinstance(one, bool) or isinstance(other, bool):
        return identical(one, other)
    return bool(one == other) or identical(one, other)
