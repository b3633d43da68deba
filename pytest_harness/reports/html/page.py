"""Puts the page together: the template, one style, one script, and the data.

Each attempt is packed by itself, and unpacked by the browser when somebody looks at it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from pytest_harness.evidence import Evidence
from pytest_harness.reports.counts import Count, families_of, is_binding, is_broken, ran_of_required
from pytest_harness.reports.html.attempt import attempt_data
from pytest_harness.reports.model import Report, ReportedAttempt
from pytest_harness.reports.secrets import masked, masked_document
from pytest_harness.requirements import FAMILIES

SCRIPTS = ("dom", "data", "routes", "matrix", "findings", "seam", "tokens", "graph", "bytes", "trajectory", "attempt", "main")
"""The parts of the one script, in the order in which they build on each other."""
LARGEST = 24_000_000
"""So many characters the attempts take together; the rest of them is in the evidence alone, and the page says so."""

EvidenceOf = Callable[[ReportedAttempt], Evidence | None]


def page(report: Report, evidence_of: EvidenceOf, largest: int = LARGEST) -> str:
    """The whole file as text. It holds no secret that the evidence should not hold either, and it makes no request."""
    style = _asset("page.css")
    script = "\n".join(_asset(f"{name}.js") for name in SCRIPTS)
    environment = Environment(
        loader=PackageLoader("pytest_harness.reports.html", "assets"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    shown = Report.model_validate(masked_document(report.model_dump(mode="json")))
    return environment.get_template("page.html.j2").render(
        report=shown,
        families=[(family, FAMILIES[family]) for family in families_of(report)],
        count=lambda seam, family: Count.of(seam.families.get(family, {})),
        ran=ran_of_required(report),
        style=style,
        style_digest=_digest(style),
        script=script,
        script_digest=_digest(script),
        data=packed({"report": shown.model_dump(mode="json"), "families": FAMILIES}),
        attempts=list(_attempts(report, evidence_of, largest)),
    )


@dataclass(frozen=True)
class PackedAttempt:
    """What the page holds of one attempt; ``absent`` says why it holds nothing."""

    id: str
    data: str
    absent: str


def packed(document: Any) -> str:
    """JSON, compressed, in base64: nothing in it can end the element that holds it, and lone surrogates survive."""
    text = json.dumps(_finite(document), separators=(",", ":"), allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode(), 6)).decode()


def unpacked(text: str) -> Any:
    """What ``packed`` has packed."""
    return json.loads(zlib.decompress(base64.b64decode(text)))


def _finite(value: Any) -> Any:
    """The document with a text in place of each number that JSON has no way to write."""
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return value


def _attempts(report: Report, evidence_of: EvidenceOf, largest: int) -> Iterator[PackedAttempt]:
    """All attempts, as far as they fit: first those in which something is broken, then those of each seam in turn."""
    left = largest
    for attempt in _by_interest(report):
        if left <= 0:
            yield PackedAttempt(attempt.id, "", masked(f"This page would grow too large with it. The evidence is in {attempt.evidence}."))
            continue
        evidence = evidence_of(attempt)
        if evidence is None:
            yield PackedAttempt(attempt.id, "", masked(f"Its evidence could not be read from {attempt.evidence}."))
            continue
        data = packed(masked_document(attempt_data(evidence)))
        left -= len(data)
        yield PackedAttempt(attempt.id, data, "")


def _by_interest(report: Report) -> list[ReportedAttempt]:
    ranked: list[tuple[int, int, int, ReportedAttempt]] = []
    for seam in report.seams:
        broken = {
            finding.attempt_id: is_binding(requirement)
            for requirement in sorted(seam.requirements, key=is_binding)
            if is_broken(requirement) or requirement.standing == "deviation"
            for finding in requirement.findings
        }
        for turn, attempt in enumerate(seam.attempts):
            interest = 0 if broken.get(attempt.id) or not attempt.valid else 1 if attempt.id in broken else 2
            ranked.append((interest, turn, len(ranked), attempt))
    unique = {attempt.id: attempt for *_, attempt in sorted(ranked, key=lambda each: each[:3])}
    return list(unique.values())


def _asset(name: str) -> str:
    return files("pytest_harness.reports.html").joinpath("assets", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
