"""ISO: keys stay where they belong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pytest_harness.contract.chat_wire import line, parse_json
from pytest_harness.contract.model import Fault, NotExercised, Unverifiable, check
from pytest_harness.evidence.model import Evidence

KEY = re.compile(r"sk-hc-[A-Za-z0-9_-]{20,}")
"""The form of the capture key of an attempt."""
CREDENTIAL_HEADERS = frozenset({"proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie"})
SEAM_VARIABLE = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|BASE_URL|API_BASE|ENDPOINT)$", re.IGNORECASE)
CONFIG = "trial/config.json"


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
    """By the names of the variables, as the values are redacted."""
    config = parse_json(evidence.files.get(CONFIG))
    if not isinstance(config, dict):
        raise Unverifiable(f"{CONFIG} is missing or no JSON object")
    for name in _names(config.get("verifier")):
        if SEAM_VARIABLE.search(name):
            yield Fault(None, "no credential or base URL", name, f"{CONFIG} verifier.env")


def _names(verifier: Any) -> list[str]:
    env = verifier.get("env") if isinstance(verifier, dict) else None
    return sorted(env) if isinstance(env, dict) else []
