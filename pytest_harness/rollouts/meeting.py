"""Lets several rollouts run at the same time on one engine: at one address, each under a path of its own, and none before the others.

A harness that starts faster than another would have ended before that one begins. So the first call of each is held until all have made
one, or have ended without; but not so long that a harness gives up.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from pytest_harness.engines.scripted.asgi import send_json
from pytest_harness.rollouts.engines import Engine
from pytest_harness.rollouts.faults import Relay
from pytest_harness.serving import ASGIApp, BackgroundServer, Receive, Scope, Send

PATIENCE_SEC = 30.0


class Meeting:
    """``engines`` by the first part of the path under which each is asked."""

    def __init__(self, engines: Mapping[str, ASGIApp]) -> None:
        self._engines = engines
        self._awaited = set(engines)
        self._complete = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, once everybody is there."""
        if scope["type"] != "http":
            return
        name = scope["path"].split("/")[1]
        if name not in self._engines:
            await send_json(send, 404, {"detail": "Not Found"})
            return
        await self.expect_no_more(name)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._complete.wait(), PATIENCE_SEC)
        await self._engines[name](scope, receive, send)

    async def expect_no_more(self, name: str) -> None:
        """Nobody waits for this one any more: it is there, or does not come."""
        self._awaited.discard(name)
        if not self._awaited:
            self._complete.set()


@contextmanager
def met(engines: Sequence[Engine]) -> Iterator[Sequence[Engine]]:
    """The engines of rollouts that run at the same time; that of one that runs alone is left as it is."""
    if len(engines) == 1:
        yield engines
        return
    meeting = Meeting({str(number): Relay(engine.upstream) for number, engine in enumerate(engines)})
    with BackgroundServer(meeting) as server:
        url = server.listen().url

        def at_the_meeting(name: str, engine: Engine) -> Engine:
            upstream = dataclasses.replace(engine.upstream, url=f"{url}/{name}/v1")
            return dataclasses.replace(engine, upstream=upstream, leave=lambda: server.submit(meeting.expect_no_more(name)).result())

        yield [at_the_meeting(str(number), engine) for number, engine in enumerate(engines)]
