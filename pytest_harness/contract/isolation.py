"""ISO: keys stay where they belong, and the grader is alone with its own."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

from pytest_harness.contract.chat_wire import line, parse_json
from pytest_harness.contract.grading import RESULT
from pytest_harness.contract.groups import group_check
from pytest_harness.contract.model import Fault, NotExercised, Unverifiable, check
from pytest_harness.contract.outline import Outline
from pytest_harness.contract.phases import shown, window
from pytest_harness.evidence.model import Evidence, Grading

KEY = re.compile(r"sk-hc-[A-Za-z0-9_-]{20,}")
"""The form of the capture key of an attempt."""
CREDENTIAL_HEADERS = frozenset({"proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie"})
SEAM_VARIABLE = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|BASE_URL|API_BASE|ENDPOINT)$", re.IGNORECASE)
CONFIG = "trial/config.json"
GRADING = "manifest.json grading"
GUESSABLE = ("", "EMPTY", "agent", "dummy", "key", "none", "null", "secret", "sk-test", "sk-xxx", "test", "token-abc123", "unused")
"""What people put where a key must stand and none is looked at."""


@check("ISO-001")
def no_key_in_the_evidence(evidence: Evidence) -> Iterator[Fault]:
    """The finding shows the form of the key, never the key."""
    for call in evidence.calls:
        if found := KEY.search(call.model_dump_json()):
            yield Fault(call.index, "no capture key", f"{found[0][:8]}… ({len(found[0])} characters)", line(call))
    for path, text in evidence.files.items():
        if found := KEY.search(text):
            yield Fault(None, "no capture key", f"{found[0][:8]}… ({len(found[0])} characters)", path)


@check("ISO-002")
def the_harnesss_credentials_stay_with_us(evidence: Evidence) -> Iterator[Fault]:
    """``authorization`` is where the proxy's own key for the engine stands: an engine that has one refuses the harness's by itself."""
    forwarded = [(call, call.forwarded) for call in evidence.calls if call.forwarded is not None]
    if not forwarded:
        raise NotExercised("no call was forwarded")
    for call, message in forwarded:
        for name in sorted(CREDENTIAL_HEADERS & {header.lower() for header in message.headers}):
            yield Fault(call.index, f"no header {name}", "it is there", f"{line(call)}, forwarded.headers")


@check("ISO-003")
def the_grader_knows_nothing_of_the_seam(evidence: Evidence) -> Iterator[Fault]:
    """By the names of the variables, as the values are redacted; one that was seen to hold the operator's value is the grader's own."""
    config = parse_json(evidence.files.get(CONFIG))
    if not isinstance(config, dict):
        raise Unverifiable(f"{CONFIG} is missing or no JSON object")
    grading = evidence.manifest.grading
    own = {name for name, kept in grading.own_variables.items() if kept} - set(grading.seam_variables) if grading else set()
    for name in _names(config.get("verifier")):
        if SEAM_VARIABLE.search(name) and name not in own:
            yield Fault(None, "no credential or base URL", name, f"{CONFIG} verifier.env")


@check("ISO-004")
def the_harness_writes_its_key_nowhere(evidence: Evidence) -> Iterator[Fault]:
    """Looked for before it was redacted, so what is on disk does not show it any more."""
    grading = _grading(evidence)
    if grading.key_in_files is None:
        raise Unverifiable("nobody looked for the key in the harness's logs")
    for path in grading.key_in_files:
        yield Fault(None, "a log without the attempt's key", "the key, redacted since", path)


@check("ISO-005")
def no_call_comes_while_it_is_graded(evidence: Evidence) -> Iterator[Fault]:
    """What calls then is the grader, or something of the agent that lives on: neither is the agent at its task."""
    verifier = window(evidence, "verifier")
    if verifier is None:
        raise NotExercised("it was not graded")
    if verifier.started is None:
        raise Unverifiable(f"{RESULT} does not say when the verifier began")
    for call in evidence.calls:
        if call.times.received > verifier.started:
            yield Fault(call.index, f"no call after {shown(verifier.started)}, when grading began", shown(call.times.received), line(call))


@check("ISO-006")
def nothing_of_the_agent_runs_beside_the_grader(evidence: Evidence) -> Iterator[Fault]:
    """What could not be ended; what was there and was ended is SBX-002's."""
    grading = _grading(evidence)
    if grading.survivors is None:
        raise Unverifiable("nobody could see what ran in the sandbox when grading began")
    for name in grading.survivors:
        yield Fault(None, "a sandbox in which the verifier is alone", f"a process {name} of the agent", f"{GRADING}.survivors")


@check("ISO-007")
def each_attempt_has_a_key_of_its_own(evidence: Evidence) -> Iterator[Fault]:
    """A key that anybody can guess, such as the attempt's id, is nobody's own."""
    manifest = evidence.manifest
    if manifest.key_digest is None:
        raise Unverifiable("the evidence holds no digest of the attempt's key")
    guesses = (*GUESSABLE, manifest.harness, manifest.attempt_id, manifest.run_id, manifest.model, evidence.name)
    for guess in guesses:
        if manifest.key_digest == hashlib.sha256(guess.encode(errors="surrogatepass")).hexdigest():
            yield Fault(None, "a key that nobody can guess", repr(guess), "manifest.json key_digest")


@group_check("ISO-007")
def no_two_attempts_share_a_key(group: Sequence[Outline]) -> Iterator[tuple[Outline, Fault]]:
    """Held against the later one: a call with a shared key is in the record of either."""
    first: dict[str, str] = {}
    for outline in group:
        digest = outline.manifest.key_digest
        if digest in first:
            yield outline, Fault(None, "a key of its own", f"the key of {first[digest]}", "manifest.json key_digest")
        elif digest is not None:
            first[digest] = f"{outline.name} on {outline.manifest.engine}"


@check("ISO-008")
def the_grader_has_the_operators_environment(evidence: Evidence) -> Iterator[Fault]:
    """By the values that a command of the verifier found, compared when they were known."""
    grading = _grading(evidence)
    if grading.variables is None:
        raise Unverifiable("nobody saw the verifier's environment")
    for name in grading.seam_variables:
        yield Fault(None, "nothing of the seam", f"{name} holds the attempt's key or the proxy's address", f"{GRADING}.seam_variables")
    for name, kept in grading.own_variables.items():
        if not kept and name not in grading.seam_variables:
            seen = "another value" if name in grading.variables else "no such variable"
            yield Fault(None, f"{name} as the operator set it for the verifier", seen, f"{GRADING}.own_variables")


def _grading(evidence: Evidence) -> Grading:
    if evidence.manifest.grading is None:
        raise Unverifiable("nobody looked at the sandbox between the agent's end and the verifier's start")
    return evidence.manifest.grading


def _names(verifier: Any) -> list[str]:
    env = verifier.get("env") if isinstance(verifier, dict) else None
    return sorted(env) if isinstance(env, dict) else []
