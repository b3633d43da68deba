"""The adapter of openenv's capture server, in a process of its own, from an environment of its own; it is never imported here.

Its session id is the key that the harness presents. Calls are read from its rollout document, which has the ids of whole paths: those of
one call are cut out of the path by its own counts. The engine is declared as one that returns token ids, so that no probe is sent.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from pytest_harness.owners import marked
from pytest_harness.provision import ProvisionError
from pytest_harness.provision.cache import Cache, Made, Making
from pytest_harness.provision.tools import ask, digest_of, run_installer, uv_program
from pytest_harness.wire.adapter import CapturedCall, CapturedSample, Engine, ProxyAdapter, ProxySession
from pytest_harness.wire.bundled import sdk_urls
from pytest_harness.wire.loading import AdapterError
from pytest_harness.wire.outcome import Broken, eventually

VARIABLE = "HARNESS_CONFORMANCE_OPENENV_PYTHON"
PACKAGE = "openenv"
VERSION = "0.10.0"
_START_SEC = 90.0
_STOP_SEC = 10.0
_ASK_VERSION = "import importlib.metadata; print(importlib.metadata.version('openenv'))"


class OpenEnvProxy(ProxyAdapter):
    """openenv's capture server in its default configuration, with an admin key."""

    name = "openenv"
    dialects = frozenset({"chat", "responses", "messages", "gemini"})
    _process: subprocess.Popen[bytes] | None = None
    _control: httpx.Client | None = None
    _version = VERSION

    def start(self, engine: Engine, folder: Path) -> None:
        """Start it and wait until it answers."""
        python = openenv_python()
        self._version = openenv_version(python)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        admin_key = secrets.token_urlsafe(24)
        arguments = [
            "--llm-url",
            engine.url,
            "--model",
            engine.model,
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--capture-level",
            "tokens",
        ]
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("OPENENV_", "PYTHON"))}
        environment |= {"OPENENV_CAPTURE_ADMIN_KEY": admin_key, "OPENENV_LLM_API_KEY": engine.api_key}
        log = folder / "openenv.log"
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [python, "-m", "openenv.core.harness.capture.server", *arguments],
                cwd=folder,
                env=marked(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._root = f"http://127.0.0.1:{port}"
        self._control = httpx.Client(base_url=self._root, headers={"authorization": f"Bearer {admin_key}"}, timeout=20, trust_env=False)
        if not eventually(self._ready, bool, _START_SEC):
            raise AdapterError(f"openenv's capture server did not start: {_tail(log)}; {VARIABLE} names the Python that runs it")

    def _ready(self) -> bool:
        assert self._process is not None
        assert self._control is not None
        if self._process.poll() is not None:
            raise AdapterError(
                f"openenv's capture server ended with exit code {self._process.returncode}; {VARIABLE} names the Python that runs it"
            )
        with contextlib.suppress(httpx.HTTPError):
            return self._control.get("/health").status_code == 200
        return False

    def create_session(self) -> ProxySession:
        """A session with an id of the server's choice."""
        key = str(self._ask("POST", "/sessions", {})["session_id"])
        return ProxySession(key, self._root, sdk_urls(self._root))

    def calls(self, session: ProxySession) -> Sequence[CapturedCall]:
        """Every turn of the rollout document, the discarded ones too."""
        document = self._rollout(session)
        paths = {node: path["input_ids"] for path in document["sequences"] for node in path["node_ids"]}
        return tuple(_captured(turn, paths.get(turn["node_id"])) for turn in document["turns"])

    def export(self, session: ProxySession) -> bytes:
        """The rollout document with everything it can have."""
        return json.dumps(self._rollout(session), ensure_ascii=False).encode()

    def delete_session(self, session: ProxySession) -> None:
        """Delete it."""
        self._ask("DELETE", f"/sessions/{session.key}")

    def stop(self) -> None:
        """End the process and what it started."""
        if self._control is not None:
            self._control.close()
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(_STOP_SEC)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def versions(self) -> dict[str, str]:
        """The version that really runs."""
        return {PACKAGE: self._version}

    def _rollout(self, session: ProxySession) -> Mapping[str, Any]:
        return self._ask("GET", f"/sessions/{session.key}/rollout?include_messages=true&include_discarded=true")

    def _ask(self, method: str, path: str, document: object = None) -> dict[str, Any]:
        assert self._control is not None
        try:
            reply = self._control.request(method, path, json=document)
        except httpx.HTTPError as error:
            raise Broken(f"an answer to {method} {path}", f"{type(error).__name__}: {error}") from error
        if not reply.is_success:
            raise Broken(f"a success of {method} {path}", f"status {reply.status_code}: {reply.text}")
        answer: dict[str, Any] = reply.json()
        return answer


def openenv_version(python: str) -> str:
    """The version that this Python has. Raises AdapterError."""
    try:
        return ask(f"{PACKAGE} in {python}", [python, "-c", _ASK_VERSION], {})
    except (ProvisionError, OSError) as error:
        raise AdapterError(f"{python} has no {PACKAGE} ({error}); set {VARIABLE} to a Python that has it") from None


def openenv_python() -> str:
    """The Python that has openenv: that of the environment variable, or one made once in the cache. Raises AdapterError."""
    named = os.environ.get(VARIABLE)
    if named:
        return named
    cache = Cache()
    entry = cache.entry(f"peer/{PACKAGE}", VERSION, {"package": PACKAGE, "version": VERSION, "python": sys.version_info[:2]})
    python = entry.tree / "venv" / "bin" / "python"

    def make(making: Making) -> Made:
        run_installer(making, "uv venv", [uv_program(), "venv", "--python", sys.executable, making.tree / "venv"], {})
        spec = f"{PACKAGE}=={VERSION}"
        run_installer(making, f"uv pip install {spec}", [uv_program(), "pip", "install", "--python", python, spec], {})
        return Made(version=VERSION, digest=digest_of([spec]))

    try:
        cache.obtain(entry, f"{PACKAGE} {VERSION}", make, lambda _line: None)
    except ProvisionError as error:
        raise AdapterError(f"{error}; or set {VARIABLE} to a Python that has it") from None
    return str(python)


def _captured(turn: Mapping[str, Any], path: Sequence[Any] | None) -> CapturedCall:
    start, end = turn["n_prompt"], turn["n_prompt"] + turn["n_sampled"]
    prompt = tuple(path[:start]) if path and start else None
    ids = tuple(path[start:end]) if path and end > start else None
    logprobs = turn["sampled_logprobs"]
    sample = CapturedSample(ids, None if logprobs is None else tuple(logprobs), turn["finish_reason"])
    return CapturedCall(prompt, (sample,), delivered=False if turn["discarded"] else None)


def _tail(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    return " ".join(line.strip() for line in lines[-5:] if line.strip()) or "it said nothing"
