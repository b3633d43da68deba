"""What the tests of reports share: a report of recorded evidence in which something is broken, and a browser to open its page in."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_harness import saboteurs
from pytest_harness.evidence import Evidence, read_evidence
from pytest_harness.reports.build import build_report
from pytest_harness.reports.model import Report, ReportedAttempt
from pytest_harness.requirements import load_catalogue
from pytest_harness.verdict import Rollout, seam_verdicts

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))

from headless import Browser, find_browser  # noqa: E402

EVIDENCE = TESTS.parent / "fixtures" / "evidence"


class Judged:
    """A report and the evidence of its attempts."""

    def __init__(self, evidences: list[Evidence], folders: dict[str, Path]) -> None:
        catalogue = load_catalogue("2026.12")
        self.folder = EVIDENCE
        self.evidences = {evidence.manifest.attempt_id: evidence for evidence in evidences}
        rollouts = [Rollout.of(evidence, catalogue) for evidence in evidences]
        self.report: Report = build_report(seam_verdicts(rollouts, catalogue), catalogue=catalogue, run_id="run", folders=folders)

    def evidence_of(self, attempt: ReportedAttempt) -> Evidence | None:
        return self.evidences.get(attempt.id)


@pytest.fixture(scope="session")
def judged() -> Judged:
    """pi with a broken MUST, gemini-cli with a known deviation, mini-swe-agent with an attempt that counts for nothing."""
    evidences, folders = [], {}
    for name in ("pi/local/scripted/explore/1", "gemini-cli/local/scripted/parallel_calls/1", "mini-swe-agent/local/scripted/no_verdict/1"):
        evidence = read_evidence(EVIDENCE / name)
        if name.startswith("pi"):
            evidence = saboteurs.apply("nan_logprob", evidence)
        evidences.append(evidence)
        folders[evidence.manifest.attempt_id] = Path("evidence") / name
    return Judged(evidences, folders)


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """The browser. It must be there: a page that nobody has opened is not tested."""
    command = find_browser()
    if command is None:
        pytest.fail("there is no Chromium to open the page in; install Debian's package chromium: apt-get install chromium")
    browser = Browser(command, tmp_path_factory.mktemp("chromium"))
    yield browser
    browser.close()


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    """The browser as wide as a desk, without anything left of the test before. No test may leave an error in it."""
    chromium.faults.clear()
    chromium.requests.clear()
    chromium.resize(1400, 1000)
    chromium.prefers("light")
    yield chromium
    assert chromium.faults == []
