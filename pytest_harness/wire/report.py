"""What was found of one proxy: the document ``wire.json``."""

from __future__ import annotations

from typing import ClassVar

from pytest_harness.reports.cases import CaseReport


class ProxyReport(CaseReport):
    """One run of the wire suite."""

    kind: ClassVar[str] = "proxy"
    file: ClassVar[str] = "wire.json"

    proxy: str
    dialects: tuple[str, ...]
