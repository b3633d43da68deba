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
    """Whether a known deviation excuses the failure: it must be in range, not have expired when the attempt ended, and look like this."""
    manifest = evidence.manifest
    for deviation in deviations_in_range(manifest):
        if deviation.requirement != requirement.id:
            continue
        if manifest.ended_at[:10] > deviation.expires:
            reason = f"the known deviation of {deviation.subject} expired on {deviation.expires}: look at {deviation.link} again"
            return Judgement(requirement, evidence.name, "failed", findings, reason)
        others = tuple(finding for finding in findings if not _looks_like(finding, deviation))
        if others:
            reason = f"this is something else than the known deviation of {deviation.subject}: {deviation.reason}"
            return Judgement(requirement, evidence.name, "failed", others, reason)
        reason = f"known deviation of {deviation.subject} {deviation.versions}: {deviation.reason} ({deviation.link})"
        return Judgement(requirement, evidence.name, "deviation", findings, reason)
    return Judgement(requirement, evidence.name, "failed", findings)


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
