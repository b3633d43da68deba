"""Runs a harness once in the local sandbox, every channel's port open, and says what it did.

The engine follows a script, so that nothing of this needs a model. A run ends with the harness, at its time limit, or a moment after the
first answered call where that is all that is to be known.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_harness.capture import CaptureProxy, Upstream
from pytest_harness.discovery.channels import Channel, rendered
from pytest_harness.discovery.lookups import LAYOUT_FILES, PORT, Lookups
from pytest_harness.discovery.watch import Request, Watch
from pytest_harness.engines.scripted import Script, ScriptedEngine
from pytest_harness.evidence import Call
from pytest_harness.owners import temporary_folder
from pytest_harness.provision import Installed
from pytest_harness.rollouts.engines import SCRIPTED_MODEL, SCRIPTED_ROOM
from pytest_harness.sandboxes.bubblewrap import Sandbox
from pytest_harness.sandboxes.layout import HOME, Layout, Mount
from pytest_harness.sandboxes.running import Finished, Runner
from pytest_harness.seams.placeholders import fill
from pytest_harness.serving import BackgroundServer

WORKDIR = "/app"
LOGS = "/logs/agent"
FIRST_PORT = 8601
GRACE_SEC = 2.0
"""How long a harness may still go on after its first answer, where only that is to be known: other calls come with it."""
ASTRAY_SEC = 8.0
"""How long it may still go on after it has asked for a vendor's own host, where it should have come to the proxy."""
_VENDORS = re.compile(
    r"api\.(openai|anthropic|mistral|groq|x|deepseek|together)\.(com|ai|xyz)|(api|ai-gateway)\.vercel\.\w+|openrouter\.ai"
    r"|generativelanguage\.googleapis\.com|dashscope[\w-]*\.aliyuncs\.com|api\.(moonshot|kimi)\.\w+"
)
_OUTPUT_LIMIT = 1 << 20
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_TELLING = 40
"""So many characters of the task are looked for in the files that it leaves: they have no line break and no quote to be escaped."""
_LOOK = 20
"""Seconds within which the sandbox must have been looked at afterwards."""


@dataclass(frozen=True)
class Seen:
    """What one run did."""

    code: int | None
    """Its exit status; None where it was ended by us."""
    output: str
    requests: tuple[Request, ...]
    calls: tuple[Call, ...]
    hosts: tuple[str, ...]
    """The hosts that it asked for by name."""
    logs: tuple[str, ...]
    """The files that hold words of the task."""
    seconds: float

    @property
    def answered(self) -> tuple[Call, ...]:
        """The model calls that were answered well."""
        return tuple(call for call in self.calls if call.outcome == "complete")

    @property
    def moved(self) -> tuple[Request, ...]:
        """The requests for a completion, the answered ones first."""
        calls = [request for request in self.requests if request.model_call]
        return tuple(sorted(calls, key=lambda request: not request.answered))

    @property
    def astray(self) -> bool:
        """Whether it looked for a vendor's model, so that it was told its task well, but not where its model is."""
        return not self.moved and any(map(_VENDORS.fullmatch, self.hosts))


