"""Says whether a rollout says anything of its subject, and whose fault it is if it does not.

Harbor calls the reward of a run with a dead endpoint valid for most harnesses, so this is asked of the wire first.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Literal

from pytest_harness.contract.phases import seconds, window
from pytest_harness.evidence.model import Evidence

Blame = Literal["subject", "surroundings", "ourselves"]

# The names are those of harbor.models.trial.error_policy; they are what ``result.json`` records.
_SURROUNDINGS = frozenset(
    {
        "EnvironmentStartTimeoutError",
        "SandboxBuildFailedError",
        "AgentSetupTimeoutError",
        "HealthcheckError",
        "SandboxDiedError",
        "SandboxLikelyOutOfMemoryError",
        "MemoryLimitExceededError",
        "SSHAccessError",
        "GKEExecStreamClosedError",
        "GKEPodNotFoundError",
        "RuntimeRequestError",
        "AddTestsDirError",
        "DownloadVerifierDirError",
        "CancelledError",
        "KeyboardInterrupt",
    }
)
_VERIFIER = frozenset({"RewardFileNotFoundError", "RewardFileEmptyError", "VerifierOutputParseError", "VerifierTimeoutError"})
_NO_ROOM = re.compile(
    "No space left on device|Disk quota exceeded|ENOSPC|EDQUOT"
    r"|fork: (?:retry: )?Resource temporarily unavailable|pthread_create\S* (?:failed: )?Resource temporarily unavailable|spawn \S+ EAGAIN"
)
"""On the disk, or for one more process."""
_BROKEN_ENGINE = frozenset({"malformed_upstream", "cut_upstream", "unreachable_upstream"})
"""An error that the engine answers with may be the request's fault; these never are."""
_OUR_ENGINES = frozenset({"scripted", "vllm"})


@dataclass(frozen=True, slots=True)
class Validity:
    """``valid``: the rollout says something of its subject, graded or not. Else ``blame`` and ``reason`` say why it does not."""

    valid: bool
    blame: Blame | None = None
    reason: str = ""


def validity(evidence: Evidence) -> Validity:
    """Whether the rollout counts. An exception of the agent itself does count: that it raised is a finding, not an excuse."""
    ending = evidence.manifest.ending
    # Harbor lets the fault of a converter out of the trial after it has written the result: a finding about the harness's log.
    if ending.how == "raised" and ending.exception_type not in _SURROUNDINGS and evidence.trial_result is None:
        return Validity(False, "ourselves", f"the trial could not be run: {ending.exception_type}: {ending.exception_message}")
    for exception in (ending.exception_type, trial_exception(evidence)):
        if exception in _SURROUNDINGS:
            return Validity(False, "surroundings", f"the trial ended with {exception}")
    if full := _NO_ROOM.search(f"{ending.exception_message or ''} {trial_exception_message(evidence)}"):
        return Validity(False, "surroundings", f"the sandbox had no room left: {full[0]}")
    fault = _without_call(evidence) or _broken_call(evidence)
    if fault is not None:
        return fault
    return _without_verdict(evidence) or Validity(True)


def _without_verdict(evidence: Evidence) -> Validity | None:
    """Where the scenario foresees a verdict and there is none: not the agent's fault, unless it is the agent's exception that ended it."""
    exception = trial_exception(evidence)
    if evidence.manifest.scenario.reward is None or evidence.trial_result is None:
        return None
    if exception in _VERIFIER:
        return Validity(False, "surroundings", f"the verifier gave no verdict: {exception}")
    verdict = evidence.trial_result.get("verifier_result")
    if isinstance(verdict, dict) and verdict.get("rewards"):
        return None
    if exception is None:
        return Validity(False, "surroundings", "the verifier gave no verdict, and no exception says why")
    if _while_graded(evidence):
        said = trial_exception_message(evidence)[-200:]
        return Validity(False, "surroundings", f"the verifier could not give a verdict: {exception}: {said}")
    return None


def _while_graded(evidence: Evidence) -> bool:
    """Whether the recorded exception came after grading had begun, e.g. because the sandbox had gone by then."""
    verifier = window(evidence, "verifier")
    info = (evidence.trial_result or {}).get("exception_info")
    occurred = seconds(info.get("occurred_at")) if isinstance(info, dict) else None
    return verifier is not None and verifier.started is not None and occurred is not None and occurred >= verifier.started


