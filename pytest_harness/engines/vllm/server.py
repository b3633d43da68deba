"""Starts vLLM's server on loopback, waits until it answers, and ends it; it also ends when the process that started it is killed.

https://docs.vllm.ai/en/stable/cli/serve/ has the flags. Those for the CPU were measured: one process instead of three, and no compiler
in the first request.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import httpx

from pytest_harness.owners import marked

READY_SECONDS = 600
OWN_READY_SECONDS = 1800
"""For a vLLM of the user's own, which may have to load a large model, or to download it first."""
PROGRAM_VARIABLE = "HARNESS_CONFORMANCE_VLLM"
"""Names the ``vllm`` to start where it is not the one on the PATH."""
_STOP_SECONDS = 20
_POLL_SECONDS = 0.25
_TELLING = ("Error", "error:", "ERROR")
_SHOWN = 300

FLAGS = (
    "--enable-auto-tool-choice",
    "--tool-call-parser=hermes",
    "--return-tokens-as-token-ids",
    "--logprobs-mode=processed_logprobs",
)
"""What a train-level engine needs, on any machine."""
CPU_FLAGS = ("--enforce-eager", "--distributed-executor-backend=uni")
CPU_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "TORCHDYNAMO_DISABLE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
}
_ENVIRONMENT = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}

_LAUNCH = """\
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the process that starts the engine is gone")
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Runs in vLLM's place: it is told to end when whoever started it is gone (PR_SET_PDEATHSIG is 1), and becomes vLLM."""


class EngineError(Exception):
    """An engine that did not start; the message says why and where its log is."""


@dataclass(frozen=True)
class Serving:
    """A running engine: its base URL with ``/v1``, its key, and the name of the model it serves."""

    url: str
    api_key: str = field(repr=False)
    model: str
    log: Path
    pid: int
    wait: Callable[[], None] = field(repr=False, default=lambda: None)
    """Waits until it answers. Raises EngineError if it does not."""


def cpu_command(python: Path, model: Path) -> list[str]:
    """What serves a model with the vLLM of this Python. The wheel for CPUs has no ``vllm`` that starts: it looks for another package."""
    return [str(python), "-m", "vllm.entrypoints.openai.api_server", f"--model={model}"]


def own_command(model: str) -> list[str]:
    """What serves a model with the vLLM of the user's choice: the one that the variable names, else the one on the PATH.

    Raises EngineError where there is none.
    """
    named = os.environ.get(PROGRAM_VARIABLE)
    found = shutil.which(named or "vllm")
    if found is None and named:
        raise EngineError(f"{PROGRAM_VARIABLE} names {named}, which cannot be run; correct it, or unset it to use the vllm on the PATH")
    if found is None:
        raise EngineError(
            f"--model {model} is served by a vLLM of your own, and there is no vllm on the PATH; install one, name it in "
            f"{PROGRAM_VARIABLE}, or leave --model out to run the bundled model on the CPU"
        )
    return [found, "serve", model]


@contextlib.contextmanager
def serve(
    command: Sequence[str],
    *,
    name: str,
    log: Path,
    flags: Sequence[str] = (*FLAGS, *CPU_FLAGS),
    environment: Mapping[str, str] = CPU_ENVIRONMENT,
    ready_seconds: float = READY_SECONDS,
    waiting: Callable[[float], None] = lambda _: None,
    wait: bool = True,
) -> Iterator[Serving]:
    """Serve a model under ``name`` until the context is left. ``command`` is what runs vLLM's server with that model.

    ``waiting`` is told every quarter of a second how many seconds the start has taken. With ``wait=False`` the server may not answer yet.
    Raises EngineError.
    """
    port, key = _free_port(), secrets.token_urlsafe(32)
    arguments = [f"--served-model-name={name}", "--host=127.0.0.1", f"--port={port}", *flags]
    whole = [sys.executable, "-I", "-c", _LAUNCH, str(os.getpid()), *command, *arguments]
    with _opened(log) as output:
        process = subprocess.Popen(
            whole,
            env=marked({**os.environ, **_ENVIRONMENT, **environment, "VLLM_API_KEY": key}),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    url = f"http://127.0.0.1:{port}"
    ready = functools.partial(_wait_until_ready, process, f"{url}/health", log, ready_seconds, waiting)
    try:
        if wait:
            ready()
        yield Serving(f"{url}/v1", key, name, log, process.pid, ready)
    finally:
        _stop(process)


def _opened(log: Path) -> BinaryIO:
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        if log.exists() and not log.is_file():  # a FIFO would make the writer wait for ever
            raise EngineError(f"its log {log} is no plain file; remove it")
        return log.open("wb")
    except OSError as error:
        raise EngineError(f"its log {log} cannot be written ({error.strerror}); remove what is in its place") from None


def _wait_until_ready(
    process: subprocess.Popen[bytes], health: str, log: Path, ready_seconds: float, waiting: Callable[[float], None]
) -> None:
    started = time.monotonic()
    with httpx.Client(timeout=5, trust_env=False) as client:
        while (passed := time.monotonic() - started) < ready_seconds:
            if process.poll() is not None:
                raise EngineError(f"vLLM ended with exit code {process.returncode} before it was ready: {_gist(log)}; its log is {log}")
            with contextlib.suppress(httpx.HTTPError):
                if client.get(health).status_code == 200:
                    return
            waiting(passed)
            time.sleep(_POLL_SECONDS)
    raise EngineError(f"vLLM was not ready after {ready_seconds:g} s; its log is {log}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ask it to end, with all that it started, and then make it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        pass
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _gist(log: Path) -> str:
    """The last line of the log that tells of an error, else the last one."""
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    telling = [line for line in lines if any(word in line for word in _TELLING)]
    return (telling or lines or ["it said nothing"])[-1][-_SHOWN:]


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port: int = sock.getsockname()[1]
        return port
