"""SBX: what is left of the agent and of its sandbox afterwards."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_harness.contract.model import Fault, Unverifiable, check
from pytest_harness.evidence.model import Evidence


@check("SBX-001")
def the_sandbox_is_gone_afterwards(evidence: Evidence) -> Iterator[Fault]:
    """Seen from outside: nothing can be run in it any more."""
    if evidence.manifest.sandbox_gone is None:
        raise Unverifiable("nobody looked for the sandbox after the attempt")
    if not evidence.manifest.sandbox_gone:
        yield Fault(None, "a sandbox that is gone with its attempt", "one in which commands still ran", "manifest.json sandbox_gone")


@check("SBX-002")
def the_agent_leaves_nothing_running(evidence: Evidence) -> Iterator[Fault]:
    """What was there when grading began, and had not been before the agent did; it was ended then."""
    grading = evidence.manifest.grading
    if grading is None or grading.running is None:
        raise Unverifiable("nobody could see what the agent left running")
    for name in grading.running:
        yield Fault(None, "no process of the agent after its end", name, "manifest.json grading.running")
