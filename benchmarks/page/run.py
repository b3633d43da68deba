"""What the report's page costs whoever looks at it, where it is large: 50 seams, 150 requirements, 20 attempts of each seam.

    python benchmarks/page/run.py

Opens the page in headless Chromium and does what people do, each several times: types into the search, chooses in each filter, changes the
columns, opens a seam, a requirement, an attempt. A time is the CPU time of the page's thread from the event until the frame that shows what
came of it is drawn, and the smallest of the rounds: everything else a machine does only adds to it. ``ratio`` is over the same on a page of
a tenth of the seams; 10 would be linear. Prints a line for each and one for each that takes longer than its bound; exit code 1 if there is
any.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path

from pytest_harness.evidence import Evidence, read_evidence
from pytest_harness.reports.build import build_report
from pytest_harness.reports.html import page
from pytest_harness.reports.model import Report, ReportedAttempt, ReportedFinding, ReportedRequirement, ReportedSeam
from pytest_harness.requirements import Requirement, load_catalogue
from pytest_harness.verdict import Rollout, seam_verdicts

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from headless import Browser, find_browser  # noqa: E402

SEAMS, REQUIREMENTS, ATTEMPTS = 50, 150, 20
SMALLER = 10
ROUNDS = 5
MOST_MILLISECONDS = 100.0
"""Of what one waits for while typing and choosing: longer is felt as a delay."""
MOST_GOING = 300.0
"""Of another place on the page, which one waits for once."""
MOST_OPENING = 3000.0
"""Until the page is there at first."""
EVIDENCE = ROOT / "fixtures" / "evidence" / "pi" / "local" / "scripted" / "explore" / "1"
STANDINGS = {"passed": 88, "failed": 4, "deviation": 2, "unstable": 2, "not_exercised": 4}
"""Of a hundred requirements: far more is broken than in any real table."""
RESULT = {"unstable": "failed"}

DRAWN = """async (act) => {
  const drawn = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  await act();
  await drawn();
}"""
GO = """(place) => new Promise((done) => {
  const look = () => { if (document.body.dataset.ready === place) { observer.disconnect(); done(); } };
  const observer = new MutationObserver(look);
  observer.observe(document.body, { attributes: true });
  location.hash = place;
  look();
})"""
TYPE = """(text) => { const field = document.getElementById("search"); field.value = text; field.dispatchEvent(new Event("input")); }"""
CHOOSE = """([name, value]) => {
  const field = document.querySelector(`select[name=${name}]`);
  field.value = value;
  field.dispatchEvent(new Event("change"));
}"""
PRESS = """(name) => document.querySelector(`button[data-view=${name}]`).click()"""


def large_report(seams: int, requirements: int, attempts: int) -> tuple[Report, Evidence]:
    """A report of so many of each, made of one recorded rollout, and the evidence that each of its attempts has."""
    catalogue = load_catalogue("2027.01").of("seam")
    evidence = read_evidence(EVIDENCE)
    judged = Rollout.of(evidence, catalogue)
    report = build_report(
        seam_verdicts([judged], catalogue),
        catalogue=catalogue,
        run_id="large",
        folders={evidence.manifest.attempt_id: EVIDENCE.relative_to(ROOT)},
    )
    chosen = tuple(catalogue)[:requirements]
    if len(chosen) < requirements:
        raise RuntimeError(f"{catalogue.version} has only {len(chosen)} requirements of seams")
    chance = random.Random(1)
    made = tuple(_seam(report.seams[0], number, chosen, attempts, chance) for number in range(seams))
    return report.model_copy(update={"seams": made}), evidence


def _seam(seam: ReportedSeam, number: int, requirements: tuple[Requirement, ...], attempts: int, chance: random.Random) -> ReportedSeam:
    tries = [
        seam.attempts[0].model_copy(update={"id": f"{number}-{each}", "name": f"harness-{number}-explore", "attempt": each})
        for each in range(1, attempts + 1)
    ]
    standings = dict(
        zip((each.id for each in requirements), chance.choices([*STANDINGS], [*STANDINGS.values()], k=len(requirements)), strict=True)
    )
    results: defaultdict[str, list[str]] = defaultdict(list)
    families: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for name, standing in standings.items():
        results[RESULT.get(standing, standing)].append(name)
        families[name[:3]][standing] += 1
    sandbox = ("local", "docker", "podman")[number % 3]
    return seam.model_copy(
        update={
            "name": f"harness-{number} in {sandbox}",
            "harness": f"harness-{number}",
            "sandbox": sandbox,
            "status": "unsupported",
            "families": {family: dict(counts) for family, counts in families.items()},
            "requirements": tuple(_requirement(each, standings[each.id], tries) for each in requirements),
            "attempts": tuple(each.model_copy(update={"results": {kind: tuple(ids) for kind, ids in results.items()}}) for each in tries),
        }
    )


def _requirement(requirement: Requirement, standing: str, tries: list[ReportedAttempt]) -> ReportedRequirement:
    broken = tries if standing in {"failed", "deviation", "unstable"} else []
    return ReportedRequirement(
        id=requirement.id,
        title=requirement.title,
        level=requirement.level,
        draft=False,
        occasional=False,
        statement=requirement.statement,
        why=requirement.why,
        standing=standing,
        results={RESULT.get(standing, standing): len(tries)},
        reasons=(),
        findings=tuple(
            ReportedFinding(
                attempt=each.name,
                attempt_id=each.id,
                call=1,
                where=f"calls[1].samples[0].logprobs[{each.attempt}]",
                expected="finite numbers of at most 0",
                seen=f"nan at position {each.attempt}",
                replay=f"pytest --replay .harness/evidence/{each.id} -k {requirement.id}",
            )
            for each in broken
        ),
    )


class Stopwatch:
    """The smallest time of each thing that was done, in milliseconds."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        browser.send("Performance.enable", timeDomain="threadTicks")
        self.least: dict[str, float] = {}

    def time(self, name: str, act: str, argument: object) -> None:
        """Do it, and keep the time if it is the smallest."""
        before = self._computed()
        self.browser.js(f"({DRAWN})(() => ({act})({json.dumps(argument)}))")
        took = self._computed() - before
        self.least[name] = min(took, self.least.get(name, took))

    def _computed(self) -> float:
        """Milliseconds of CPU that the page's thread has taken."""
        metrics = self.browser.send("Performance.getMetrics")["metrics"]
        return next(1000 * each["value"] for each in metrics if each["name"] == "TaskDuration")


