"""How the wire suite starts the proxy, makes sessions and reads captures: ``pytest --proxy=ledger_proxy.adapter:LedgerAdapter``."""

import asyncio
import json
import threading
from dataclasses import asdict
from importlib.metadata import version

from aiohttp import web

from ledger_proxy.app import LedgerProxy
from pytest_harness.wire import CapturedCall, CapturedSample, ProxyAdapter, ProxySession


class LedgerAdapter(ProxyAdapter):
    """The proxy in a thread of this process."""

    name = "ledger-proxy"
    dialects = frozenset({"chat"})

    def start(self, engine, _):
        """Serve on a loopback port; the folder that is offered stays empty."""
        self._proxy = LedgerProxy(engine.url, engine.model, engine.api_key)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._url = asyncio.run_coroutine_threadsafe(self._serve(), self._loop).result(30)

    async def _serve(self):
        # A harness that goes away ends the engine's work; bodies are unpacked by the proxy itself, which has a limit for them.
        self._runner = web.AppRunner(self._proxy.app(), handler_cancellation=True, auto_decompress=False, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, backlog=1024)
        await site.start()
        return site.name

    def create_session(self):
        """A session of the proxy."""
        session = self._proxy.open()
        return ProxySession(session.key, self._url, {"chat": f"{self._url}/v1"}, session)

    def calls(self, session):
        """The calls that have ids; without them nothing can be trained on."""
        return [
            CapturedCall(
                prompt_ids=tuple(call.prompt_ids),
                samples=tuple(
                    CapturedSample(tuple(choice.ids), None if choice.logprobs is None else tuple(choice.logprobs), choice.finish)
                    for _, choice in sorted(call.choices.items())
                ),
            )
            for call in list(session.handle.calls)
            if call.prompt_ids and all(choice.ids is not None for choice in call.choices.values())
        ]

    def export(self, session):
        """All that is kept of a session."""
        return json.dumps([asdict(call) for call in session.handle.calls]).encode()

    def delete_session(self, session):
        """End it."""
        self._proxy.end(session.handle)

    def stop(self):
        """Stop serving."""
        if hasattr(self, "_runner"):
            asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(30)
        if hasattr(self, "_loop"):
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(30)
            self._loop.close()

    def versions(self):
        """Of the proxy."""
        return {"ledger-proxy": version("ledger-proxy")}
