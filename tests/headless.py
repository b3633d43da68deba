"""One page in headless Chromium, driven by its own protocol over a pipe: nothing listens on a port."""

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
from pathlib import Path
from typing import Any

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 60
"""Seconds after which a browser that says nothing is given up."""

# Chromium takes its commands from descriptor 3 and answers on 4.
LAUNCH = "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execvp(sys.argv[3], sys.argv[3:])"


def find_browser() -> str | None:
    """The command of a Chromium, if there is one."""
    return next((found for name in BROWSERS if (found := shutil.which(name))), None)


class Browser:
    """One page. ``faults`` are errors of scripts and of the content policy."""

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
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.resize(1400, 1000)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._session = None
            self.send("Browser.close")
        for end in (self._in, self._out):
            os.close(end)
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def open(self, path: Path, place: str = "#/") -> None:
        """Open a file at one of its addresses and wait until it shows it."""
        self.send("Page.navigate", url="about:blank")
        self.send("Page.navigate", url=f"{path.as_uri()}{place}")
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
        answer = self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"]["exception"].get("description", answer["exceptionDetails"]["text"]))
        return answer["result"].get("value")

    def text(self, selector: str) -> str:
        return self.js(f"document.querySelector({json.dumps(selector)}).innerText")

    def key(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, **({"text": key} if len(key) == 1 and kind == "keyDown" else {}))

    def resize(self, width: int, height: int) -> None:
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 700)

    def prefers(self, scheme: str) -> None:
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot")["data"]))

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The answer to one command of the protocol."""
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
