"""Faults of rewards, of isolation, and of the seam as a whole."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

from pytest_harness.evidence.model import Evidence, RewardChoice
from pytest_harness.saboteurs.registry import NothingToSabotage, saboteur
from pytest_harness.saboteurs.surgery import (
    RESULT,
    TRAJECTORY,
    Json,
    bound,
    edit_file,
    edit_request,
    found,
    last_turn,
    struck_turn,
    with_call,
    with_file,
    with_manifest,
)

REWARD_JSON = "trial/verifier/reward.json"
REWARD_TEXT = "trial/verifier/reward.txt"
CONFIG = "trial/config.json"
FAKE_KEY = "sk-hc-" + "saboteur" * 4


@saboteur
def altered_reward(evidence: Evidence) -> Evidence:
    """Somebody rescaled the verifier's number."""
    text = found(evidence.files.get(REWARD_TEXT), REWARD_TEXT)
    return _wrote(evidence, f"{float(text) / 2 + 0.25}")


@saboteur
def wrong_reward(evidence: Evidence) -> Evidence:
    """The verifier judged another run."""
    wrong = 1.0 - float(found(evidence.files.get(REWARD_TEXT), REWARD_TEXT))
    return _rewards(_wrote(evidence, f"{wrong}"), {"reward": wrong})


@saboteur
def nan_reward(evidence: Evidence) -> Evidence:
    """A second key is not a number."""
    return _second_key(evidence, math.nan)


@saboteur
def boolean_reward(evidence: Evidence) -> Evidence:
    """A second key is true."""
    return _second_key(evidence, True)


@saboteur
def zero_for_none(evidence: Evidence) -> Evidence:
    """A zero stands for the verdict that is missing."""
    _ungraded(evidence)
    return _rewards(_chosen(evidence, None), {"reward": 0.0})


@saboteur
def valid_without_verdict(evidence: Evidence) -> Evidence:
    """A missing verdict counts as valid."""
    _ungraded(evidence)
    return edit_file(evidence, RESULT, lambda document: document.update(reward_valid=True))


@saboteur
def reward_marked_invalid(evidence: Evidence) -> Evidence:
    """A good reward is marked as not valid."""
    found(evidence.files.get(REWARD_TEXT), REWARD_TEXT)
    return edit_file(evidence, RESULT, lambda document: document.update(reward_valid=False))


@saboteur
def key_in_log(evidence: Evidence) -> Evidence:
    """The harness wrote its key into a log."""
    return with_file(evidence, "trial/agent/debug.log", f"Authorization: Bearer {FAKE_KEY}\n")


@saboteur
def key_in_request(evidence: Evidence) -> Evidence:
    """The harness sends its key in the body too."""
    return with_call(evidence, edit_request(struck_turn(evidence), lambda body: body.update(user=FAKE_KEY)))


@saboteur
def forwarded_key_header(evidence: Evidence) -> Evidence:
    """The proxy forwards the harness's key."""
    call = struck_turn(evidence)
    forwarded = found(call.forwarded, "forwarded request")
    headers = {**forwarded.headers, "x-api-key": "<redacted>"}
    return with_call(evidence, call.model_copy(update={"forwarded": forwarded.model_copy(update={"headers": headers})}))


@saboteur
def key_for_the_grader(evidence: Evidence) -> Evidence:
    """The verifier gets the seam's key."""
    return edit_file(evidence, CONFIG, lambda document: document["verifier"].setdefault("env", {}).update(OPENAI_API_KEY="<redacted>"))


@saboteur
def no_calls(evidence: Evidence) -> Evidence:
    """The harness never reached the proxy."""
    last_turn(evidence)
    return replace(evidence, calls=())


@saboteur
def stopped_early(evidence: Evidence) -> Evidence:
    """The script had one more step."""
    bound(evidence)
    scenario = evidence.manifest.scenario
    return with_manifest(evidence, scenario=scenario.model_copy(update={"steps": scenario.steps + 1}))


