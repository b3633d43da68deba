"""Faults between rollouts that run at the same time."""

from __future__ import annotations

from typing import Any

from pytest_harness.evidence.model import Companion, Evidence
from pytest_harness.saboteurs.registry import NothingToSabotage, chosen, saboteur
from pytest_harness.saboteurs.surgery import struck_turn, with_call, with_file, with_manifest


@saboteur
def call_in_two_records(evidence: Evidence) -> Evidence:
    """A call of this rollout was recorded in another one's session too."""
    taken = struck_turn(evidence)
    return _with_companion(evidence, calls=(*_companion(evidence).calls, taken.id))


@saboteur
def companions_words(evidence: Evidence) -> Evidence:
    """The harness sends what another rollout's model said, out of a store that they have in common."""
    call, companion = struck_turn(evidence), _companion(evidence)
    headers = {**call.received.headers, "x-last-message": f"I am {companion.marker}."}
    return with_call(evidence, call.model_copy(update={"received": call.received.model_copy(update={"headers": headers})}))


@saboteur
def companions_file(evidence: Evidence) -> Evidence:
    """The harness writes the logs of all rollouts into one folder."""
    return with_file(evidence, "native/history.txt", f"I am {_companion(evidence).marker}.")


@saboteur
def strayed_words(evidence: Evidence) -> Evidence:
    """Calls of another rollout say what only this one's script does."""
    return _with_companion(evidence, strayed=1)


@saboteur
def key_of_the_companion(evidence: Evidence) -> Evidence:
    """Both rollouts were given one key."""
    return _with_companion(evidence, key_digest=evidence.manifest.key_digest)


@saboteur
def lost_reward_of_the_companion(evidence: Evidence) -> Evidence:
    """The harness could not work beside another of its kind."""
    return _with_companion(evidence, reward=None, exception="NonZeroAgentExitCodeError")


def _companion(evidence: Evidence) -> Companion:
    companions = evidence.manifest.companions
    if not companions:
        raise NothingToSabotage("no other rollout ran beside it")
    return chosen(companions, 0)


def _with_companion(evidence: Evidence, **changes: Any) -> Evidence:
    struck = _companion(evidence)
    companions = tuple(each.model_copy(update=changes) if each is struck else each for each in evidence.manifest.companions)
    return with_manifest(evidence, companions=companions)
