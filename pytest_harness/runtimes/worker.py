"""A program in another Python, asked over its standard streams: a JSON document a line, questions of its own in between.

What is under test is then never imported here, and its crash is not ours. The other side is ``workers/lines.py``.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pytest_harness.owners import marked
from pytest_harness.wire.loading import AdapterError
from pytest_harness.wire.outcome import Broken

WORKERS = Path(__file__).parent / "workers"
_START_SEC = 80.0
"""Shorter than what a start may take, so that what it wrote is told."""
_STOP_SEC = 10.0

Answer = Callable[[Mapping[str, Any]], Any]
"""Answers a question of the program: ``{"ask": what, …}``. What it raises, the program raises where it asked."""


class Worker:
    """One such program, from ``start`` to ``stop``. One question at a time."""

    def __init__(self, python: str, script: str, folder: Path) -> None:
        self._command = [python, str(WORKERS / script)]
        self._folder = folder
        self._log = folder / f"{Path(script).stem}.log"
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it and wait until it is ready. Raises AdapterError."""
        environment = marked({name: value for name, value in os.environ.items() if not name.startswith("PYTHON")})
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                encoding="utf-8",
                start_new_session=True,
            )
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], _START_SEC)
        if not ready or not self._process.stdout.readline():
            self.stop()
            raise AdapterError(f"{' '.join(self._command)} did not start: {self._tail()}")

    def ask(self, request: Mapping[str, Any], answer: Answer) -> Any:
        """What it answers to the request. Raises Broken if it ends over it, and AdapterError if it cannot deal with it."""
        if self._process is None:
            self.start()
        try:
            document = self._talk(request, answer)
        except BaseException:
            self.stop()  # it stands in the middle of a conversation: the next one begins with a new process
            raise
        if "error" in document:
            raise AdapterError(f"{self._command[-1]} failed: {document['error']}")
        return document["answer"]

    def stop(self) -> None:
        """End it and what it started."""
        process, self._process = self._process, None
        if process is None:
            return
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(_STOP_SEC)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _talk(self, request: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
        self._write(request)
        while "ask" in (document := self._read()):
            self._write(_answered(answer, document))
        return document

    def _write(self, document: Mapping[str, Any]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(document) + "\n")
            self._process.stdin.flush()
        except OSError:
            raise self._ended() from None

    def _read(self) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._ended()
        document: dict[str, Any] = json.loads(line)
        return document

    def _ended(self) -> Broken:
        assert self._process is not None
        return Broken("an answer", f"the process ended with exit code {self._process.wait()}: {self._tail()}")

    def _tail(self) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines() if self._log.exists() else []
        return " ".join(line.strip() for line in lines[-5:] if line.strip()) or "it said nothing"


def _answered(answer: Answer, question: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return {"value": answer(question)}
    except Broken:
        raise
    except Exception as error:  # noqa: BLE001 - it is the script's, for the program to deal with
        return {"raise": type(error).__name__, "text": str(error.args[0]) if error.args else ""}
