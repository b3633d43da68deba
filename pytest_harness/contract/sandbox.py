"""SBX: what the agent finds in its sandbox, and what is left of both afterwards."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_harness.contract.model import Fault, Unverifiable, check
from pytest_harness.evidence.model import Evidence, Inside

CLOCK_SEC = 2.0
"""So far may the sandbox's clock be from ours."""
UNIFORM = {"user": ("root",), "home": ("/root",), "locale": ("C.UTF-8", "C.utf8"), "utc_offset": ("+0000",), "umask": ("0022",)}
"""What every kind of sandbox has alike, and the ways to say it."""


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


@check("SBX-003")
def every_sandbox_is_alike(evidence: Evidence) -> Iterator[Fault]:
    """User, home, locale, time zone and umask are the same in every kind of sandbox."""
    inside = _inside(evidence)
    for name, right in UNIFORM.items():
        if (seen := getattr(inside, name)) not in right:
            yield Fault(None, f"{name} {right[0]}", seen or "none", f"manifest.json inside.{name}")


@check("SBX-004")
def the_clock_is_ours(evidence: Evidence) -> Iterator[Fault]:
    """The sandbox's clock and this machine's agree."""
    ahead = _inside(evidence).clock_ahead
    if not abs(ahead) <= CLOCK_SEC:
        yield Fault(
            None, f"a clock within {CLOCK_SEC:g} s of ours", f"one that is {ahead:+.1f} s from it", "manifest.json inside.clock_ahead"
        )


@check("SBX-005")
def no_way_leads_out(evidence: Evidence) -> Iterator[Fault]:
    """A sandbox that is said to have no network has no interface but loopback, and no route."""
    if evidence.manifest.network != "none":
        raise Unverifiable("the sandbox is not said to be without a network")
    inside = _inside(evidence)
    for name in inside.interfaces:
        if name != "lo":
            yield Fault(None, "no network interface but lo", name, "manifest.json inside.interfaces")
    if inside.routes:
        yield Fault(None, "no route", f"{inside.routes} of them", "manifest.json inside.routes")


def _inside(evidence: Evidence) -> Inside:
    if evidence.manifest.inside is None:
        raise Unverifiable("nobody looked into the sandbox before the agent began")
    return evidence.manifest.inside
