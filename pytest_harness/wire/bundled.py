"""The adapter of this project's own proxy: in this process, one journal a session."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from pytest_harness import __version__
from pytest_harness.capture import CaptureProxy, Session, Upstream, read_journal
from pytest_harness.serving import ASGIApp, BackgroundServer
from pytest_harness.wire.adapter import DIALECTS, CapturedCall, CapturedSample, Engine, ProxyAdapter, ProxySession


class BundledProxy(ProxyAdapter):
    """The bundled capture proxy, without its control plane: sessions are opened by calling it."""

    name = "bundled"
    dialects = frozenset(DIALECTS)

    def start(self, engine: Engine, folder: Path) -> None:
        """Serve the proxy on a loopback port."""
        self._upstream = Upstream(url=engine.url, model=engine.model, api_key=engine.api_key)
        self._folder = folder
        self._numbers = itertools.count()
        self._proxy = CaptureProxy()
        self._server = BackgroundServer(self.app(self._proxy)).start()
        self._url = self._server.listen().url

    def app(self, proxy: CaptureProxy) -> ASGIApp:
        """What is served; a saboteur puts itself between."""
        return proxy

    def create_session(self) -> ProxySession:
        """A session with a journal of its own."""
        session = self._proxy.open_session(self._upstream, self._folder / f"session-{next(self._numbers)}.ndjson")
        return ProxySession(session.key, self._url, sdk_urls(self._url), session)

    def calls(self, session: ProxySession) -> Sequence[CapturedCall]:
        """The calls in the journal that have a reply."""
        return tuple(
            CapturedCall(
                prompt_ids=call.prompt_ids,
                samples=tuple(CapturedSample(each.token_ids, each.logprobs, each.finish_reason) for each in call.samples),
                complete=call.outcome == "complete",
                delivered={"delivered": True, "client_gone": False}.get(call.delivery),
                notes=call.notes,
            )
            for call in read_journal(_session(session).journal.path)
        )

    def export(self, session: ProxySession) -> bytes:
        """The journal as it is on disk, and the calls as they are read from it."""
        path = _session(session).journal.path
        return b"\n".join([path.read_bytes(), *(call.model_dump_json().encode() for call in read_journal(path))])

    def delete_session(self, session: ProxySession) -> None:
        """Close the session; its journal stays."""
        _session(session).close()

    def stop(self) -> None:
        """Stop the server."""
        if hasattr(self, "_server"):
            self._server.close()

    def versions(self) -> dict[str, str]:
        """The version of this project."""
        return {"harness-conformance": __version__}


def sdk_urls(root: str) -> dict[str, str]:
    """The base URLs that the SDKs want, for a proxy that serves all dialects at one address."""
    return {"chat": f"{root}/v1", "responses": f"{root}/v1", "messages": root, "gemini": root}


def _session(session: ProxySession) -> Session:
    handle = session.handle
    assert isinstance(handle, Session)
    return handle