class Lab:
    """Runs one harness as often as it is asked to, each time in a sandbox of its own."""

    def __init__(self, installed: Installed, *, limit_sec: float) -> None:
        self._installed = installed
        self.limit_sec = limit_sec

    def ask(self, command: str) -> tuple[int, str]:
        """The exit status and the output of a command that needs no model, such as one for help."""
        with self._sandbox({}) as sandbox:
            finished = asyncio.run(_run(sandbox, command, {}, self.limit_sec, None))
        return (124, "") if finished is None else (finished.code, _text(finished))

    def run(
        self,
        command: str,
        *,
        instruction: str,
        channels: Sequence[Channel],
        switches: Mapping[str, str],
        script: Script,
        whole: bool,
        limit_sec: float | None = None,
    ) -> Seen:
        """One run. ``command`` has the placeholders of a row's; ``whole`` lets it go on after the first answer."""
        setting = rendered(channels, first_port=FIRST_PORT, model=SCRIPTED_MODEL)
        env = {**switches, **setting.env}
        line = str(fill(command, setting.values)).replace("{instruction}", shlex.quote(instruction))
        proxy = CaptureProxy()
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(temporary_folder("discovery"))
            engine = stack.enter_context(BackgroundServer(ScriptedEngine(script, model=SCRIPTED_MODEL, max_model_len=SCRIPTED_ROOM)))
            session = proxy.open_session(Upstream(url=engine.listen().url, model=SCRIPTED_MODEL), folder / "journal.ndjson")
            enough = _Enough(lambda: bool(watch.requests))
            watch = Watch(proxy, session.key, ports=setting.ports, keys=setting.keys, answered=enough.answered)

            def looked_up(name: str) -> None:
                if _VENDORS.fullmatch(name):
                    enough.astray()

            server = stack.enter_context(BackgroundServer(watch))
            sandbox = stack.enter_context(self._sandbox(setting.files))
            lookups = stack.enter_context(Lookups(sandbox.datagrams(PORT), looked_up))
            for port in setting.ports:
                server.listen(sandbox.listener(port))
            started = time.monotonic()
            words = instruction.strip().splitlines()[0][:_TELLING]
            observed = self._observe(sandbox, line, env, limit_sec or self.limit_sec, None if whole else enough, words=words)
            finished, logs = asyncio.run(observed)
            seconds = time.monotonic() - started
            calls = session.close()
            return Seen(
                code=None if finished is None else finished.code,
                output="" if finished is None else _text(finished),
                requests=tuple(watch.requests),
                calls=calls,
                hosts=lookups.names,
                logs=logs,
                seconds=seconds,
            )

    async def _observe(
        self, sandbox: Sandbox, line: str, env: Mapping[str, str], limit_sec: float, enough: _Enough | None, *, words: str
    ) -> tuple[Finished | None, tuple[str, ...]]:
        finished = await _run(sandbox, line, env, limit_sec, enough)
        look = f"find {HOME} {WORKDIR} /tmp /var /logs -xdev -type f -size -64M -exec grep -lFa -e {shlex.quote(words)} {{}} +"
        listing = await _run(sandbox, look, {}, _LOOK, None)
        return finished, () if listing is None else tuple(sorted(listing.stdout.decode(errors="replace").splitlines()))

    @contextlib.contextmanager
    def _sandbox(self, files: Mapping[str, str]) -> Iterator[Sandbox]:
        with temporary_folder("discovery") as folder:
            mounts = []
            for number, (path, text) in enumerate(LAYOUT_FILES.items()):
                source = Path(folder, str(number))
                source.write_text(text, encoding="utf-8")
                source.chmod(0o644)
                mounts.append(Mount(source, path))
            layout = Layout(mounts=(*mounts, *self._installed.mounts), shims=self._installed.shims, files=files)
            with Sandbox.start("discovery", layout) as sandbox:
                yield sandbox


class _Enough:
    """Says to a waiting coroutine, from other threads, that all that is to be known was seen. ``came`` says whether requests came."""

    def __init__(self, came: Callable[[], bool]) -> None:
        self._came = came
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over = asyncio.Event()

    def answered(self) -> None:
        """A call was answered."""
        self._later(GRACE_SEC, self._over.set)

    def astray(self) -> None:
        """It looks for its model elsewhere."""
        self._later(ASTRAY_SEC, lambda: None if self._came() else self._over.set())

    def _later(self, seconds: float, then: Callable[[], None]) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the run is over already
                self._loop.call_soon_threadsafe(self._loop.call_later, seconds, then)

    async def wait(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self._over.wait()


async def _run(sandbox: Sandbox, line: str, env: Mapping[str, str], limit_sec: float, enough: _Enough | None) -> Finished | None:
    """Run a shell command in the work folder; None where it was ended by us."""
    runner = Runner(sandbox, _OUTPUT_LIMIT)
    argv = ["/bin/bash", "-c", f"mkdir -p {WORKDIR} {LOGS} && cd {WORKDIR} && {line}"]
    running = asyncio.ensure_future(runner.run(argv, env=env, timeout=limit_sec))
    waiting = asyncio.ensure_future(enough.wait()) if enough else running
    try:
        await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            running.cancel()
        return await running
    except (TimeoutError, asyncio.CancelledError):
        return None
    finally:
        waiting.cancel()
        runner.close()


def _text(finished: Finished) -> str:
    """What it said, without what colours it."""
    return _COLOURS.sub("", (finished.stdout + finished.stderr).decode(errors="replace"))