@saboteur
def fell_short_of_its_freedom(evidence: Evidence) -> Evidence:
    """The scenario asked for more turns than the agent took."""
    scenario = evidence.manifest.scenario
    if scenario.turns is None:
        raise NothingToSabotage("the scenario leaves the harness no freedom")
    last_turn(evidence)
    return with_manifest(evidence, scenario=scenario.model_copy(update={"turns": (99, 99)}))


@saboteur
def another_command(evidence: Evidence) -> Evidence:
    """The script had another command."""
    bound(evidence)
    scenario = evidence.manifest.scenario
    if not scenario.shell_commands or not scenario.shell_commands[0]:
        raise NothingToSabotage("the first step of the scenario has no command")
    commands = (("rm -rf elsewhere",), *scenario.shell_commands[1:])
    return with_manifest(evidence, scenario=scenario.model_copy(update={"shell_commands": commands}))


@saboteur
def agent_timeout(evidence: Evidence) -> Evidence:
    """The harness had to be killed."""
    return edit_file(evidence, RESULT, lambda document: document.update(exception_info={"exception_type": "AgentTimeoutError"}))


@saboteur
def no_result(evidence: Evidence) -> Evidence:
    """The trial never wrote its result."""
    found(evidence.files.get(RESULT), RESULT)
    return with_file(evidence, RESULT, None)


@saboteur
def unknown_version(evidence: Evidence) -> Evidence:
    """Nobody knows which version ran, nor, then, whether a known deviation of some versions excuses it."""
    if any(deviation.subject == evidence.manifest.harness for deviation in evidence.manifest.seam.deviations):
        raise NothingToSabotage("a known deviation holds for this version: without it, that one breaks too")
    return with_manifest(evidence, versions={**evidence.manifest.versions, "harness": "unknown"})


@saboteur
def another_version(evidence: Evidence) -> Evidence:
    """The harness's log names another version."""
    return edit_file(evidence, TRAJECTORY, lambda document: document["agent"].update(version="0.0.1"))


@saboteur
def refused_call(evidence: Evidence) -> Evidence:
    """A call with something that the proxy does not serve."""
    call = last_turn(evidence)
    nothing: dict[str, Any] = {"forwarded": None, "replied": None, "prompt_ids": None, "samples": ()}
    refused = call.model_copy(update={**nothing, "index": len(evidence.calls), "id": "refused", "outcome": "refused"})
    return replace(evidence, calls=(*evidence.calls, refused))


@saboteur
def another_dialect(evidence: Evidence) -> Evidence:
    """The harness speaks another dialect than its row declares."""
    seam = evidence.manifest.seam
    other = {"chat": "responses", "responses": "messages"}.get(seam.dialect, "responses")
    return with_manifest(evidence, seam=seam.model_copy(update={"dialect": other}))


def _rewards(evidence: Evidence, rewards: Json) -> Evidence:
    return edit_file(evidence, RESULT, lambda document: document.update(verifier_result={"rewards": rewards}))


def _wrote(evidence: Evidence, text: str) -> Evidence:
    """The evidence of a verifier that wrote this number."""
    return with_file(_chosen(evidence, text), REWARD_TEXT, f"{text}\n")


def _chosen(evidence: Evidence, text: str | None) -> Evidence:
    """The evidence whose record of the choice, where it has one, tells of this number: the choice is not what is wrong with it."""
    if evidence.manifest.grading is None and evidence.manifest.reward is None:
        return evidence
    return with_manifest(evidence, reward=RewardChoice(key="reward", text=text))


def _second_key(evidence: Evidence, value: float) -> Evidence:
    reward = float(found(evidence.files.get(REWARD_TEXT), REWARD_TEXT))
    rewards = {"reward": reward, "style": value}
    scenario = evidence.manifest.scenario.model_copy(update={"reward_key": "reward"})
    evidence = with_manifest(_chosen(evidence, f"{reward}"), scenario=scenario)
    return _rewards(with_file(with_file(evidence, REWARD_TEXT, None), REWARD_JSON, json.dumps(rewards)), rewards)


def _ungraded(evidence: Evidence) -> None:
    if REWARD_TEXT in evidence.files or REWARD_JSON in evidence.files:
        raise NothingToSabotage("the verifier wrote a reward")
