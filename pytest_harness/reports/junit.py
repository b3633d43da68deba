"""The report as JUnit XML: a suite for each seam, a case for its verdict and for each requirement, with what is known as properties.

It stands beside the XML that pytest's own ``--junitxml`` writes, which has a case for each attempt.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from xml.etree import ElementTree as Xml

from pytest_harness.reports.counts import engines_of
from pytest_harness.reports.entries import Entry, entries, finding_text
from pytest_harness.reports.model import Report, ReportedSeam

MOST = 10
"""So many findings of one case are told; the report as JSON has all."""

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(report: Report) -> str:
    """The document as text. What XML has no way to say is written as its escape."""
    by_seam: dict[int, list[Entry]] = {}
    for entry in entries(report):
        by_seam.setdefault(id(entry.seam), []).append(entry)
    root = Xml.Element("testsuites", {"name": "harness-conformance", **_counts([each for group in by_seam.values() for each in group])})
    for seam in report.seams:
        root.append(_suite(report, seam, by_seam[id(seam)]))
    Xml.indent(root, " ")
    document: bytes = Xml.tostring(root, encoding="utf-8", xml_declaration=True)
    return document.decode() + "\n"


def _suite(report: Report, seam: ReportedSeam, cases: list[Entry]) -> Xml.Element:
    suite = Xml.Element("testsuite", {"name": _legal(seam.name), "timestamp": _legal(report.written_at), **_counts(cases)})
    known = {
        "harness": seam.harness,
        "harness_version": seam.version,
        "row": seam.row,
        "sandbox": seam.sandbox,
        "dialect": seam.dialect,
        "engines": ", ".join(engines_of([seam])),
        "requirement_set": report.requirement_set,
        "verdict": seam.status,
        "why": seam.why,
        "required": str(seam.required),
        "ran": str(seam.ran),
        **({} if seam.mean_reward is None else {"mean_reward": str(seam.mean_reward)}),
        "graded": str(seam.graded),
        **({} if report.sabotage is None else {"sabotage": report.sabotage}),
    }
    suite.append(_properties(known))
    suite.extend(_case(entry) for entry in cases)
    return suite


def _case(entry: Entry) -> Xml.Element:
    case = Xml.Element("testcase", {"classname": _legal(entry.seam.name), "name": _legal(entry.name)})
    case.append(_properties(entry.labels))
    findings = () if entry.requirement is None else entry.requirement.findings[:MOST]
    told = _legal("\n".join(finding_text(finding) for finding in findings))
    if entry.outcome != "passed":
        kind = {"failed": "failure", "error": "error"}.get(entry.outcome, "skipped")
        Xml.SubElement(case, kind, {"message": _legal(entry.message)}).text = told or None
    return case


def _counts(cases: list[Entry]) -> dict[str, str]:
    counts = Counter(entry.outcome for entry in cases)
    return {
        "tests": str(len(cases)),
        "failures": str(counts["failed"]),
        "errors": str(counts["error"]),
        "skipped": str(counts["skipped"] + counts["noted"]),
    }


def _properties(known: Mapping[str, str]) -> Xml.Element:
    properties = Xml.Element("properties")
    for name, value in known.items():
        Xml.SubElement(properties, "property", {"name": name, "value": _legal(value)})
    return properties


def _legal(text: str) -> str:
    return _NO_XML.sub(lambda found: found.group().encode("unicode_escape").decode(), text)
