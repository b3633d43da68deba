"""Judges evidence: runs every applicable check, each on its own, and sets known deviations apart from failures."""

from __future__ import annotations

import re

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from pytest_harness.contract.depth import too_deep
from pytest_harness.contract.model import Fault, Finding, Judgement, NotExercised, Unverifiable, check_of
from pytest_harness.evidence.model import Deviation, Evidence, Manifest
from pytest_harness.requirements import Catalogue, Requirement


def judge(evidence: Evidence, catalogue: Catalogue) -> tuple[Judgement, ...]:
    """Judge the evidence by every requirement that applies to its seam and engine, in the order of the catalogue."""
    manifest = evidence.manifest
    return tuple(judge_one(evidence, requirement) for requirement in catalogue.applicable(manifest.seam, manifest.engine))


def judge_one(evidence: Evidence, requirement: Requirement) -> Judgement:
    """Judge the evidence by one requirement. A check that breaks is our own fault and says nothing of the subject."""
    name = evidence.name
    try:
        faults = _faults(evidence, requirement)
    except NotExercised as answer:
        return Judgement(requirement, name, "not_exercised", reason=str(answer))
    except Unverifiable as answer:
        return Judgement(requirement, name, "unverifiable", reason=str(answer))
    except _UnreadError as error:
        return Judgement(requirement, name, "error", reason=str(error))
    except Exception as error:  # noqa: BLE001 - one broken check must not take the others with it
        return Judgement(requirement, name, "error", reason=f"our check broke: {type(error).__name__}: {error}")
    if not faults:
        return Judgement(requirement, name, "passed")
    findings = tuple(Finding(requirement.id, fault.call, fault.expected, fault.seen, fault.where) for fault in faults)
    return _excused(evidence, requirement, findings)


class _UnreadError(Exception):
    """Something in the record is nested too deeply to be read."""


def _faults(evidence: Evidence, requirement: Requirement) -> tuple[Fault, ...]:
    if (unread := too_deep(evidence)) is not None:
        raise _UnreadError(f"{unread} is nested too deeply for our checks: nothing of this attempt is judged")
    try:
        return tuple(check_of(requirement.id)(evidence))
    except RecursionError:
        raise _UnreadError("something in the record is nested too deeply for this check of ours") from None


def _excused(evidence: Evidence, requirement: Requirement, findings: tuple[Finding, ...]) -> Judgement:
    """Whether known deviations excuse it: in range, not expired when the attempt ended, and each finding looks like one of them."""
    manifest = evidence.manifest
    known = [each for each in deviations_in_range(manifest) if _may_break(each, requirement, manifest)]
    for deviation in known:
        if manifest.ended_at[:10] > deviation.expires:
            reason = f"the known deviation of {deviation.subject} expired on {deviation.expires}: look at {deviation.link} again"
            return Judgement(requirement, evidence.name, "failed", findings, reason)
    others = tuple(finding for finding in findings if not any(_looks_like(finding, deviation) for deviation in known))
    if known and others:
        named = " or ".join(f"of {deviation.subject}: {deviation.reason}" for deviation in known)
        return Judgement(requirement, evidence.name, "failed", others, f"this is something else than the known deviation {named}")
    if others:
        return Judgement(requirement, evidence.name, "failed", findings)
    shown = [deviation for deviation in known if any(_looks_like(finding, deviation) for finding in findings)]
    reasons = (f"known deviation of {each.subject} {each.versions}: {each.reason} ({each.link})" for each in shown)
    return Judgement(requirement, evidence.name, "deviation", findings, "; ".join(reasons))


def _may_break(deviation: Deviation, requirement: Requirement, manifest: Manifest) -> bool:
    return deviation.requirement == requirement.id and (not deviation.scenarios or manifest.scenario.name in deviation.scenarios)


def _looks_like(finding: Finding, deviation: Deviation) -> bool:
    """Whether the finding has what is seen of the deviation; a group named ``expected`` stands for exactly what was expected."""
    found = re.search(deviation.seen or "", finding.seen)
    return found is not None and found.groupdict().get("expected") in (None, finding.expected)


def deviations_in_range(manifest: Manifest) -> tuple[Deviation, ...]:
    """The known deviations whose subject took part in a version that has the fault."""
    return tuple(deviation for deviation in manifest.seam.deviations if _in_range(deviation, manifest))


def _in_range(deviation: Deviation, manifest: Manifest) -> bool:
    subject = "harness" if deviation.subject == manifest.harness else deviation.subject
    try:
        return SpecifierSet(deviation.versions).contains(Version(manifest.versions[subject]), prereleases=True)
    except (KeyError, InvalidSpecifier, InvalidVersion):
        return False