def _without_call(evidence: Evidence) -> Validity | None:
    outcomes = [call.outcome for call in evidence.calls]
    if not outcomes:
        return Validity(
            False, "surroundings", f"no call reached the proxy{_instead(evidence)}: the verifier's word is not about this model"
        )
    if "complete" in outcomes:
        return None
    unanswered = [outcome for outcome in outcomes if outcome not in ("refused", "budget_stop")]
    if not unanswered and "budget_stop" in outcomes:
        return Validity(False, "ourselves", "the session's budget let no call through to the engine; give it a larger one")
    if not unanswered:
        return Validity(False, "ourselves", "every call was refused by our proxy: the seam's row sends it a wrong key or route")
    return Validity(False, _engine_blame(evidence), f"the engine answered no call: {unanswered[0]}{_said(evidence, unanswered[0])}")


def _instead(evidence: Evidence) -> str:
    """What is known of a rollout without a call."""
    known = []
    if evidence.manifest.rejected:
        known.append(f"{evidence.manifest.rejected} requests came with a wrong key or none")
    if (exception := trial_exception(evidence)) is not None:
        known.append(f"the trial ended with {exception}: {trial_exception_message(evidence)[-200:]}")
    return f" ({'; '.join(known)})" if known else ""


def _said(evidence: Evidence, outcome: str) -> str:
    """What the engine said to the first call of this outcome."""
    call = next(call for call in evidence.calls if call.outcome == outcome)
    try:
        message = json.loads(call.replied.body)["error"]["message"] if call.replied else call.error
    except (ValueError, KeyError, TypeError):
        message = call.error
    return f": {message}" if message else ""


def _broken_call(evidence: Evidence) -> Validity | None:
    """A fault of the proxy, or one of the engine over which the agent stumbled, is not held against the agent."""
    seen = set[int]()
    for call in evidence.calls:
        if call.index in seen:
            return Validity(False, "ourselves", f"the capture is broken: two calls have the index {call.index}")
        seen.add(call.index)
        if call.outcome == "complete" and (call.forwarded is None or call.replied is None):
            missing = "request to the engine" if call.forwarded is None else "reply of the engine"
            return Validity(False, "ourselves", f"the capture is broken: call {call.index} was answered, and no {missing} is recorded")
        if call.outcome == "proxy_error":
            return Validity(False, "ourselves", f"the proxy failed in call {call.index}: {call.error}")
        if call.outcome in _BROKEN_ENGINE and trial_exception(evidence) is not None and trial_exception(evidence) not in _VERIFIER:
            reason = f"the engine failed in call {call.index} ({call.outcome}) and the trial ended with {trial_exception(evidence)}"
            return Validity(False, _engine_blame(evidence), reason)
    return None


def _engine_blame(evidence: Evidence) -> Blame:
    return "ourselves" if evidence.manifest.engine in _OUR_ENGINES else "surroundings"


def voids_rewards(evidence: Evidence) -> bool:
    """Whether the recorded exception means that a reward beside it says nothing: by the policy that Harbor recorded with
    it, and whatever that says for a fault of the sandbox or of the verifier."""
    info = (evidence.trial_result or {}).get("exception_info")
    policy = info.get("policy") if isinstance(info, dict) else None
    forgiven = isinstance(policy, dict) and policy.get("has_valid_reward") is False
    return forgiven or trial_exception(evidence) in _SURROUNDINGS | _VERIFIER


def trial_exception_message(evidence: Evidence) -> str:
    """What that exception says, empty if there is none."""
    info = (evidence.trial_result or {}).get("exception_info")
    message = info.get("exception_message") if isinstance(info, dict) else None
    return message if isinstance(message, str) else ""


def trial_exception(evidence: Evidence) -> str | None:
    """The name of the exception that Harbor recorded, or None."""
    info = (evidence.trial_result or {}).get("exception_info")
    name = info.get("exception_type") if isinstance(info, dict) else None
    return name if isinstance(name, str) else None
