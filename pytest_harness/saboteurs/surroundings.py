"""Faults around the agent: its sandbox, the grader's environment, keys, and who is said to have run."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

from pytest_harness.evidence.model import Evidence, Grading, Inside
from pytest_harness.saboteurs.registry import NothingToSabotage, saboteur
from pytest_harness.saboteurs.surgery import (
    RESULT,
    Json,
    edit_reply,
    found,
    last_turn,
    with_call,
    with_manifest,
)


@saboteur
def printed_key(evidence: Evidence) -> Evidence:
    """The harness printed its key, which was redacted."""
    return _graded(evidence, key_in_files=("trial/agent/debug.log",))


@saboteur
def call_of_the_grader(evidence: Evidence) -> Evidence:
    """The verifier, or what it runs of the agent's, asks the model."""
    began = ((found(evidence.trial_result, RESULT)).get("verifier") or {}).get("started_at")
    found(began, "moment at which grading began")
    call = last_turn(evidence)
    late = {name: moment + 1e10 for name, moment in call.times.model_dump().items() if moment is not None}
    return with_call(evidence, call.model_copy(update={"times": call.times.model_copy(update=late)}))


@saboteur
def surviving_daemon(evidence: Evidence) -> Evidence:
    """A process of the agent could not be ended and ran beside the verifier."""
    return _graded(evidence, survivors=("node",))


@saboteur
def agent_left_running(evidence: Evidence) -> Evidence:
    """The agent left a terminal server behind."""
    return _graded(evidence, running=("tmux: server",))


@saboteur
def attempt_id_as_key(evidence: Evidence) -> Evidence:
    """The key is the id of the attempt, which anybody may know."""
    return with_manifest(evidence, key_digest=hashlib.sha256(evidence.manifest.attempt_id.encode()).hexdigest())


@saboteur
def placeholder_as_key(evidence: Evidence) -> Evidence:
    """The key is the same word in every attempt."""
    return with_manifest(evidence, key_digest=hashlib.sha256(b"EMPTY").hexdigest())


@saboteur
def seams_key_for_the_grader(evidence: Evidence) -> Evidence:
    """The seam's variables were set for all processes, the verifier's too."""
    return _graded(evidence, seam_variables=("OPENAI_API_KEY", "OPENAI_BASE_URL"))


@saboteur
def replaced_key_of_the_grader(evidence: Evidence) -> Evidence:
    """A grader that asks a model of its own does not get the key that its operator set for it."""
    return _graded(evidence, own_variables={"JUDGE_API_KEY": False})


@saboteur
def sandbox_left_running(evidence: Evidence) -> Evidence:
    """Nobody stopped the sandbox."""
    return with_manifest(evidence, sandbox_gone=False)


@saboteur
def another_user_inside(evidence: Evidence) -> Evidence:
    """The image of the sandbox has a user of its own, and a time zone."""
    return _inside(evidence, user="agent", home="/home/agent", utc_offset="+0200")


@saboteur
def clock_of_its_own(evidence: Evidence) -> Evidence:
    """The sandbox was frozen for an hour, and its clock with it."""
    return _inside(evidence, clock_ahead=-3600.0)


@saboteur
def bridged_sandbox(evidence: Evidence) -> Evidence:
    """The sandbox hangs on a bridge, and a way leads out."""
    return _inside(evidence, interfaces=("eth0", "lo"), routes=1)


@saboteur
def ignored_step_limit(evidence: Evidence) -> Evidence:
    """The harness was told to stop at once, and went on."""
    last_turn(evidence)
    if evidence.manifest.scenario.steps < 3:
        raise NothingToSabotage("the script is too short for a limit to be broken")
    return with_manifest(evidence, step_limit=1)


@saboteur
def bypassed_proxy(evidence: Evidence) -> Evidence:
    """The harness asked another model for its title."""
    return with_manifest(evidence, network="watched", egress=("api.vendor.example:443",))


@saboteur
def unknown_binary(evidence: Evidence) -> Evidence:
    """Nobody knows which files ran under the version's name."""
    return with_manifest(evidence, digests={})


@saboteur
def row_of_another_harness(evidence: Evidence) -> Evidence:
    """The evidence was put under the row of another harness."""
    seam = evidence.manifest.seam
    return with_manifest(evidence, seam=seam.model_copy(update={"harness": f"not-{seam.harness}"}))


@saboteur
def scripted_replies_as_a_models(evidence: Evidence) -> Evidence:
    """Replies of the scripted engine stand under the name of a real one."""

    def sign(parts: list[Json]) -> None:
        for part in parts:
            part["system_fingerprint"] = "scripted-00000000"

    last_turn(evidence)
    calls = tuple(edit_reply(call, sign) if call.outcome == "complete" and call.samples else call for call in evidence.calls)
    return with_manifest(replace(evidence, calls=calls), engine="vllm")


def _inside(evidence: Evidence, **changes: Any) -> Evidence:
    inside: Inside = found(evidence.manifest.inside, "look into its sandbox")
    return with_manifest(evidence, inside=inside.model_copy(update=changes))


def _graded(evidence: Evidence, **changes: Any) -> Evidence:
    grading: Grading = found(evidence.manifest.grading, "record of its grading")
    return with_manifest(evidence, grading=grading.model_copy(update=changes))
