"""What became of a rollout's reward: one of four states, read from evidence. Checks, verdicts and reports all ask here.

The verifier's number and its validity are two things: the number is kept as it was written whatever else went wrong, and it counts only
where the rollout says something of its subject. ``None`` is no number: it is in no sum and no mean.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pytest_harness.contract.validity import Blame, trial_exception, validity
from pytest_harness.evidence.model import Evidence, RewardChoice

RESULT = "trial/result.json"
REWARD_JSON = "trial/verifier/reward.json"
REWARD_TEXT = "trial/verifier/reward.txt"
MAIN_KEY = "reward"
"""The key under which Harbor puts the number of a text file."""

State = Literal["valid", "invalid", "ungraded_exception", "ungraded"]
"""Graded and counted; graded and not counted; no verdict and an exception that may say why; no verdict and nothing that says why."""


@dataclass(frozen=True, slots=True)
class Grade:
    """The state of a rollout's reward."""

    state: State
    value: float | None = None
    """The scalar, counted or not; None where the verifier gave none, or none that can be used."""
    key: str | None = None
    """The verifier's key under which it stands."""
    text: str | None = None
    """The number as the verifier wrote it."""
    rewards: Mapping[str, Any] = field(default_factory=dict)
    """Everything that the verifier gave, as Harbor recorded it."""
    reason: str = ""
    """Why it does not count, or why there is none; empty where it counts."""
    blame: Blame | None = None

    @property
    def graded(self) -> bool:
        """Whether the verifier gave a verdict, counted or not."""
        return self.state in {"valid", "invalid"}

    @property
    def counted(self) -> float | None:
        """The scalar where it counts, else None, which is not zero."""
        return self.value if self.state == "valid" else None

    @property
    def solved(self) -> bool:
        """Only a reward that counts and is positive."""
        return self.counted is not None and self.counted > 0


def grade(evidence: Evidence) -> Grade:
    """The state of the reward in this evidence."""
    rewards, exception = rewards_of(evidence), trial_exception(evidence)
    said = validity(evidence)
    if not rewards:
        reason = exception or ("" if said.valid else said.reason) or "the scenario foresees no verdict, and the verifier gave none"
        return Grade("ungraded" if exception is None else "ungraded_exception", reason=reason, blame=said.blame)
    choice = choose(rewards, evidence.manifest.scenario.reward_key)
    value = None if choice.key is None else usable(rewards[choice.key])
    if not said.valid:
        reason = said.reason
    elif (evidence.trial_result or {}).get("reward_valid") is not True:
        reason = f"Harbor does not call it valid{f', after {exception}' if exception else ''}"
    else:
        reason = choice.refused
    return Grade(
        "invalid" if reason else "valid",
        value=value,
        key=choice.key,
        text=None if choice.key is None else written(evidence).get(choice.key),
        rewards=rewards,
        reason=reason,
        blame=said.blame,
    )


def reward(evidence: Evidence) -> float | None:
    """The verifier's number, whether it counts or not; None if there is none that can be used."""
    return grade(evidence).value


def choose(rewards: Mapping[str, Any], named: str | None = None) -> RewardChoice:
    """The scalar among the verifier's numbers: that of the named key, else that of the only one, else none.

    Nothing is guessed: several keys of which none is named give no scalar, and a main key that cannot be used promotes no other.
    """
    if named is not None:
        key, absent = named, f"the verifier gave no {named!r}, which the scenario names, but {_listed(rewards)}"
    elif len(rewards) == 1:
        key, absent = next(iter(rewards)), ""
    else:
        return RewardChoice(key=None, refused=f"the verifier gave {_listed(rewards)}, and the scenario names none of them as its reward")
    if key not in rewards:
        return RewardChoice(key=None, refused=absent)
    if usable(rewards[key]) is None:
        return RewardChoice(key=None, refused=f"{key} is {rewards[key]!r}, which is no finite number")
    return RewardChoice(key=key)


def recorded_choice(evidence: Evidence) -> RewardChoice | None:
    """What is to be recorded of the choice when an attempt ends; None where the verifier gave nothing to choose from."""
    rewards = rewards_of(evidence)
    if not rewards:
        return None
    choice = choose(rewards, evidence.manifest.scenario.reward_key)
    return choice if choice.key is None else choice.model_copy(update={"text": written(evidence).get(choice.key)})


def usable(value: Any) -> float | None:
    """The finite number that this is; None for NaN, an infinity, a boolean, a text or anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def rewards_of(evidence: Evidence) -> Mapping[str, Any] | None:
    """What the verifier gave, as Harbor recorded it; None if it recorded nothing, empty if the verifier gave an empty object."""
    verdict = (evidence.trial_result or {}).get("verifier_result")
    rewards = verdict.get("rewards") if isinstance(verdict, dict) else None
    return rewards if isinstance(rewards, dict) else None


def written(evidence: Evidence) -> dict[str, str]:
    """The verifier's numbers as the characters that it wrote, by key. Harbor reads the JSON file if there is one, else the text file."""
    if REWARD_JSON in evidence.files:
        try:
            document = json.loads(evidence.files[REWARD_JSON], parse_float=_Digits, parse_int=_Digits)
        except (ValueError, RecursionError):
            return {}
        return {key: str(value) for key, value in document.items() if isinstance(value, _Digits)} if isinstance(document, dict) else {}
    return {MAIN_KEY: evidence.files[REWARD_TEXT].strip()} if REWARD_TEXT in evidence.files else {}


def mean(values: Iterable[float | None]) -> float | None:
    """Over what was given; None, not zero, where nothing was."""
    given = [value for value in values if value is not None]
    if not given:
        return None
    try:
        return math.fsum(given) / len(given)
    except OverflowError:
        return math.fsum(value / len(given) for value in given)


class _Digits(str):
    """A number of a JSON document as it stands there, told apart from a string."""

    __slots__ = ()


def _listed(rewards: Mapping[str, Any]) -> str:
    return ", ".join(map(repr, rewards)) or "nothing"
