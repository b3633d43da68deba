"""Runs a command in a sandbox to its end, with its output, within asyncio.

However much a command writes, only the head and the tail of it are kept, with a marker between them. What ends the waiting early
(a time limit, a cancellation) kills the command's process group first. A background process that still holds the output does not keep
the command from ending; what it writes later is read and thrown away, so that it is neither blocked nor killed by it.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import sys
import termios
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

from pytest_harness.sandboxes.channel import Process, RunningSandbox

OUTPUT_LIMIT = 32 << 20
_CHUNK = 1 << 16


@dataclass(frozen=True)
class Finished:
    """How a command ended: exit status (128 + signal if killed) and the bytes it wrote, less a cut-out middle if it wrote too many."""

    code: int
    stdout: bytes
    stderr: bytes


Struck = Callable[[Callable[[], int]], Coroutine[Any, Any, Exception]]
"""Given what tells how many bytes were printed: waits until something speaks against going on."""


class Pipe:
    """Collects what is written into a pipe: at most ``limit`` bytes, half from the beginning and half from the end; or into a file."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limit: int, file: IO[bytes] | None = None) -> None:
        self._read, self.write = os.pipe()
        os.set_blocking(self._read, False)
        self._loop, self._half, self._file = loop, limit // 2, file
        self._head, self._tail, self._lost = bytearray(), bytearray(), 0
        self._wanted = True
        self._written = 0
        loop.add_reader(self._read, self._take)

    @property
    def written(self) -> int:
        """How many bytes were written into it so far."""
        return self._written

    @property
    def open(self) -> bool:
        """Whether somebody may still write into it."""
        return self._read >= 0

    def _take(self) -> int:
        """Read once. Returns how many bytes there were."""
        try:
            data = os.read(self._read, _CHUNK)
        except BlockingIOError:
            return 0
        self._written += len(data)
        if not data:
            self.close()
        elif self._wanted:
            self._keep(data)
        return len(data)

    def _keep(self, data: bytes) -> None:
        if self._file is not None:
            self._file.write(data)
            return
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail += data[max(room, 0) :]
        if len(self._tail) > 2 * self._half:
            self._trim()

    def _trim(self) -> None:
        excess = len(self._tail) - self._half
        if excess > 0:
            del self._tail[:excess]
            self._lost += excess

    def finish(self) -> bytes:
        """What was written until now. What comes later is thrown away."""
        waiting = _waiting(self._read) if self.open else 0  # no more than this: a background process may go on writing for ever
        while self.open and waiting > 0 and (taken := self._take()):
            waiting -= taken
        self._wanted = False
        self._trim()
        marker = b"\n[... %d bytes left out ...]\n" % self._lost if self._lost else b""
        return bytes(self._head + marker + self._tail)

    def close(self) -> None:
        """Stop reading. Closing twice is harmless."""
        if self.open:
            self._loop.remove_reader(self._read)
            os.close(self._read)
            self._read = -1


class Runner:
    """Runs commands in one sandbox, all in one event loop. Close it before the sandbox.

    ``struck`` is waited for beside each command: when it returns an exception, the command ends and the exception is raised.
    """

    def __init__(self, sandbox: RunningSandbox, limit: int = OUTPUT_LIMIT, struck: Struck | None = None) -> None:
        self.sandbox = sandbox
        self._struck = struck
        self._limit = limit
        self._pipes: list[Pipe] = []

    async def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str = "/",
        timeout: float | None = None,  # noqa: ASYNC109 - the command must be dead before the caller hears of it
        stdin: IO[bytes] | None = None,
        into: IO[bytes] | None = None,
    ) -> Finished:
        """Run to the end; standard output goes into the file ``into`` if given. Raises TimeoutError, SandboxDiedError.

        Raises also what ``struck`` returned before that.
        """
        loop = asyncio.get_running_loop()
        out, err = Pipe(loop, self._limit, into), Pipe(loop, self._limit)
        self._pipes = [pipe for pipe in (*self._pipes, out, err) if pipe.open]
        try:
            streams = {} if stdin is None else {"stdin": stdin}
            process = self.sandbox.spawn(argv, env=env, cwd=cwd, stdout=out.write, stderr=err.write, **streams)
        except BaseException:
            out.close()
            err.close()
            raise
        finally:
            os.close(out.write)
            os.close(err.write)
        try:
            async with asyncio.timeout(timeout):
                ended = _ended(loop, process)
                await ended if self._struck is None else await _unless(ended, self._struck(lambda: out.written + err.written))
        except BaseException:
            process.kill()
            try:
                await _ended(loop, process)  # at once: nothing survives SIGKILL
            finally:
                process.control.close()
                out.finish()
                err.finish()
            raise
        return Finished(process.wait(), out.finish(), err.finish())

    def close(self) -> None:
        """Stop reading what background processes still write."""
        for pipe in self._pipes:
            pipe.close()
        self._pipes.clear()


async def _ended(loop: asyncio.AbstractEventLoop, process: Process) -> None:
    done = asyncio.Event()
    loop.add_reader(process.control, done.set)
    try:
        await done.wait()
    finally:
        loop.remove_reader(process.control)


async def _unless(ended: Coroutine[Any, Any, None], struck: Coroutine[Any, Any, Exception]) -> None:
    """Wait until the first has ended. Raises what the second returns before that."""
    tasks = [asyncio.ensure_future(each) for each in (ended, struck)]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if tasks[0] not in done:
        raise tasks[1].result()  # type: ignore[misc]


def _waiting(descriptor: int) -> int:
    return int.from_bytes(fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)), sys.byteorder)
