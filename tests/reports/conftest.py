"""What the tests of reports share: a report of recorded evidence in which something is broken, and a browser to open its page in."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_harness import saboteurs
from pytest_harness.evidence import Evidence, read_evidence
from pytest_harness.reports.build import build_report
from pytest_harness.reports.model import Report, ReportedAttempt
from pytest_harness.requirements import load_catalogue
from pytest_harness.verdict import Rollout, seam_verdicts

EVIDENCE = Path(__file__).resolve().parents[2] / "fixtures" / "evidence"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 60
"""Seconds after which a browser that says nothing is given up."""

# Chromium takes its commands from descriptor 3 and answers on 4.
LAUNCH = "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execvp(sys.argv[3], sys.argv[3:])"


class Judged:
    """A report and the evidence of its attempts."""

    def __init__(self, rollouts: list[Rollout], folders: dict[str, Path]) -> None:
        catalogue = load_catalogue("2026.12")
        self.folder = EVIDENCE
        self.evidences = {rollout.evidence.manifest.attempt_id: rollout.evidence for rollout in rollouts}
        self.report: Report = build_report(seam_verdicts(rollouts, catalogue), catalogue=catalogue, run_id="run", folders=folders)

    def evidence_of(self, attempt: ReportedAttempt) -> Evidence | None:
        return self.evidences.get(attempt.id)


@pytest.fixture(scope="session")
def judged() -> Judged:
    """pi with a broken MUST, gemini-cli with a known deviation, mini-swe-agent with an attempt that counts for nothing."""
    catalogue = load_catalogue("2026.12")
    rollouts, folders = [], {}
    for name in ("pi/local/scripted/explore/1", "gemini-cli/local/scripted/parallel_calls/1", "mini-swe-agent/local/scripted/no_verdict/1"):
        evidence = read_evidence(EVIDENCE / name)
        if name.startswith("pi"):
            evidence = saboteurs.apply("nan_logprob", evidence)
        rollouts.append(Rollout.of(evidence, catalogue))
        folders[evidence.manifest.attempt_id] = Path("evidence") / name
    return Judged(rollouts, folders)


class Browser:
    """One page in headless Chromium, driven by its own protocol. ``faults`` are errors of scripts and of the content policy."""

    def __init__(self, command: str, profile: Path) -> None:
        (theirs_in, ours_out), (ours_in, theirs_out) = os.pipe(), os.pipe()
        high = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (theirs_in, theirs_out)]
        flags = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--hide-scrollbars",
        ]
        self.process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, *map(str, high), command, *flags, "--remote-debugging-pipe", f"--user-data-dir={profile}"],
            pass_fds=high,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in (theirs_in, theirs_out, *high):
            os.close(end)
        self._in, self._out = ours_in, ours_out
        self._buffer = b""
        self._count = 0
        self._session: str | None = None
        self.faults: list[str] = []
        self.requests: list[str] = []
        target = self._send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._send(f"{domain}.enable")
        self.resize(1400, 1000)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._session = None
            self._send("Browser.close")
        for end in (self._in, self._out):
            os.close(end)
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def open(self, path: Path, place: str = "#/") -> None:
        """Open a file at one of its addresses and wait until it shows it."""
        self._send("Page.navigate", url="about:blank")
        self._send("Page.navigate", url=f"{path.as_uri()}{place}")
        self._shows(place)

    def go(self, place: str) -> None:
        """Go to another address of the same page."""
        self.js(f"location.hash = {json.dumps(place)}")
        self._shows(place)

    def follow(self, selector: str) -> str:
        """Follow a link as a click does, and wait until it is shown; its address."""
        place = self.js(f"(() => {{ const link = document.querySelector({json.dumps(selector)}); link.click(); return link.hash }})()")
        self._shows(place)
        return place

    def _shows(self, place: str) -> None:
        look = f"document.body && document.body.dataset.ready === {json.dumps(place)}"
        self.js(
            f"new Promise((done) => {{ const look = () => {{ if ({look}) done(true); }};"
            "new MutationObserver(look).observe(document, { subtree: true, childList: true, attributes: true }); look(); })"
        )

    def js(self, expression: str) -> Any:
        """What an expression gives, a promise's value if it is one."""
        answer = self._send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"]["exception"].get("description", answer["exceptionDetails"]["text"]))
        return answer["result"].get("value")

    def text(self, selector: str) -> str:
        return self.js(f"document.querySelector({json.dumps(selector)}).innerText")

    def key(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self._send("Input.dispatchKeyEvent", type=kind, key=key, **({"text": key} if len(key) == 1 and kind == "keyDown" else {}))

    def resize(self, width: int, height: int) -> None:
        self._send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 700)

    def prefers(self, scheme: str) -> None:
        self._send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self._send("Page.captureScreenshot")["data"]))

    def _send(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._count:
                assert "error" not in answer, f"{method}: {answer['error']['message']}"
                return answer["result"]
            self._note(answer)

    def _note(self, event: dict[str, Any]) -> None:
        parameters = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.faults.append(details.get("exception", {}).get("description", details["text"]))
        elif event.get("method") == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.faults.append(parameters["entry"]["text"])
        elif event.get("method") == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], PATIENCE)
            assert ready, f"the browser has not answered for {PATIENCE} seconds"
            read = os.read(self._in, 1 << 20)
            assert read, "the browser has ended"
            self._buffer += read
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """The browser. It must be there: a page that nobody has opened is not tested."""
    command = next((found for name in BROWSERS if (found := shutil.which(name))), None)
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
