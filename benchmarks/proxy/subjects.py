"""The proxies that are measured, each in a process of its own on one core, from an environment of its own.

The peers' environments are made once, with uv, in the cache of this user.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import uv
from platformdirs import user_cache_path
from workload import Client, dump, head

HERE = Path(__file__).resolve().parent
COMPLETIONS = "/v1/chat/completions"
PEERS = {"openenv": ("openenv==0.10.0",), "litellm": ("litellm[proxy]==1.108.7",)}
START_SECONDS = 90

LITELLM = """\
model_list:
  - model_name: m
    litellm_params: {{model: hosted_vllm/m, api_base: "http://127.0.0.1:{engine}/v1", api_key: x}}
general_settings: {{master_key: sk-bench}}
litellm_settings: {{telemetry: false, set_verbose: false}}
"""


@dataclass
class Subject:
    """One proxy. ``sessions`` gives (path, key) pairs; ``drop`` closes what ``sessions`` opened."""

    name: str
    engine: int
    """Port of the engine."""
    core: int
    durable: bool = False
    port: int = 0
    process: subprocess.Popen[bytes] | None = None
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="bench-")))

    async def start(self) -> None:
        """Start the process and wait until it listens."""
        if self.name == "direct":
            self.port = self.engine
            return
        self.port = _free_port()
        command, env = self._command()
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(  # noqa: ASYNC220 (nothing is being measured yet)
                ["setpriv", "--pdeathsig", "KILL", "taskset", "-c", str(self.core), *command],
                env=os.environ | {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"} | env,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                (await Client.open(self.port)).close()
                break
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"{self.name} did not start: {(self.folder / 'log').read_text(errors='replace')[-800:]}") from None
                await asyncio.sleep(0.1)

    def _command(self) -> tuple[list[str], dict[str, str]]:
        if self.name == "ours":
            durable = ["--durable"] if self.durable else []
            return [sys.executable, str(HERE / "ours.py"), str(self.port), str(self.engine), str(self.folder), *durable], {}
        if self.name == "bare":
            return [sys.executable, str(HERE / "bare.py"), str(self.port), str(self.engine)], {}
        python = peer_python(self.name)
        if self.name == "openenv":
            return [str(python), str(HERE / "openenv_subject.py"), str(self.port), str(self.engine)], {}
        config = self.folder / "litellm.yaml"
        config.write_text(LITELLM.format(engine=self.engine))
        command = [str(python.parent / "litellm"), "--config", str(config), "--host", "127.0.0.1", "--port", str(self.port)]
        return [*command, "--num_workers", "1"], {"LITELLM_LOG": "ERROR", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}

    async def sessions(self, count: int) -> list[tuple[str, str]]:
        """Open so many sessions."""
        if self.name in ("ours", "openenv"):
            opened = await self._ask([("POST", "/sessions", dump({}))] * count)
            return [(COMPLETIONS, session["session_id"]) for session in opened]
        return [(COMPLETIONS, "sk-bench")] * count

    async def drop(self, sessions: list[tuple[str, str]]) -> None:
        """Close sessions."""
        if self.name in ("ours", "openenv"):
            await self._ask([("DELETE", f"/sessions/{key}", b"") for _, key in sessions])

    async def _ask(self, requests: list[tuple[str, str, bytes]]) -> list[dict[str, str]]:
        """Send requests to the control routes over one connection; their answers."""
        client = await Client.open(self.port)
        answers = []
        for method, path, body in requests:
            answer = await client.ask(head(path, "", len(body), method), body)
            if answer.status >= 300:
                raise RuntimeError(f"{self.name}: {method} {path} answered {answer.status}")
            answers.append(json.loads(answer.body or b"{}"))
        client.close()
        return answers

    def cpu(self) -> float:
        """CPU seconds of the process and its children so far."""
        return sum(_thread_nanoseconds(pid) for pid in self._tree()) / 1e9

    def memory(self) -> float:
        """Resident memory in MB."""
        return sum(_resident_kilobytes(pid) for pid in self._tree()) / 1024

    def _tree(self) -> list[int]:
        return [] if self.process is None else _with_children(self.process.pid)

    def journal_bytes(self) -> int | None:
        """Bytes of the journals; None for a subject that keeps none."""
        return sum(path.stat().st_size for path in (self.folder / "journals").rglob("*") if path.is_file()) if self.name == "ours" else None

    def stop(self) -> None:
        """End the process group."""
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def peer_python(name: str) -> Path:
    """The Python of a peer's environment, made if it is not there."""
    folder = user_cache_path("harness-conformance") / "benchmark-peers" / PEERS[name][0].replace("[", "-").replace("]", "")
    python = folder / "bin" / "python"
    if not (folder / ".ready").exists():
        program = uv.find_uv_bin()
        subprocess.run([program, "venv", "--quiet", "--clear", "--python", "3.12", folder], check=True)
        subprocess.run([program, "pip", "install", "--quiet", "--compile-bytecode", "--python", python, *PEERS[name]], check=True)
        (folder / ".ready").touch()
    return python


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port: int = sock.getsockname()[1]
        return port


def _with_children(pid: int) -> list[int]:
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except OSError:
            continue
        for child in children:
            found += _with_children(int(child))
    return found


def _thread_nanoseconds(pid: int) -> int:
    total = 0
    for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            total += int(task.read_text().split()[0])
        except OSError:
            continue
    return total


def _resident_kilobytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmRSS:")), 0)
