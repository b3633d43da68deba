"""A sandbox that behaves like one on another machine: nothing can be mounted, files come and go by upload and download, and its network is
another one, in which there is a single way out: the public URL of a tunnel, on the port that FAR_PORT names.

It runs on this machine, in namespaces of its own. Neither this machine's loopback nor anything else of it is reached from inside.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import override

from harbor.environments.capabilities import EnvironmentCapabilities

from pytest_harness.sandboxes.channel import SandboxError
from pytest_harness.sandboxes.local import LocalSandbox


class FarSandbox(LocalSandbox):
    """One such sandbox. Its internet is the port of the tunnel."""

    @staticmethod
    @override
    def type() -> str:
        return "far"

    @property
    @override
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities()

    @override
    async def start(self, force_build: bool) -> None:
        if self._host_mounts:
            raise SandboxError("nothing of another machine can be mounted here")
        await super().start(force_build)
        port = int(os.environ["FAR_PORT"])
        listening = self._running().sandbox.listener(port)
        self._internet = await asyncio.start_server(lambda reader, writer: _to_tunnel(port, reader, writer), sock=listening)

    @override
    async def stop(self, delete: bool) -> None:
        if self._runner is not None:
            self._internet.close()
        await super().stop(delete)


class DeafSandbox(FarSandbox):
    """One that takes no files."""

    @override
    async def upload_file(self, source_path: object, target_path: str) -> None:
        raise OSError("the quota of this account is used up")


async def _to_tunnel(port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        inner, outer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(_pass_on(reader, outer), _pass_on(inner, writer))


async def _pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
    target.close()