def measure(browser: Browser, path: Path, report: Report) -> dict[str, float]:
    """Milliseconds of everything."""
    watch = Stopwatch(browser)
    attempt = report.seams[1].attempts[0].id
    for _ in range(ROUNDS):
        began = time.perf_counter()
        browser.open(path)
        opened = 1000 * (time.perf_counter() - began)
        watch.least["opening the page"] = min(opened, watch.least.get("opening the page", opened))
        for view in ("families", "requirements"):
            watch.time(f"columns: {view}", PRESS, view)
            for letters in ("n", "nan", "nan at position 7", "harness-1", "nothing is called so", ""):
                watch.time(f"search in {view}: {letters!r}", TYPE, letters)
            for name, value in (
                ("harness", "harness-2"),
                ("sandbox", "local"),
                ("family", "TOK"),
                ("level", "MUST"),
                ("outcome", "failed"),
            ):
                watch.time(f"{name} in {view}: {value}", CHOOSE, [name, value])
                watch.time(f"{name} in {view}: all", CHOOSE, [name, ""])
        for name, place in (
            ("a seam", "#/seam/1"),
            ("a requirement", "#/seam/1/LGP-003"),
            ("an attempt", f"#/attempt/{attempt}"),
            ("the matrix", "#/"),
        ):
            watch.time(f"going to {name}", GO, place)
    return watch.least


def main() -> int:
    """Measure and print; the exit code."""
    options = argparse.ArgumentParser()
    options.add_argument("--pages", type=Path, help="a folder in which the pages and pictures of them are left")
    kept: Path | None = options.parse_args().pages
    command = find_browser()
    if command is None:
        print("there is no Chromium to open the page in: apt-get install chromium", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as name:
        folder = kept or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        browser = Browser(command, Path(name) / "profile")
        try:
            times = []
            for seams in (SEAMS // SMALLER, SEAMS):
                report, evidence = large_report(seams, REQUIREMENTS, ATTEMPTS)
                path = folder / f"{seams}-seams.html"
                path.write_text(page(report, lambda _, same=evidence: same), encoding="utf-8")
                times.append(measure(browser, path, report))
            print(f"{SEAMS} seams, {REQUIREMENTS} requirements, {ATTEMPTS} attempts of each seam: {path.stat().st_size / 1e6:.1f} MB")
            if kept is not None:
                pictures(browser, path, kept)
        finally:
            browser.close()
    small, large = times
    complaints = []
    for what, took in large.items():
        print(f"{what:50} {took:7.1f} ms  ratio {took / small[what]:5.2f}")
        most = MOST_OPENING if what == "opening the page" else MOST_GOING if what.startswith("going to") else MOST_MILLISECONDS
        if took > most:
            complaints.append(f"{what} takes {took:.0f} ms, and not at most {most:g}")
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    return 1 if complaints else 0


def pictures(browser: Browser, path: Path, folder: Path) -> None:
    """The matrix in light and dark and as wide as a phone."""
    for name, scheme, width in (("light", "light", 1400), ("dark", "dark", 1400), ("phone", "light", 390)):
        browser.resize(width, 900)
        browser.prefers(scheme)
        for view in ("families", "requirements"):
            browser.open(path, "#/" if view == "families" else "#/?view=requirements")
            browser.picture(folder / f"{name}-{view}.png")


if __name__ == "__main__":
    sys.exit(main())
